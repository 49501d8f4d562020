"""tensord-import, the program of deploy/import as a command of the package."""
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensord
from conftest import LIMIT, ROOT
from tensord import importer

SOURCE = ROOT / "deploy" / "import"
PACKAGE = Path(tensord.__file__).parent
COMMANDS = {"command": [PACKAGE.parent / "bin" / "tensord-import"], "module": [sys.executable, "-m", "tensord.importer"],
            "folder": [sys.executable, SOURCE]}


def run(kind, *words, **options):
    return subprocess.run([*COMMANDS[kind], *words], capture_output=True, text=True, timeout=LIMIT, **options)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_file_becomes_a_table_of_a_data_folder(kind, tmp_path):
    np.savez(tmp_path / "films.npz", rows=np.array([[1.0, 2.0], [3.0, 4.0]]), **{"rows.keys": np.array([7, 9])})
    done = run(kind, tmp_path / "films.npz", "--data-dir", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    with tensord.serve(tmp_path / "data") as server:
        assert server.client.tables["films:rows"].loc[9].tolist() == [3, 4]


def test_the_command_is_the_program_of_deploy_import():
    names = {path.name for path in SOURCE.glob("*.py")} | {"requirements.txt"}
    assert {path.name for path in (PACKAGE / "import").iterdir()} - {"__pycache__"} == names
    for name in names:
        assert (PACKAGE / "import" / name).read_bytes() == (SOURCE / name).read_bytes()


@pytest.mark.parametrize(("kind", "name", "command"), [
    ("command", "tensord-import", "tensord-import"), ("module", "tensord-import", "tensord-import"),
    ("folder", "import", "python3 deploy/import")])
def test_it_has_the_name_under_which_it_was_started(kind, name, command, tmp_path):
    described = run(kind, "--help").stdout
    assert described.startswith(f"usage: {name} [-h]")
    assert re.findall(r"^  (.*) movies\.parquet --keys movie_id --data-dir data$", described, re.M) == [command]
    assert len(re.findall(rf"^  {command} \w", described, re.M)) == 5
    assert ("deploy/import" in described) == (kind == "folder")
    assert f"\n{name}: error: --data-dir is missing\n" in run(kind, "x.npz").stderr
    done = run(kind, tmp_path / "none.npz", "--data-dir", tmp_path / "data")
    assert done.stderr == f"{name}: error: {tmp_path}/none.npz: the file does not exist\n"
    np.savez(tmp_path / "m.npz", a=np.zeros(1), b=np.array(["x"]))
    assert run(kind, tmp_path / "m.npz", "--list").stderr.startswith(f"{name}: note: {tmp_path}/m.npz, array b: the dtype is <U1")


def test_its_exit_status_is_that_of_the_program(tmp_path):
    done = run("command", tmp_path / "none.npz", "--data-dir", tmp_path / "data")
    assert done.returncode == 1
    assert run("command").returncode == 2


def test_the_extra_import_has_what_the_program_requires():
    required = [one for one in importlib.metadata.requires("tensord") if "extra" in one]
    assert {re.split(r"\s*;", one)[0] for one in required} == set((SOURCE / "requirements.txt").read_text().split())


def test_a_python_that_is_too_old_is_named(monkeypatch):
    monkeypatch.setattr(importer.sys, "version_info", (3, 9, 1))
    with pytest.raises(SystemExit, match="Python 3.10 or newer is required; this is 3.9"):
        importer.main()
