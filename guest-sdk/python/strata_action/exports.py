"""The decorators `action`, `thinker` and `planner`, and the calls of the functions that they mark.

Before a call, `config` and `arguments` are converted to the types of the annotations. After it, the returned value is
converted to an output, a list of tasks or an index. `wasm` connects these calls with the host, and `testing` with
tests.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _validate, typed
from .context import Context, Situation
from .errors import Failure
from .message import Output, Task

registered: dict[str, Export] = {}
"""The marked functions, by the name of their decorator."""


@dataclasses.dataclass
class Export:
    """A marked function.

    Its types are those of its annotations. Evaluating them takes as long as a short action, so it is done only once.
    """

    function: Callable[..., Any]
    needs: list[str] = dataclasses.field(default_factory=list)

    @functools.cached_property
    def config_type(self) -> Any:
        """The type of `config`: `C` if the first parameter has the type `Context[C]` or `Situation[C]`, else Any."""
        parameters = list(inspect.signature(self.function).parameters)
        hint = typing.get_type_hints(self.function).get(parameters[0]) if parameters else None
        arguments = typing.get_args(hint)
        return arguments[0] if typing.get_origin(hint) in (Context, Situation) and arguments else Any

    @functools.cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters for the arguments of a tool call: all but the first."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        others = list(inspect.signature(self.function).parameters.values())[1:]
        return {parameter.name: parameter for parameter in others if parameter.kind in named}

    @functools.cached_property
    def arguments_type(self) -> Any:
        """The type of the arguments of a tool call; None if the function takes none.

        If the function has one parameter for them, whose type is that of an object, this is its type. Otherwise each
        parameter is one of the arguments.
        """
        if not self.parameters:
            return None
        hints = typing.get_type_hints(self.function, include_extras=True)
        types = {name: hints.get(name, Any) for name in self.parameters}
        if len(types) == 1 and typed.is_object(only := next(iter(types.values()))):
            return only
        return typed.Parameters({
            name: typed.Member(types[name], parameter.default is inspect.Parameter.empty, parameter.default)
            for name, parameter in self.parameters.items()
        })

    @property
    def data_type(self) -> Any:
        """The type of the output's data: `D` if the function returns `Output[D]` or the dataclass `D`, else Any."""
        hint = typing.get_type_hints(self.function).get("return")
        if typing.get_origin(hint) is Output:
            return typing.get_args(hint)[0]
        return hint if dataclasses.is_dataclass(hint) and hint is not Output else Any

    @property
    def config_schema(self) -> str | None:
        """The JSON Schema of `config`; None if its type is Any."""
        found = typed.schema(self.config_type, strict=True)
        return typed.dumps(found) if found else None

    @property
    def input_schema(self) -> str | None:
        """The JSON Schema of the arguments of a tool call; None if the function takes none."""
        if self.arguments_type is None:
            return None
        return typed.dumps(typed.schema(self.arguments_type, strict=True) or {"type": "object"})

    @property
    def output_schema(self) -> str | None:
        """The JSON Schema of the output's data; None if its type is Any."""
        found = typed.schema(self.data_type)
        return typed.dumps(found) if found else None

    def config(self, value: Any) -> Any:
        """Return the config as a value of its type. Raises Failure if it does not match.

        If the team file contains no config, the defaults of the type are used.
        """
        wanted = self.config_type
        if value is None and (dataclasses.is_dataclass(wanted) or (typing.get_origin(wanted) or wanted) is dict):
            value = {}
        try:
            return typed.decode(wanted, value, "config", strict=True)
        except ValueError as problem:
            raise Failure(str(problem)) from None

    def arguments(self, cx: Context) -> dict[str, Any]:
        """Return the arguments to pass beside the context, by the names of their parameters.

        Raises Failure if they do not match their types, or if the action is not called as a tool and a parameter has no
        default.
        """
        if self.arguments_type is None:
            return {}
        if cx.arguments is None:
            if all(parameter.default is not inspect.Parameter.empty for parameter in self.parameters.values()):
                return {}
            raise Failure("reading the arguments: the action is not called as a tool")
        try:
            found = typed.decode(self.arguments_type, cx.arguments, "arguments", strict=True)
        except ValueError as problem:
            raise Failure(str(problem)) from None
        return found if isinstance(self.arguments_type, typed.Parameters) else {next(iter(self.parameters)): found}

    def act(self, cx: Context) -> Output:
        """Call the function as an action. Raises TypeError if it returns something else than an output."""
        returned = self.function(cx, **self.arguments(cx))
        if isinstance(returned, Output):
            # Its fields may have been changed since it was created.
            returned.__post_init__()
            return returned
        if isinstance(returned, str):
            return Output(returned)
        if returned is None:
            raise TypeError(f"`{self.function.__name__}` returned nothing; an action returns a string or an `Output`")
        if isinstance(returned, Iterator):
            # It can be read only once.
            returned = list(returned)
        text = typed.dumps(returned)
        return Output(json.loads(text) if text.startswith('"') else text, data=returned)

    def choose(self, situation: Situation) -> int:
        """Call the function as a thinker. Returns an index, or -1 to end the activation."""
        chosen = self.function(situation)
        return -1 if chosen is None else _validate.index(chosen, f"what `{self.function.__name__}` returned")

    def plan(self, cx: Context) -> list[Task]:
        """Call the function as a planner."""
        planned = _validate.tasks(self.function(cx), f"what `{self.function.__name__}` returned")
        return [task if isinstance(task, Task) else Task(task) for task in planned]


def action(function: Callable | None = None, *, needs: Iterable[str] = ()) -> Callable:
    """Mark the function that implements the action.

    The function takes a `Context` and returns a string, an `Output` or a dataclass. Its other parameters receive the
    arguments of a tool call, converted to the types of their annotations: either each one of them, or a single one all
    of them, as a dataclass or a dictionary. `Annotated[T, "…"]` describes an argument to the model.

    `needs` lists the capabilities that it requires: `env`, `files`, `http`, `llm` or `secrets`. A team that does not
    grant them is rejected before it runs.
    """
    if function is None:
        return lambda function: action(function, needs=needs)
    return register("action", function, needs)


def thinker(function: Callable) -> Callable:
    """Mark a function that takes a `Situation` and returns the index of the next action.

    If it returns None, the activation ends.
    """
    return register("thinker", function)


def planner(function: Callable) -> Callable:
    """Mark a function that takes a `Context` and returns a list of tasks, each a string or a `Task`."""
    return register("planner", function)


def register(kind: str, function: Callable, needs: Iterable[str] = ()) -> Callable:
    """Mark a function. Raises TypeError if it cannot be called as what it is marked."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"`{function.__name__}` must be a plain function; calls of the host block until they return")
    earlier = registered.get(kind)
    if earlier and _is_another_of_module(earlier.function, function):
        raise TypeError(
            f"`{earlier.function.__name__}` and `{function.__name__}` are both marked with `@{kind}`: a module has one, and "
            "another belongs into a module of its own"
        )
    registered[kind] = function.strata_export = Export(function, _validate.strings(needs, "needs"))
    return function


def _is_another_of_module(earlier: Callable, function: Callable) -> bool:
    """Return whether two functions stand at the top of the same module. Tests may mark functions within functions."""
    names = [getattr(one, "__qualname__", "<locals>") for one in (earlier, function)]
    is_top_level = not any("<locals>" in name for name in names)
    return is_top_level and names[0] != names[1] and earlier.__module__ == function.__module__


def summary(*docs: str | None) -> str:
    """Return the first paragraph of the first of these texts that is not empty, as one line."""
    doc = next(filter(None, docs), "")
    return " ".join(doc.strip().split("\n\n")[0].split())


def of(function: Callable) -> Export:
    """Return the export of a marked function. Raises TypeError if the function is not marked."""
    export = getattr(function, "strata_export", None)
    if export is None:
        raise TypeError(f"`{getattr(function, '__name__', function)}` is not marked; write `@action` above it")
    return export
