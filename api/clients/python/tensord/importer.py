"""The command tensord-import: runs the folder `import`, which is deploy/import in the sources, as a Python program."""
import runpy
import sys
from pathlib import Path


def folder() -> str:
    path = Path(__file__).parent / "import"
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is missing: the package was installed from a copy of its folder that lacks the target of the link tensord/import. Copy the folder with cp -rL")
    return str(path)


def main() -> None:
    if sys.version_info < (3, 10):
        sys.exit("tensord-import: error: Python 3.10 or newer is required; this is " + ".".join(map(str, sys.version_info[:2])))
    try:
        path = folder()
    except FileNotFoundError as error:
        sys.exit(f"tensord-import: error: {error}")
    runpy.run_path(path, {"COMMAND": "tensord-import"}, "__main__")


if __name__ == "__main__":
    main()
