"""Writes to the data folder atomically: files appear completely or not at all, whenever the import ends.

Files are written to a hidden folder, .import-NAME, which tensord does not read, and fsynced. A rename
then moves them to their place, and the folders are fsynced. If a crash leaves a hidden folder, the next
import of that name empties it. While an import writes to a hidden folder, the folder is locked.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import types
from collections.abc import Callable, Iterator

from table import Refused

MANIFEST = "manifest.json"
READ_BYTES = 4 << 20


@contextlib.contextmanager
def naming(path: pathlib.Path) -> Iterator[None]:
    """Adds the name of the file to a system error about its descriptor."""
    try:
        yield
    except OSError as e:
        e.filename = e.filename or str(path)
        raise


def sync_folder(path: pathlib.Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with naming(path):
            os.fsync(fd)
    finally:
        os.close(fd)


class Staging:
    """An empty hidden folder that is locked while an import writes to it. At the end it is removed, unless
    it was published.
    """

    def __init__(self, data_dir: pathlib.Path, name: str) -> None:
        self.data_dir, self.path = data_dir, data_dir / f".import-{name}"

    def __enter__(self) -> "Staging":
        self.fd = -1
        while self.fd < 0:
            self.fd = self.try_lock()
        for left in self.path.iterdir():
            left.unlink()
        return self

    def try_lock(self) -> int:
        """Locks the folder. Returns its descriptor, or -1 if another import moved the folder before it was
        locked.
        """
        self.path.mkdir(exist_ok=True)
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            with naming(self.path):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(self.path, follow_symlinks=False)):
                return fd
        except BlockingIOError:
            os.close(fd)
            raise Refused(f"{self.path}: another import is writing to it") from None
        except FileNotFoundError:
            pass
        os.close(fd)
        return -1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        try:
            if os.path.samestat(os.fstat(self.fd), os.stat(self.path, follow_symlinks=False)):
                shutil.rmtree(self.path, ignore_errors=True)
        except FileNotFoundError:
            pass  # The folder was published.
        os.close(self.fd)

    def publish_file(self, name: str) -> tuple[pathlib.Path, bool]:
        """Moves a file to the data folder. Returns its path, and True if it replaced a file of that name."""
        target = self.data_dir / name
        replaces = target.exists()
        os.rename(self.path / name, target)
        sync_folder(self.data_dir)
        return target, replaces

    def publish_version(self, version: str) -> pathlib.Path:
        """Publishes the folder as a version, which must not exist."""
        target = self.data_dir / version
        sync_folder(self.path)
        try:
            os.rename(self.path, target)
        except OSError as e:
            refuse_existing(target)
            raise e
        sync_folder(self.data_dir)
        return target


def refuse_existing(version: pathlib.Path) -> None:
    if version.exists() or version.is_symlink():
        raise Refused(
            f"{version}: the version already exists, and versions are immutable; choose another"
            " --version"
        )


def refuse_hidden(data_dir: pathlib.Path, names: list[str]) -> None:
    """Refuses names of tables that tensord has written itself, for example after an upsert with persist=1.
    tensord would serve its own file instead of the imported table.
    """
    for name in names:
        own = data_dir / f"{name}.tensord"
        if own.exists():
            raise Refused(
                f"{own} has data stored over HTTP, such as upserts, and would be served instead of"
                " the imported table. To keep the data, import under another --name; to discard it,"
                " remove the file"
            )


# ---------------------------------------------------------------- manifest.json
def sha256_of(path: pathlib.Path, add: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
            add(len(data))
    return digest.hexdigest()


def write_manifest(
    folder: pathlib.Path, aliases: dict[str, str], add: Callable[[int], None]
) -> None:
    """Writes the manifest of a version: its files, so that tensord loads all of them or none, and the
    aliases to set.
    """
    files = {
        path.name: {"size": path.stat().st_size, "sha256": sha256_of(path, add)}
        for path in sorted(folder.iterdir())
    }
    manifest = {"files": files, **({"aliases": aliases} if aliases else {})}
    with (
        naming(folder / MANIFEST),
        (folder / MANIFEST).open("x", encoding="utf-8") as file,
    ):
        json.dump(manifest, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
