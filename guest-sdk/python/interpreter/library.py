"""What scripts may import, beside the SDK: modules of the standard library. They are loaded here, when the component is
made, since nothing can be loaded when a script runs. What needs threads, sockets or other programs is left out.
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
