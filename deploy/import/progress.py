"""Shows the progress of an import in one line. On a terminal the line is redrawn; otherwise it is
printed once at the end.
"""

import shutil
import sys
import time

REDRAW_SECONDS = 0.1
BAR = 24


def size_text(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            break
        count, unit = count / 1000, {"B": "kB", "kB": "MB", "MB": "GB", "GB": "TB"}[unit]
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"


class Progress:
    """The progress of one step. `total` is the size of the step in bytes, or 0 if it is not known."""

    def __init__(self, title: str, total: int, quiet: bool) -> None:
        self.title, self.total, self.done = title, total, 0
        self.begun = self.drawn = time.monotonic()
        self.quiet, self.draws = quiet, not quiet and sys.stderr.isatty()

    def add(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if self.draws and now - self.drawn >= REDRAW_SECONDS:
            self.drawn = now
            sys.stderr.write("\r\033[K" + self.line(now)[: shutil.get_terminal_size().columns - 1])
            sys.stderr.flush()

    def line(self, now: float) -> str:
        seconds = now - self.begun
        rate = self.done / seconds if seconds > 0 else 0.0
        if not self.total:
            return f"{self.title}: {size_text(self.done)}, {seconds:.0f} s"
        part = min(1.0, self.done / self.total)
        left = f", {(self.total - self.done) / rate:.0f} s left" if rate > 0 else ""
        bar = "#" * int(part * BAR)
        return (
            f"{self.title} [{bar:<{BAR}}] {100 * part:.0f}% of {size_text(self.total)},"
            f" {size_text(rate)}/s{left}"
        )

    def end(self) -> None:
        """Replaces the bar with a summary. Without a terminal, the summary is the only line."""
        if self.quiet:
            return
        seconds = time.monotonic() - self.begun
        clear = "\r\033[K" if self.draws else ""
        sys.stderr.write(f"{clear}{self.title}: {size_text(self.done)} in {seconds:.1f} s\n")
        sys.stderr.flush()

    def abandon(self) -> None:
        if self.draws:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
