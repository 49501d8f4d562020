"""The command tensord-import: the program in the folder import, which is deploy/import of the sources, as Python runs a folder."""
import runpy
import sys
from pathlib import Path


def folder() -> str:
    path = Path(__file__).parent / "import"
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is missing: the package was installed from a copy of its folder without what the link tensord/import leads to; cp -rL copies that, too")
    return str(path)


def main() -> None:
    if sys.version_info < (3, 10):
        sys.exit("tensord-import: error: it needs Python 3.10 or newer; this is " + ".".join(map(str, sys.version_info[:2])))
    try:
        path = folder()
    except FileNotFoundError as error:
        sys.exit(f"tensord-import: error: {error}")
    runpy.run_path(path, {"COMMAND": "tensord-import"}, "__main__")


if __name__ == "__main__":
    main()
