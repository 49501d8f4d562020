"""serve: a daemon for a notebook or a test, which ends with this process."""
from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

from .client import Client
from .errors import TensordError

START_LIMIT = 30.0  # seconds


def binary() -> str:
    """the daemon of this package, else $TENSORD, else tensord in PATH"""
    packaged = Path(__file__).parent / "bin" / "tensord"
    found = str(packaged) if packaged.exists() else os.environ.get("TENSORD") or shutil.which("tensord")
    if not found:
        raise FileNotFoundError("there is no tensord in the package, in $TENSORD or in PATH")
    return found


class Server:
    """a running daemon; `client` is connected to it"""

    def __init__(self, command: list[str]):
        self.folder = tempfile.TemporaryDirectory(prefix="tensord-serve-")
        self.log = Path(self.folder.name) / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        atexit.register(self.stop)
        self.url = "http://" + self._address()
        self.client = Client(self.url)

    def _address(self) -> str:
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            text = self.log.read_text(errors="replace")
            for line in text.splitlines():
                if " listening " in line:
                    return line.partition(" address=")[2].split()[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        self.stop()
        raise TensordError(f"the daemon did not start; its log: {text[-2000:]}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        atexit.unregister(self.stop)
        self.folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def serve(folder: Optional[str] = None, *options: str, listen: str = "127.0.0.1:0") -> Server:
    """starts the daemon with the tables of the folder; on a free port of this machine unless `listen` says another"""
    data = ["--data-dir", os.fspath(folder)] if folder is not None else []
    return Server([binary(), "--listen", listen, "--log-format", "text", *data, *options])
