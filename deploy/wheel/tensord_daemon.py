"""tensord_daemon - the command `tensord` of the wheel.

It replaces the Python process with the daemon, so that signals and the exit status are the daemon's own.
"""
import os
import sys
from pathlib import Path

BINARY = Path(__file__).parent / "tensord" / "bin" / "tensord"


def main():
    try:
        os.execv(BINARY, sys.argv)
    except OSError as error:
        sys.exit(f"tensord: {BINARY} cannot be run: {error.strerror}")
