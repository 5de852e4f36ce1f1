"""What an author marks for the host to call, and how such a function is called: config read as its type, what it
returns made an output. How calls cross to the host is the business of `wasm`, how tests make them, of `testing`.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any

from . import _border, typed
from .context import Context, Situation
from .errors import Failure
from .message import Output, Task

registered: dict[str, Export] = {}
"""The functions that are marked, by what they are marked as."""


@dataclasses.dataclass
class Export:
    """A function that the host calls, and what its annotations say."""

    function: Callable[..., Any]
    needs: list[str] = dataclasses.field(default_factory=list)

    @property
    def config_type(self) -> Any:
        """What `config` is read as: the argument of the annotation `Context[Config]`; any JSON without one."""
        parameters = list(inspect.signature(self.function).parameters)
        hint = typing.get_type_hints(self.function).get(parameters[0]) if parameters else None
        arguments = typing.get_args(hint)
        return arguments[0] if typing.get_origin(hint) in (Context, Situation) and arguments else Any

    @property
    def takes_arguments(self) -> bool:
        """Whether the function has a second parameter: the arguments of a tool call."""
        return len(inspect.signature(self.function).parameters) > 1

    @property
    def arguments_type(self) -> Any:
        """What the arguments of a tool call are read as: the annotation of the second parameter."""
        parameters = list(inspect.signature(self.function).parameters)
        return typing.get_type_hints(self.function).get(parameters[1], Any)

    @property
    def data_type(self) -> Any:
        """The type of the output's data: the argument of `-> Output[Data]`, or a dataclass returned as it is."""
        hint = typing.get_type_hints(self.function).get("return")
        if typing.get_origin(hint) is Output:
            return typing.get_args(hint)[0]
        return hint if dataclasses.is_dataclass(hint) and hint is not Output else Any

    @property
    def config_schema(self) -> str | None:
        """The JSON Schema of `config`, where its type says anything."""
        found = typed.schema(self.config_type, strict=True)
        return typed.dumps(found) if found else None

    @property
    def input_schema(self) -> str | None:
        """The JSON Schema of the arguments of a tool call, where the function takes them."""
        if not self.takes_arguments:
            return None
        return typed.dumps(typed.schema(self.arguments_type, strict=True) or {"type": "object"})

    @property
    def output_schema(self) -> str | None:
        """The JSON Schema of the output's data, where its type says anything."""
        found = typed.schema(self.data_type)
        return typed.dumps(found) if found else None

    def config(self, value: Any) -> Any:
        """The config as its type; one that the team file leaves out as the type's defaults."""
        wanted = self.config_type
        if value is None and (dataclasses.is_dataclass(wanted) or (typing.get_origin(wanted) or wanted) is dict):
            value = {}
        try:
            return typed.decode(wanted, value, "config", strict=True)
        except ValueError as problem:
            raise Failure(str(problem)) from None

    def arguments(self, cx: Context) -> list[Any]:
        """The arguments of a tool call as their type, for a function that takes them."""
        if not self.takes_arguments:
            return []
        if cx.arguments is None:
            parameter = list(inspect.signature(self.function).parameters.values())[1]
            if parameter.default is not inspect.Parameter.empty:
                return []
            raise Failure("reading the arguments: the action is not called as a tool")
        try:
            return [typed.decode(self.arguments_type, cx.arguments, "arguments", strict=True)]
        except ValueError as problem:
            raise Failure(str(problem)) from None

    def act(self, cx: Context) -> Output:
        """Calls an action."""
        returned = self.function(cx, *self.arguments(cx))
        if isinstance(returned, Output):
            # It was looked at when it was made, and may have been changed since.
            returned.__post_init__()
            return returned
        if isinstance(returned, str):
            return Output(returned)
        if returned is None:
            raise TypeError(f"`{self.function.__name__}` returned nothing; an action returns a text or an `Output`")
        return Output(typed.dumps(returned), data=returned)

    def choose(self, situation: Situation) -> int:
        """Calls a thinker; -1 ends the activation."""
        chosen = self.function(situation)
        return -1 if chosen is None else _border.index(chosen, f"what `{self.function.__name__}` returned")

    def plan(self, cx: Context) -> list[Task]:
        """Calls a planner."""
        planned = _border.tasks(self.function(cx), f"what `{self.function.__name__}` returned")
        return [task if isinstance(task, Task) else Task(task) for task in planned]


def action(function: Callable | None = None, *, needs: Iterable[str] = ()) -> Callable:
    """Marks the function that is the action: it takes a `Context` and returns a text, an `Output` or a dataclass. A second
    parameter takes the arguments of a tool call, as the type of its annotation.

    `needs` names the capabilities that it cannot work without: of `env`, `files`, `http`, `llm`, `secrets`. A team that
    does not grant them is refused before it runs.
    """
    if function is None:
        return lambda function: action(function, needs=needs)
    return _register("action", function, needs)


def thinker(function: Callable) -> Callable:
    """Marks a function that takes a `Situation` and returns the index of the action to run next, or None to end."""
    return _register("thinker", function)


def planner(function: Callable) -> Callable:
    """Marks a function that takes a `Context` and returns the tasks, each a text or a `Task`."""
    return _register("planner", function)


def _register(kind: str, function: Callable, needs: Iterable[str] = ()) -> Callable:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"`{function.__name__}` must be a plain function: calls of the host wait by themselves")
    registered[kind] = function.strata_export = Export(function, _border.texts(needs, "needs"))
    return function


def of(function: Callable) -> Export:
    """What a marked function exports."""
    export = getattr(function, "strata_export", None)
    if export is None:
        raise TypeError(f"`{getattr(function, '__name__', function)}` is not marked: write `@action` above it")
    return export
