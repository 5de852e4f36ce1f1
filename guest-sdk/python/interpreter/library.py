"""Preparation of the standard library for scripts.

Modules that scripts often use are loaded when the component is built, and the others are stored in it
(`strata_library`). `asyncio` is changed to run coroutines and timers without threads and sockets, `zoneinfo` to
report that there is no time zone database, and what needs threads, sockets, other programs or a terminal to say what to
use instead.
"""

# ruff: noqa: F401
# Some of the modules below keep functions of `os` that this one replaces.
import lookups
import abc, argparse, ast, base64, binascii, bisect, calendar, cmath, codecs, collections.abc, contextlib, contextvars
import copy, csv, dataclasses, datetime, decimal, difflib, enum, errno, fnmatch, fractions, functools, gc, glob, hashlib
import heapq, hmac, html.entities, inspect, io, itertools, json, keyword, locale, logging, math, numbers, operator, os.path
import pathlib, pickle, pprint, random, re, reprlib, secrets, shlex, shutil, statistics, stat, string, struct, sys
import tempfile, textwrap, time, tokenize, traceback, types, typing, unicodedata, urllib.parse, uuid, warnings, weakref
import xml.etree.ElementTree, zlib, zoneinfo
import asyncio, asyncio.base_events, asyncio.events
import _thread, builtins, os, threading
import _strptime
import zoneinfo._common
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn

import strata_library
from strata_action import faults

faults.hide(__file__)
faults.hide(os.path.dirname(asyncio.__file__))

_NETWORK = "there are no sockets in the sandbox; use `strata_action.http`, with a grant in `allow.http`"
_PROGRAMS = "there are no other programs in the sandbox"
_THREADS = (
    "there are no threads in the sandbox; call functions one after another, and use `http.fetch_many` or `llm.ask_many` of "
    "`strata_action` for several calls of the host at the same time"
)
_INPUT = "there is no standard input; use `cx.text` or `cx.arguments`, or ask a person with `human.ask` of `strata_action`"
_PACKAGES = (
    "a script can import the standard library and `strata_action`; for HTTP use `strata_action.http`, and for packages an "
    "action in Python that lists them in its pyproject.toml, or an MCP server"
)
_MISSING = {"_ssl": _NETWORK, "ssl": _NETWORK, "_multiprocessing": _PROGRAMS, "_posixsubprocess": _PROGRAMS}
"""What to say about modules that the interpreter does not have, if it is more than that."""


@contextlib.contextmanager
def advice() -> Iterator[None]:
    """Add to an exception that is raised because a module is not found what to use instead of it."""
    try:
        yield
    except ModuleNotFoundError as problem:
        name = (problem.name or "").partition(".")[0]
        if name in sys.stdlib_module_names:
            instead = _MISSING.get(name, f"`{name.lstrip('_')}` is not available in the sandbox")
        else:
            instead = _PACKAGES
        problem.msg = f"{problem.msg}: {instead}"
        raise


class _Selector:
    """A selector without sockets. No events arrive, so `select` only sleeps."""

    def select(self, timeout: float | None = None) -> list:
        if timeout is None:
            raise RuntimeError("asyncio: all tasks wait for something that cannot happen in the sandbox")
        if timeout > 0:
            time.sleep(timeout)
        return []


class _Loop(asyncio.base_events.BaseEventLoop):
    """An event loop for coroutines and timers, without sockets, threads and signals."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Selector()

    def _process_events(self, event_list: list) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class _Policy(asyncio.events._BaseDefaultEventLoopPolicy):
    _loop_factory = _Loop


def _refuse(error: type[Exception], message: str) -> Any:
    """Return a function that takes any arguments and raises an error."""

    def refuse(*arguments: Any, **named: Any) -> NoReturn:
        raise error(message)

    return refuse


def _report_missing_database(key: str) -> None:
    raise zoneinfo.ZoneInfoNotFoundError(
        f"no time zone {key!r}: the sandbox has no time zone database; use datetime.timezone with an offset, or "
        "zoneinfo.ZoneInfo.from_file with a file that is granted"
    )


def _adapt_socket(socket: ModuleType) -> None:
    refuse = _refuse(OSError, _NETWORK)
    socket.socket.__init__ = refuse
    socket.socket.__del__ = lambda self: None
    for name in ("create_connection", "create_server", "getaddrinfo", "gethostbyname", "gethostbyaddr", "socketpair"):
        setattr(socket, name, refuse)


def _adapt_urllib(request: ModuleType) -> None:
    refuse = _refuse(request.URLError, _NETWORK)
    request.HTTPHandler.http_open = refuse
    # Without `ssl`, there is no handler of `https`, and the error would be that its type is unknown.
    request.HTTPHandler.https_open = refuse
    request.FTPHandler.ftp_open = refuse


def _adapt_subprocess(subprocess: ModuleType) -> None:
    subprocess.Popen.__init__ = _refuse(OSError, _PROGRAMS)
    subprocess.Popen.__del__ = lambda self: None


strata_library.adapt.update({
    "socket": _adapt_socket, "subprocess": _adapt_subprocess, "urllib.request": _adapt_urllib,
})
asyncio.events._set_event_loop_policy(_Policy())
zoneinfo._common.load_tzdata = _report_missing_database
builtins.input = _refuse(EOFError, _INPUT)
os.pipe = os.popen = os.system = _refuse(OSError, _PROGRAMS)
_thread.start_new_thread = _thread.start_joinable_thread = _refuse(RuntimeError, _THREADS)
threading._start_joinable_thread = _thread.start_joinable_thread
for loaded in strata_library.adapt.keys() & sys.modules.keys():
    strata_library.adapt[loaded](sys.modules[loaded])
strata_library.forget_loaded()
