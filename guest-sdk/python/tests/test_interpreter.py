"""Tests of scripts in plain Python: the forms that they may have, their results, and the reports of their errors."""

import contextlib
import io
import json
import pathlib
import sys
import unittest
import warnings

sys.path.append(str(pathlib.Path(__file__).parent.parent / "interpreter"))

import code_block
import modules
from description import describe
from script import load, translate
from strata_action import Context, Failure, Message, exports, faults


def run(text, config=None, translated=False):
    """Return the output of a script. If `translated` is true, it is translated before, and the result stored as JSON."""
    translation = json.loads(json.dumps(translate("work.py", text))) if translated else None
    cx = Context(config, news=[Message("one two", cause_by="Ask", data={"n": 2})])
    registered = dict(exports.registered)
    try:
        export = load("work.py", text, cx, translation=translation)["action"]
        cx.config = export.config(config)
        return export.act(cx)
    finally:
        exports.registered.update(registered)


def report(text, translated):
    """Return the kind and the message of the fault of a script."""
    try:
        run(text, translated=translated)
    except BaseException as problem:
        return faults.describe(problem)
    raise AssertionError("the script did not fail")


class Scripts(unittest.TestCase):
    def test_a_script_is_an_action_or_the_body_of_one(self):
        dataclasses = "from dataclasses import dataclass\nfrom strata_action import *\n"
        marked = dataclasses + (
            "@dataclass\nclass Config:\n    by: int = 1\n"
            "@dataclass\nclass Counted:\n    words: int\n"
            "@action\ndef count(cx: Context[Config]) -> Output[Counted]:\n"
            "    return Output('counted', data=Counted(len(cx.text.split()) * cx.config.by))\n"
        )
        cases = [
            ("return cx.text.upper()", None, ("ONE TWO", None)),
            ("if cx.text:\n    return {'n': cx.newest.data['n'] * cx.config['by']}", {"by": 3}, ('{"n":6}', {"n": 6})),
            ("seen = 0\ndef see():\n    global seen\n    seen += 1\nsee()\nreturn str(seen)", None, ("1", None)),
            ("from __future__ import annotations\nclass A:\n    def f(self): return 'in it'\nreturn A().f()", None, ("in it", None)),
        ]
        for text, config, expected in cases:
            for translated in (False, True):
                output = run(text, config, translated)
                self.assertEqual((output.content, output.data), expected, text)
        output = run(marked, {"by": 2})
        self.assertEqual((output.content, output.data.words), ("counted", 4))
        with self.assertRaisesRegex(Failure, "config: unknown key `to`"):
            run(marked, {"to": 2})

    def test_what_a_script_returns_prints_or_evaluates_last_is_its_result(self):
        cases = [
            ("print('a')\nprint('b', end='')\n5", "a\nb"),
            ("print('a')\nreturn 'b'", "b"),
            ("import sys\nsys.stdout.buffer.write(b'a\\n')\nprint('log', file=sys.stderr)", "a"),
            ("x = 2\nx * 3", "6"),
            ("import re\nre.compile('a')", "re.compile('a')"),
            ("[].append(1)", ""),
            ("return", ""),
            ("if __name__ == '__main__':\n    print(__name__)", "__main__"),
            ("import sys\nprint(sys.argv)\nsys.exit(0)\nprint('not reached')", "['work.py']"),
            ("exit()", ""),
            ("def f():\n    return 'in it'\ntry:\n    return f()\nexcept:\n    return 'caught'\nfinally:\n    x = 1", "in it"),
            ("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 'late'\nreturn await f()", "late"),
            ("async def f():\n    return 'late'\nreturn f()", "late"),
            ("import asyncio\nasync def main():\n    print('in main')\nasyncio.run(main())", "in main"),
            ("import pickle\nclass A: pass\nreturn type(pickle.loads(pickle.dumps(A()))).__name__", "A"),
        ]
        for text, expected in cases:
            for translated in (False, True):
                with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
                    with contextlib.redirect_stderr(io.TextIOWrapper(io.BytesIO())):
                        self.assertEqual(run(text, None, translated).content, expected, text)

    def test_code_is_found_by_its_language(self):
        cases = [
            ("```python\nreturn 5\n```", "return 5\n"),
            ("Install it:\n```sh\npip install x\n```\nThen:\n```py\nprint(1)\n```\n```py\nprint(2)\n```", "print(1)\n"),
            ("This prints:\n```\nprint(1)\n```\n```json\n{}\n```", "print(1)\n"),
            ("~~~{.python}\nprint(1)\n~~~", "print(1)\n"),
            ("print(1)", "print(1)"),
            ("text = '''\n```json\n{}\n```\n'''", None),
        ]
        for text, expected in cases:
            self.assertEqual(code_block.code(text), text if expected is None else expected)
        for text, expected in [
            ("Run it:\n```sh\nls\n```\n```JSON\n{}\n```", "its code blocks are in `sh`, `json`, and none is in `python`"),
            ("So:\n```python\nprint(1)", "its code block has no closing fence"),
        ]:
            with self.assertRaisesRegex(Failure, expected):
                code_block.code(text)

    def test_errors_name_lines_of_the_script(self):
        cases = [
            ("def f(x):\n    return x.y\n\nreturn f(cx)", ["AttributeError: ", 'File "work.py", line 4, in <module>\n    return f(cx)',
                                                          'File "work.py", line 2, in f\n    return x.y']),
            ("x = 1\nreturn 1 +", ["SyntaxError: invalid syntax", 'File "work.py", line 2', "return 1 +"]),
            ("def f(:", ["SyntaxError: invalid syntax", 'File "work.py", line 1']),
            ("class A:\n    return 1", ["SyntaxError: 'return' outside function", 'File "work.py", line 2']),
            ("def f():\n    return 1", ["the script `work.py` defines something and does not use it: call a function"]),
            ("import sys\nprint('why', file=sys.stderr)\nsys.exit(2)", ["the script ended with exit code 2\nwhy"]),
            ("raise SystemExit('no input')", ["no input"]),
            ("from strata_action import Output\nreturn Output(5)", ["TypeError: Output.content: ", 'line 2, in <module>']),
        ]
        for text, expected in cases:
            for translated in (False, True):
                _, message = report(text, translated)
                for part in expected:
                    self.assertIn(part, message)
                for name in ("script.py", "program.py", "ast.py", "<string>"):
                    self.assertNotIn(name, message)

    def test_a_translated_script_shows_the_warnings_of_the_compiler(self):
        text = "x = 1\nreturn str(x is 1)"
        shown = []
        for translated in (False, True):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run(text, translated=translated)
            shown.append([(str(each.message), each.category, each.filename, each.lineno) for each in caught])
        self.assertEqual(shown[0], shown[1])
        self.assertEqual([line for _, _, _, line in shown[0]], [2])


class Descriptions(unittest.TestCase):
    def described(self, text):
        registered = dict(exports.registered)
        try:
            return describe(text, lambda: load("work.py", text, None))
        finally:
            exports.registered.update(registered)

    def test_a_script_is_described_by_its_docstring_or_first_comment(self):
        cases = [
            ('"""\nCounts\nwords.\n\nAnd more.\n"""\nimport re', "Counts words."),
            ("#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n# Counts\n# words.\nimport re", "Counts words."),
            ("from strata_action import *\n@action\ndef f(cx):\n    'Counts.'\n", "Counts."),
            ("# Counts.\nfrom strata_action import action as act\n@act(needs=['llm'])\ndef f(cx): pass", "Counts."),
            ("x = 1", ""),
        ]
        for text, expected in cases:
            self.assertEqual(self.described(text)["description"], expected, text)

    def test_a_marked_function_has_the_schemas_of_its_types(self):
        found = self.described("""
import strata_action
from strata_action import Context, planner
from typing import Annotated

@strata_action.action(needs=["llm"])
def add(cx: Context[dict[str, int]], zeta: Annotated[int, "The first."], alpha: int = 2) -> str:
    return ""

@planner
def plan(cx): return []
""")
        schema = json.loads(found["input_schema"])
        self.assertEqual(list(schema["properties"]), ["zeta", "alpha"])
        self.assertIn("additionalProperties", found["config_schema"])
        self.assertEqual((found["needs"], found["exports"], found["output_schema"]), (["llm"], ["action", "planner"], None))

    def test_a_script_that_only_acts_is_not_run(self):
        text = "from strata_action import state\nimport functools\n@functools.cache\ndef f(): pass\nassert False"
        self.assertEqual(self.described(text)["exports"], ["action"])
        marked = self.described("'Adds.'\nfrom strata_action import action\n@action\ndef f(cx): pass\ncx.config['by']")
        self.assertEqual((marked["description"], marked["exports"]), ("Adds.", None))
        self.assertIn("AttributeError", marked["problem"])

    def test_what_a_decorator_refuses_is_an_error_with_its_line(self):
        marked = "from strata_action import *\n\n@action\n"
        cases = [
            ("async def act(cx): pass", 3, "`act` must be a plain function"),
            ("def act(cx): yield 1", 3, "`act` must be a plain function"),
            ("def one(cx): pass\n@action(needs=[])\ndef two(cx): pass", 5, "`one` and `two` are both marked"),
        ]
        for text, line, message in cases:
            found = self.described(marked + text)
            error = found["error"]
            self.assertEqual((error["file"], error["line"], found["exports"]), ("work.py", line, None), text)
            self.assertIn(f"TypeError: {message}", error["message"])


class Modules(unittest.TestCase):
    def described(self, **files):
        directory = {"module": "action", "files": [{"name": f"{name}.py", "text": text} for name, text in files.items()]}
        registered, loaded = dict(exports.registered), dict(sys.modules)
        try:
            return describe(modules.entry(directory)["text"], lambda: modules.load(directory), is_entry=True)
        finally:
            exports.registered.update(registered)
            sys.meta_path.pop(0)
            sys.modules.update(loaded)

    def test_a_directory_is_described_by_what_its_modules_mark(self):
        marked = "from strata_action import action\n@action\n"
        found = self.described(action="import other_part", other_part=marked + "def act(cx, n: int):\n    'Adds.'")
        self.assertEqual((found["description"], found["exports"]), ("Adds.", ["action"]))
        self.assertIn("integer", found["input_schema"])
        error = {"message": "no function of the module `action` is marked with `@action`", "file": "action.py"}
        self.assertEqual(self.described(action="x = 1")["error"], error)
        error = self.described(action="import other_part", other_part=marked + "async def act(cx): pass")["error"]
        self.assertEqual((error["file"], error["line"]), ("other_part.py", 2))

    def test_the_modules_of_a_directory_import_each_other(self):
        files = {
            "action.py": "from strata_action import action\nfrom greet.words import hello\nimport lines\n"
                         "@action\ndef run(cx):\n    from greet import late\n    return hello + lines.end + late.more()\n",
            "greet/__init__.py": "",
            "greet/late.py": "from . import words\ndef more():\n    return words.hello.nothing\n",
            "greet/words.py": "hello = 'hello'\n",
            "lines.py": "end = '.'\n",
        }
        directory = {"module": "action", "files": [{"name": name, "text": text} for name, text in files.items()]}
        directory["translation"] = json.loads(json.dumps(modules.translate(directory)))
        watched = []
        registered, loaded = dict(exports.registered), dict(sys.modules)
        try:
            export = modules.load(directory, lambda code, before: watched.append((code.co_filename, before)))["action"]
            export.act(Context(None))
        except AttributeError as problem:
            _, message = faults.describe(problem)
        finally:
            exports.registered.update(registered)
            sys.meta_path.pop(0)
            sys.modules.update(loaded)
        self.assertIn('File "greet/late.py", line 3, in more\n    return words.hello.nothing', message)
        self.assertEqual(watched[:3], [("action.py", 0), ("greet/__init__.py", 8), ("greet/words.py", 13)])
