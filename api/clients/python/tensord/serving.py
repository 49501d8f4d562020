"""Starts a daemon for a notebook or a test. The daemon ends with this process."""
from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

from .client import Client
from .errors import TensordError

START_LIMIT = 30.0  # maximum time in seconds until the daemon listens
# This shell script executes the daemon and leaves a background shell that watches a pipe from this process. If the
# pipe closes without a line, because this process ended in whatever way, the background shell terminates the daemon.
LAUNCH = 'exec 3<&0; { read -r _ <&3 || kill -TERM $$; } & exec "$@" 3<&- </dev/null'


def binary() -> str:
    """Returns the path of the daemon: the one in this package, else $TENSORD, else tensord in PATH."""
    packaged = Path(__file__).parent / "bin" / "tensord"
    found = str(packaged) if packaged.exists() else os.environ.get("TENSORD") or shutil.which("tensord")
    if not found:
        raise FileNotFoundError("no tensord found in the package, in $TENSORD or in PATH. After a build, set TENSORD to the path of build/tensord, "
                                "or install the wheel that deploy/wheel builds")
    if os.sep in found and not (os.path.isfile(found) and os.access(found, os.X_OK)):
        raise FileNotFoundError(f"TENSORD is {found}, which is not an executable file; expected the path of the daemon, such as build/tensord")
    return found


class Server:
    """A running daemon. `client` is a client of it, and `url` is its address."""

    def __init__(self, command: list[str], token: Optional[str] = None):
        self.folder = tempfile.TemporaryDirectory(prefix="tensord-serve-")
        self.log = Path(self.folder.name) / "log"
        with open(self.log, "wb") as log:
            # The daemon runs in a separate session, so interrupting a notebook cell or pressing Ctrl-C does not stop it.
            self.process = subprocess.Popen(["/bin/sh", "-c", LAUNCH, "sh", *command], stdin=subprocess.PIPE, stdout=log, stderr=log,
                                            start_new_session=True)
        atexit.register(self.stop)
        tls = any(option.partition("=")[0] == "--tls-certificate" for option in command)
        address = self._address()
        self.url = address if address.startswith("unix:") else f"http{'s' * tls}://{address}"
        self.client = Client(self.url, token=token)

    def _address(self) -> str:
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            text = self.log.read_text(errors="replace")
            for line in text.splitlines(keepends=True):
                if " listening " in line and line.endswith("\n"):
                    return shlex.split(line.partition(" address=")[2])[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        self.stop()
        raise TensordError(f"the daemon did not start; its log: {text[-2000:]}")

    def stop(self) -> None:
        """Closes the connections of `client` and stops the daemon, after its requests are answered or after 10 s.

        Calling stop again has no effect."""
        client: Optional[Client] = getattr(self, "client", None)  # None if the daemon did not start
        if client is not None:
            client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        with contextlib.suppress(OSError, ValueError):  # The line ends the background shell. A closed pipe means that the line was already sent.
            self.process.communicate(b"\n")
        atexit.unregister(self.stop)
        self.folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def serve(folder: Optional[str] = None, *options: str, listen: str = "127.0.0.1:0", token: Optional[str] = None) -> Server:
    """Starts a daemon with the tables of the folder, by default on a free local port.

    `listen` is the address to listen on, such as 127.0.0.1:8080 or unix:/PATH, and `options` are further options of the daemon. With the option --token-file,
    `token` is the token that `client` sends."""
    data = ["--data-dir", os.fspath(folder)] if folder is not None else []
    return Server([binary(), "--listen", listen, "--log-format", "text", "--log-level", "info", *data, *options], token)
