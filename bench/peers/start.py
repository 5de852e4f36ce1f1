"""Starts a peer's program with what lies beside it, in a Python that knows of nothing else."""

import os
import runpy
import sys

script = sys.argv[1]
sys.path.insert(0, os.path.dirname(script))
sys.argv = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
