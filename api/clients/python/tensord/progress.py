"""The progress bar of progress=True and of the command line."""
from __future__ import annotations

import sys
from typing import Callable, Optional, TextIO, Union

Progress = Callable[[int, int], None]
WIDTH = 40


class Bar:
    """A progress bar. It is called with the bytes sent and the total, and redraws its line when the percentage changes."""

    def __init__(self, file: Optional[TextIO] = None):
        self.file, self.percent = file or sys.stderr, -1

    def __call__(self, sent: int, total: int) -> None:
        percent = 100 * sent // max(total, 1)
        if percent != self.percent:
            self.percent = percent
            full = "#" * (WIDTH * percent // 100)
            print(f"\r{full:{WIDTH}} {percent:3} % of {total / 1e6:.1f} MB", end="\n" if sent == total else "", file=self.file, flush=True)


def progress_of(wanted: Union[bool, Progress, None]) -> Optional[Progress]:
    return Bar() if wanted is True else wanted or None
