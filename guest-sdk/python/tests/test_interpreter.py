"""Tests of scripts in plain Python: the forms that they may have, and the reports of their errors."""

import json
import pathlib
import sys
import unittest
import warnings

sys.path.append(str(pathlib.Path(__file__).parent.parent / "interpreter"))

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

    def test_errors_name_lines_of_the_script(self):
        cases = [
            ("def f(x):\n    return x.y\n\nreturn f(cx)", ["AttributeError: ", 'File "work.py", line 4, in <module>\n    return f(cx)',
                                                          'File "work.py", line 2, in f\n    return x.y']),
            ("x = 1\nreturn 1 +", ["SyntaxError: invalid syntax", 'File "work.py", line 2', "return 1 +"]),
            ("class A:\n    return 1", ["SyntaxError: 'return' outside function", 'File "work.py", line 2']),
            ("x = 1", ["the script `work.py` has neither a top-level `return` nor an `@action` function"]),
            ("return", ["TypeError: `run` returned nothing"]),
            ("from strata_action import Output\nreturn Output(5)", ["TypeError: Output.content: ", 'line 2, in <module>']),
        ]
        for text, expected in cases:
            for translated in (False, True):
                _, message = report(text, translated)
                for part in expected:
                    self.assertIn(part, message)
                self.assertNotIn("script.py", message)
                self.assertNotIn("<string>", message)

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
