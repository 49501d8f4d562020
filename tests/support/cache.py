"""The cache folder that all runs of the tests on a machine share, and its locks.

What is installed there once is installed by one run at a time, and what a run changes belongs to it for as long as it lasts.
"""
import contextlib, fcntl, itertools, os

CACHE = os.environ.get("TENSORD_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tensord")


def lock(path, wait=True):
    """the open file PATH.lock, locked until it is closed; None if it is locked and not waited for"""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = open(path + ".lock", "w", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        return None
    return file


@contextlib.contextmanager
def locked(path):
    """one process at a time fills what has this path"""
    with lock(path):
        yield


@contextlib.contextmanager
def own_folder(name):
    """a folder of the cache that no other run has meanwhile: NAME-1, NAME-2, ..."""
    for number in itertools.count(1):
        path = os.path.join(CACHE, f"{name}-{number}")
        if file := lock(path, wait=False):
            with file:
                os.makedirs(path, exist_ok=True)
                yield path
            return
