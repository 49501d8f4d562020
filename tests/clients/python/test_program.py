"""The command line, serve, and the commands of the README."""
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensord
from conftest import ROOT

README = (ROOT / "api/clients/python/README.md").read_text()


def program(daemon, *words, status=0):
    done = subprocess.run([sys.executable, "-m", "tensord", "--url", daemon.url, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def test_the_command_line_stores_reads_and_looks_up(daemon, tmp_path):
    np.save(tmp_path / "t.npy", np.array([[1.0], [2.0]]))
    (tmp_path / "keys").write_text("a\nb\n")
    program(daemon, "put", "cli", str(tmp_path / "t.npy"), "--keys", str(tmp_path / "keys"))
    assert program(daemon, "lookup", "cli", "b", "a") == [[2], [1]]
    assert program(daemon, "lookup", "--rows", "cli", "1") == [[2]]
    program(daemon, "get", "cli", str(tmp_path / "copy.npy"))
    assert np.load(tmp_path / "copy.npy").tolist() == [[1], [2]]
    assert "cli" in [one["name"] for one in program(daemon, "tables")]
    assert program(daemon, "gather", "params=cli", "indices=[1, 0]") == [[2], [1]]
    assert "IndexOutOfBounds" in program(daemon, "gather", "params=cli", "indices=[9]", status=1)


def test_serve_ends_its_daemon():
    with tensord.serve() as server:
        assert server.client.ready()["status"] == "ready"
    assert server.process.poll() == 0
    with pytest.raises(tensord.TensordError, match="did not start"):
        tensord.serve("/nonexistent-folder")


def test_each_block_of_python_in_the_readme_prints_what_it_shows(monkeypatch):
    for text in re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, timeout=60)
        assert done.returncode == 0, done.stderr
        shown = "".join(re.findall(r"print\(.*  # (.*)$", text, re.M))
        assert re.sub(r"\s", "", done.stdout) == re.sub(r"\s", "", shown)


def test_each_command_in_the_readme_runs(daemon, tmp_path):
    commands = re.findall(r"^python -m tensord (.*)$", README, re.M)
    assert commands
    np.save(tmp_path / "scores.npy", np.zeros((2, 2), "f4"))
    for command in commands:
        done = subprocess.run(["bash", "-c", f"{sys.executable} -m tensord --url {daemon.url} {command}"], capture_output=True, text=True,
                              cwd=tmp_path, timeout=60)
        assert done.returncode == 0, (command, done.stderr)
