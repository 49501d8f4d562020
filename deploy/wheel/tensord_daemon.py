"""tensord_daemon - the command `tensord` of the wheel.

The command replaces the Python process with the daemon, so signals reach the daemon and the exit status is the daemon's.
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
