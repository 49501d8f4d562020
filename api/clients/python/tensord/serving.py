"""serve: a daemon for a notebook or a test, which ends with this process."""
from __future__ import annotations

import atexit
import contextlib
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
# Becomes the daemon, and leaves a shell that ends it when the pipe from this process ends without a line, however that is.
LAUNCH = 'exec 3<&0; { read -r _ <&3 || kill -TERM $$; } & exec "$@" 3<&- </dev/null'


def binary() -> str:
    """the daemon of this package, else $TENSORD, else tensord in PATH"""
    packaged = Path(__file__).parent / "bin" / "tensord"
    found = str(packaged) if packaged.exists() else os.environ.get("TENSORD") or shutil.which("tensord")
    if not found:
        raise FileNotFoundError("there is no tensord in the package, in $TENSORD or in PATH; after a build, TENSORD is the path of build/tensord. "
                                "The wheel of deploy/wheel has one in the package")
    if os.sep in found and not (os.path.isfile(found) and os.access(found, os.X_OK)):
        raise FileNotFoundError(f"TENSORD is {found}, which is not a program; expected the path of one, such as build/tensord")
    return found


class Server:
    """a running daemon; `client` is connected to it"""

    def __init__(self, command: list[str], token: Optional[str] = None):
        self.folder = tempfile.TemporaryDirectory(prefix="tensord-serve-")
        self.log = Path(self.folder.name) / "log"
        with open(self.log, "wb") as log:
            # In a session of its own: the interrupt of a cell or of a terminal is not for the daemon.
            self.process = subprocess.Popen(["/bin/sh", "-c", LAUNCH, "sh", *command], stdin=subprocess.PIPE, stdout=log, stderr=log,
                                            start_new_session=True)
        atexit.register(self.stop)
        tls = any(option.partition("=")[0] == "--tls-certificate" for option in command)
        self.url = f"http{'s' * tls}://{self._address()}"
        self.client = Client(self.url, token=token)

    def _address(self) -> str:
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            text = self.log.read_text(errors="replace")
            for line in text.splitlines(keepends=True):
                if " listening " in line and line.endswith("\n"):
                    return line.partition(" address=")[2].split()[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        self.stop()
        raise TensordError(f"the daemon did not start; its log: {text[-2000:]}")

    def stop(self) -> None:
        """ends the daemon, when its requests are answered or after 10 s, and the connections of `client`; a second time without effect"""
        client: Optional[Client] = getattr(self, "client", None)  # none if the daemon did not start
        if client is not None:
            client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        with contextlib.suppress(OSError, ValueError):  # the line; it was sent before, if the pipe is closed
            self.process.communicate(b"\n")
        atexit.unregister(self.stop)
        self.folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def serve(folder: Optional[str] = None, *options: str, listen: str = "127.0.0.1:0", token: Optional[str] = None) -> Server:
    """starts the daemon with the tables of the folder; on a free port of this machine unless `listen` says another

    With the option --token-file, `token` is the one that `client` has."""
    data = ["--data-dir", os.fspath(folder)] if folder is not None else []
    return Server([binary(), "--listen", listen, "--log-format", "text", "--log-level", "info", *data, *options], token)
