"""The command tensord-import: the program in the folder import, which is deploy/import of the sources, as Python runs a folder."""
import runpy
import sys
from pathlib import Path


def main() -> None:
    if sys.version_info < (3, 10):
        sys.exit("tensord-import: error: it needs Python 3.10 or newer; this is " + ".".join(map(str, sys.version_info[:2])))
    runpy.run_path(str(Path(__file__).parent / "import"), {"COMMAND": "tensord-import"}, "__main__")


if __name__ == "__main__":
    main()
