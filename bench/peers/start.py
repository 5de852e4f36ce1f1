"""Runs a peer's program in an isolated Python that can also import the modules of this directory."""

import os
import runpy
import sys

script = sys.argv[1]
sys.path.insert(0, os.path.dirname(script))
sys.argv = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
