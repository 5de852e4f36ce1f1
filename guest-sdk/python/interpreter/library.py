"""Imports the modules of the standard library that scripts may use.

They are loaded when the component is built, because no module can be loaded when a script runs. Modules that need
threads, sockets or other programs are left out. `asyncio` is patched to run coroutines and timers without them, and
`zoneinfo` to report that there is no time zone database.
"""

# ruff: noqa: F401
import abc, argparse, array, ast, base64, binascii, bisect, calendar, cmath, codecs, collections.abc, colorsys
import configparser, contextlib, contextvars, copy, csv, dataclasses, datetime, decimal, difflib, enum, errno, fnmatch
import fractions, functools, gc, glob, gzip, hashlib, heapq, hmac, html.entities, html.parser, inspect, io, itertools
import json, keyword, locale, logging, math, mimetypes, numbers, operator, os.path, pathlib, pickle, platform, pprint
import queue, random, re, reprlib, sched, secrets, shlex, shutil, statistics, stat, string, struct, sys, tempfile
import textwrap, time, timeit, tokenize, tomllib, traceback, types, typing, unicodedata, urllib.parse, uuid, warnings
import weakref, xml.etree.ElementTree, xml.sax.saxutils, zipfile, zlib, zoneinfo
import doctest, unittest
import graphlib
import asyncio, asyncio.base_events, asyncio.events
import zoneinfo._common


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


asyncio.events._set_event_loop_policy(_Policy())


def _report_missing_database(key: str) -> None:
    raise zoneinfo.ZoneInfoNotFoundError(
        f"no time zone {key!r}: the sandbox has no time zone database; use datetime.timezone with an offset, or "
        "zoneinfo.ZoneInfo.from_file with a file that is granted"
    )


zoneinfo._common.load_tzdata = _report_missing_database
