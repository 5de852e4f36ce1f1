"""Finds and starts the program `strata-host`, which is installed with this module: `python -m strata_host run team.toml`."""

import errno
import os
import sys
import sysconfig

__all__ = ["find_program", "main"]

NAME = "strata-host"


def _places():
    """Yields the directories in which installers put programs, the most likely one first."""
    yield sysconfig.get_path("scripts")
    package = os.path.dirname(os.path.abspath(__file__))
    around = os.path.dirname(package)
    # `pip install --target`
    yield os.path.join(around, "bin")
    # `pip install --prefix`
    yield os.path.join(around, "..", "..", "..", "bin")
    # `pip install --user`
    yield sysconfig.get_path("scripts", "posix_user")
    # A wheel that was unpacked by hand.
    for name in sorted(os.listdir(around)):
        if name.startswith("strata_host-") and name.endswith(".data"):
            yield os.path.join(around, name, "scripts")


def find_program():
    """Returns the path of the program. Raises `FileNotFoundError` if it is not installed with this module."""
    for place in _places():
        path = os.path.normpath(os.path.join(place, NAME))
        if os.path.isfile(path):
            return path
    raise FileNotFoundError("the program `" + NAME + "` is not installed with this module")


def _advice(path, error):
    """Returns what to do if the program at a path cannot be started."""
    if error.errno == errno.EACCES and not os.stat(path).st_mode & 0o111:
        return "it lacks the permission to run, as in a wheel that was unpacked by hand: `chmod +x " + path + "`, or install the wheel with pip"
    if error.errno == errno.EACCES:
        return "its file system forbids programs (`noexec`): `python3 -m venv DIRECTORY` on another one, and install it there"
    if error.errno == errno.ENOEXEC:
        return "it is a program for another processor: `pip install --force-reinstall " + NAME + "`"
    return "install it again: `pip install --force-reinstall " + NAME + "`"


def main():
    """Replaces this process by the program, with the same arguments."""
    try:
        path = find_program()
    except FileNotFoundError as error:
        sys.exit("error: " + str(error) + "; install it again: `pip install --force-reinstall " + NAME + "`")
    try:
        os.execv(path, [path] + sys.argv[1:])
    except OSError as error:
        sys.exit("error: `" + path + "` cannot be started: " + error.strerror + "; " + _advice(path, error))
