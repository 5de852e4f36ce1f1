"""The action that runs scripts.

The host passes the config `{script, config}`: `script` is `{name, text, translation}`, or null if the script is in the
newest message, and `config` is the config of the team file. `passed` is true in `script` if the call brought the text
along, so that the code may be in a fence. The source of an action in a directory is
`{name, module, files, translation}` (see `modules`). `translation` is absent if the script has not been translated. To
obtain it, the host passes the config `{translate: script}` in an earlier call, whose output has the translation as its
data, or `{error: {message, file, line, column}}` if the script has a syntax error. For the config `{describe: script}`,
the data is what `description` says of the script; it may have such an `error`, too, whose line is not always known.

`script` translates and loads scripts, `modules` the modules of a directory, `code_block` finds scripts in what a model
wrote, `library` prepares the modules that they may use, `lines` reports which of their lines run, and `lookups` which
paths they do not find.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import code_block
import library
import lines
import lookups
import modules
from description import describe
from script import load, rehearse_loading, translate
from strata_action import Context, Failure, Output, Situation, Task, action, faults, planner, thinker
from strata_action.exports import Export

faults.hide(__file__)
faults.hide(lines.__file__)


def load_export(kind: str, cx: Any) -> tuple[Export, Any]:
    """Return the export of the script with this kind, and the context to call it with.

    Raises Failure if the script has no such export.
    """
    lookups.begin()
    config = cx.config["config"]
    script = cx.config["script"] or script_in_message(cx)
    cx.config = config
    export = load_script(script, cx, lines.report).get(kind)
    if export is None:
        raise Failure(f"the script `{script['name']}` marks no function with `@{kind}`")
    return export, dataclasses.replace(cx, config=export.config(config))


def load_script(script: dict[str, Any], cx: Any, watch: Any = None) -> dict[str, Export]:
    """Return the exports of a script, or of the source in a directory."""
    if "files" in script:
        return modules.load(script, watch)
    text = code_block.code(script["text"]) if script.get("passed") else script["text"]
    return load(script["name"], text, cx, watch, script.get("translation"))


def translate_script(script: dict[str, Any]) -> dict[str, Any]:
    """Return the translation of a script, or of the source in a directory, or the syntax error that it has."""
    try:
        return modules.translate(script) if "files" in script else translate(script["name"], script["text"])
    except SyntaxError as error:
        message = f"{type(error).__name__}: {error.msg}"
        return {"error": {"message": message, "file": error.filename, "line": error.lineno, "column": error.offset}}


def describe_script(script: dict[str, Any]) -> dict[str, Any]:
    """Return what a script, or the source in a directory, says of itself."""
    if "files" not in script:
        return describe(script["text"], lambda: load_script(script, None))
    return describe(modules.entry(script)["text"], lambda: load_script(script, None), is_entry=True)


def script_in_message(cx: Any) -> dict[str, Any]:
    """Return the newest message as a script. Raises Failure if there is no message."""
    messages = cx.outputs or cx.news
    if not messages:
        raise Failure("running the script of the newest message: there is no message")
    newest = messages[-1]
    return {"name": f"{newest.cause_by}.py", "text": newest.content, "passed": True}


@action
def run(cx: Context) -> Output:
    """Run a script, or translate or describe one."""
    for request, answer in (("translate", translate_script), ("describe", describe_script)):
        if request in cx.config:
            return Output("", data=answer(cx.config[request]))
    with library.advice():
        export, cx = load_export("action", cx)
        return export.act(cx)


@planner
def plan(cx: Context) -> list[Task]:
    with library.advice():
        export, cx = load_export("planner", cx)
        return export.plan(cx)


@thinker
def choose(situation: Situation) -> int:
    with library.advice():
        export, situation = load_export("thinker", situation)
        return export.choose(situation)


rehearse_loading()
