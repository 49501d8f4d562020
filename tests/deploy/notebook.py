#!/usr/bin/env python3
"""notebook.py WHEEL - from pip install to the first row by its key, in a notebook: api/clients/python/first_lookup.ipynb.

The wheel is installed into a new virtual environment, with NumPy and then nbclient and ipykernel from the package index. Prints
the seconds that pip and the notebook took. Exit status 77, with the reason, if the packages cannot be had.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "http"))
from daemon import eventually

NOTEBOOK = Path(__file__).resolve().parents[2] / "api" / "clients" / "python" / "first_lookup.ipynb"
EXPECTED = ["[3, 2]", "[[0.2, 0.8], [0.9, 0.1]]", "[0.26, 0.68, 0.62]"]
EXECUTE = """
import json, sys
from datetime import datetime, timezone
import nbformat
from nbclient import NotebookClient
book = nbformat.read(sys.argv[1], 4)
begin = datetime.now(timezone.utc)
NotebookClient(book, timeout=600, kernel_name="python3").execute()
cells = [cell for cell in book.cells if cell.cell_type == "code"]
shown = [output["data"]["text/plain"] for cell in cells for output in cell.outputs]
end = datetime.fromisoformat(cells[2].metadata.execution["iopub.status.idle"].replace("Z", "+00:00"))
print(json.dumps([shown, (end - begin).total_seconds()]))
"""


def install(python, *packages):
    """seconds"""
    begin = time.monotonic()
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"skipped: pip cannot install {', '.join(map(str, packages))}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
        sys.exit(77)
    return time.monotonic() - begin


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="tensord-notebook-") as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"
        seconds = install(python, sys.argv[1])
        install(python, "nbclient", "ipykernel")
        environment = {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": folder, "LANG": os.environ.get("LANG", "C.UTF-8")}
        done = subprocess.run([python, "-c", EXECUTE, NOTEBOOK], capture_output=True, text=True, check=False, cwd=folder, env=environment)
        if done.returncode:
            sys.exit(f"the notebook failed:\n{done.stderr[-3000:]}")
        shown, lookup = json.loads(done.stdout)
        if shown != EXPECTED:
            sys.exit(f"the notebook shows {shown}; expected {EXPECTED}")
        daemons = ["pgrep", "-f", f"{folder}/.*/tensord/bin/tensord"]
        eventually(lambda: not subprocess.run(daemons, capture_output=True, check=False).stdout, "the end of the notebook's daemon")
    print(f"ok: notebook: pip install {seconds:.1f} s, with NumPy; from the start of its kernel to the first row by key {lookup:.1f} s")


if __name__ == "__main__":
    main()
