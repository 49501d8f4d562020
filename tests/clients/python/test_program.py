"""The command line, and serve."""
import inspect
import io
import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensord
from conftest import LIMIT, eventually, problem
from tensord import progress
from tensord.__main__ import save


def program(daemon, *words, status=0):
    shown = printed(daemon, *words, status=status)
    return json.loads(shown) if status == 0 else shown


def printed(daemon, *words, status=0):
    done = subprocess.run([sys.executable, "-m", "tensord", "--url", daemon.url, *words], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


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
    assert program(daemon, "gather", "--store", "cli2", "params=cli", "indices=[1]")["name"] == "cli2"
    assert program(daemon, "gather", "params=cli", 'indices={"keys": ["b"]}') == [[2]]
    assert program(daemon, "concat", 'inputs=[{"ref": "cli"}, {"dtype": "float64", "data": [[3]]}]') == [[1], [2], [3]]
    assert program(daemon, "einsum", 'inputs=["cli"]', "equation=ij->j") == [3]
    assert program(daemon, "statistics", "cli2")["max"] == 2
    assert program(daemon, "delete", "cli2") == {"deleted": "cli2"}
    assert program(daemon, "cast", "x=[1]", "dtype=complex64") == [[1, 0]]
    assert "No such file" in program(daemon, "put", "x", "/nonexistent.npy", status=1)


@pytest.fixture
def films(client):
    table = client.tables["films"]
    table.put(np.array([[3, 0], [0, 4], [2, 2], [-1, 0]], "f4"), keys=["Alien", "Brazil", "Dune", "007"])
    yield table
    table.delete()


def test_the_command_search_prints_the_nearest_rows_of_a_key_as_a_table(daemon, films):
    assert printed(daemon, "search", "films", "Alien") == "key     row  score\nDune      2      6\nBrazil    1      0\n007       3     -3\n"
    for words in ("films", "Alien", "-k", "1"), ("-k1", "films", "Alien"), ("films", "-k", "1", "Alien"):
        assert printed(daemon, "search", *words) == "key   row  score\nDune    2      6\n", words
    assert printed(daemon, "search", "films", "007", "-k", "1", "--metric", "l2") == "key   row    score\nDune    2  3.60555\n"
    assert printed(daemon, "search", "films", "007", "Brazil", "-k", "1") == "query  key     row  score\n    0  Brazil    1      0\n    1  Dune      2      8\n"
    assert printed(daemon, "search", "films", "--rows", "3", "-k", "1") == "key     row  score\nBrazil    1      0\n"
    assert program(daemon, "search", "films", "Alien", "-k", "2", "--json") == {"scores": [[6, 0]], "indices": [[2, 1]], "keys": [["Dune", "Brazil"]]}


def test_the_command_search_takes_keys_of_the_dtype_of_the_table(daemon, client):
    table = client.tables["ids"]
    table.put(np.array([[1.0], [2.0], [4.0]]), keys=np.array([7, -8, 9]))
    assert printed(daemon, "search", "ids", "-8", "-k", "1") == "key  row  score\n9      2      8\n"
    assert "'x' is not an integer, as the keys of ids are" in program(daemon, "search", "ids", "x", status=1)
    table.put(np.array([[1.0], [2.0], [4.0]]), keys=np.array([7, 8, 2 ** 64 - 1], "u8"))
    assert program(daemon, "search", "ids", "8", "-k", "1", "--json")["keys"] == [[2 ** 64 - 1]]
    table.delete_keys()
    assert printed(daemon, "search", "ids", "0", "-k", "1") == "row  score\n  2      4\n"
    table.delete()


def test_the_command_search_also_takes_the_arguments_of_the_op(daemon, films):
    best = {"scores": [6], "indices": [2], "keys": ["Dune"]}
    assert program(daemon, "search", "params=films", "rows=0", "k=1") == best
    assert program(daemon, "search", "params=films", "queries=[3, 0]", 'exclude={"keys": ["Alien"]}', "k=1") == best
    assert program(daemon, "search", "params=films", "rows=0", "-k", "1", "--metric", "dot") == best
    assert program(daemon, "search", "--store", "best", "params=[[1, 0], [2, 0]]", "rows=[0]")["indices"]["name"] == "best.indices"
    assert program(daemon, "get", "best.indices") == [[1, -1]]
    for part in "scores", "indices":
        program(daemon, "delete", f"best.{part}")


def test_a_search_that_fails_says_what_to_do(daemon, films, client):
    client.tables["bare"].put(np.eye(2, dtype="f4"))
    for words, said in ((("flms", "Alien"), "TensorNotFound: there is no resident tensor 'flms' (did you mean 'films'?); python -m tensord tables lists them"),
                        (("films", "Alien", "Aliens"), 'KeyNotFound: "Aliens" is not one of the keys of films; the first key is "Alien"'),
                        (("bare", "Alien"), "ValueError: 'Alien' is not an integer, as row numbers are. bare has no keys; pass row numbers, or store the table with put --keys FILE"),
                        (("bare", "2"), "IndexOutOfBounds: rows[0] = 2 is not in [0, 2)"),
                        (("films", "--rows", "Alien"), "ValueError: 'Alien' is not an integer, as row numbers are"),
                        (("films", "Alien", "-k", "0"), "InvalidArgument: "), (("films", "Alien", "--metric", "cos"), "MalformedRequest: "),
                        (("films", "Alien", "--store", "best"), "ValueError: search TABLE KEY ... prints its results; --store is for search NAME=VALUE ..."),
                        (("params=films", "rows=0", "k=1", "-k", "2"), "a name appears twice"), (("params=films", "Alien"), "'Alien': expected NAME=VALUE"),
                        (("params=films", "row=0"), "search has no argument row; expected params, queries, k, rows,")):
        shown = program(daemon, "search", *words, status=1)
        assert shown.startswith(said) or said in shown and not said[0].isupper(), shown
    assert "the following arguments are required: KEY" in program(daemon, "search", "films", status=2)
    client.tables["bare"].delete()


def test_keys_that_a_search_prints_do_not_control_the_terminal(daemon, client):
    table = client.tables["odd"]
    for keys, shown in (["a", "\x1b[2J\n"], "?[2J?"), ([b"a", b"\xff\n"], "\\xff?"):
        table.put(np.eye(2, dtype="f4"), keys=keys)
        assert printed(daemon, "search", "odd", "a", "-k", "1") == f"{'key':<{len(shown)}}  row  score\n{shown}    1      0\n"
    table.delete()


def test_a_program_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TENSORD")
    with pytest.raises(FileNotFoundError, match="no tensord found in .*. After a build, set TENSORD to the path of build/tensord"):
        tensord.serve()
    for wrong in tmp_path / "nothing", tmp_path:
        monkeypatch.setenv("TENSORD", str(wrong))
        with pytest.raises(FileNotFoundError, match=f"^TENSORD is {wrong}, which is not an executable file"):
            tensord.serve()


def test_small_mistakes_on_the_command_line_are_named(daemon, client, tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n1,2\n")
    np.savez(tmp_path / "t.npz", x=np.zeros(2))
    client.tables["cli5"].put(np.array([1.0]), keys=np.array([1000]))
    for words, said in ((("lookup", "cli5", "abc"), "'abc' is not an integer, as the keys of cli5 are"), (("lookup", "cli5", "1_000"), "'1_000' is not an integer"),
                        (("lookup", "cli5", "08"), "'08' is not an integer without leading zeros, as the keys of cli5 are"),
                        (("lookup", "cli5", "１０００"), "is not an integer"), (("lookup", "--rows", "cli5", "x"), "'x' is not an integer, as row numbers are"),
                        (("put", "x", str(tmp_path / "t.csv")), "t.csv is not a .npy file; use tensord-import for other formats"),
                        (("put", "x", str(tmp_path / "t.npz")), "t.npz is not a .npy file"), (("cast", "dtype=int8", f"x=@{tmp_path / 't.csv'}"), "is not a .npy file"),
                        (("gather", "params=cli5", "indices=[1,"), "'[1,' is not valid JSON"), (("gather", "cli5", "indices=[0]"), "'cli5': expected NAME=VALUE"),
                        (("gather", "params=cli5", "params=cli5"), "a name appears twice: expected NAME=VALUE"),
                        (("gather", "params=cli5", 'indices=["1"]'), """'{"keys": x}' to find rows by key"""),
                        (("gather", "params=cli5", "indices=king"), """rows of a table by key, pass indices='{"keys": ["KEY"]}'"""),
                        (("find", "keys=cli5", "queries=[1]"), """the keys of 'cli5' are {"ref": "cli5.keys"}"""),
                        (("find", "params=cli5", "queries=[1]"), "find has no argument params; expected keys, queries, output_dtype, device, timeout; keys is missing"),
                        (("gather", "parms=cli5"), "gather has no argument parms; expected params, indices, axis, batch_dims, bounds, dtype, output_dtype, device, timeout; params and indices are missing"),
                        (("find",), "find lacks keys=VALUE and queries=VALUE"),
                        (("concat", "inputs=[[16777217, 0.5], [1]]"), """pass '{"dtype": "float64", "data": x}'"""),
                        (("lookup", "params=cli5", "keys=[1]"), "lookup takes TABLE KEY ..., not NAME=VALUE: python -m tensord lookup cli5 KEY")):
        assert said in program(daemon, *words, status=1), words
    assert program(daemon, "lookup", "cli5", "1000") == [1]
    for wide in '{"ref": "cli5"}', '{"dtype": "float64", "data": [1]}':
        assert program(daemon, "concat", f"inputs=[{wide}, [NaN]]") == [1, "NaN"]
    client.tables["cli5"].delete()


def test_an_array_that_numpy_does_not_read_is_named(daemon, tmp_path):
    np.save(tmp_path / "objects.npy", np.array(["a", "b"], object))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "objects.npy").read_bytes()[:40])
    for name in "objects.npy", "cut.npy":
        for words in ("put", "x", str(tmp_path / name)), ("gather", f"params=@{tmp_path / name}", "indices=[0]"):
            assert f"ValueError: {tmp_path / name} is damaged or contains Python objects. Convert them before numpy.save: rows with numpy.stack(array), strings with array.astype(str)," in program(daemon, *words, status=1), words
    np.save(tmp_path / "text.npy", np.array(["a", "b"], object).astype(str))
    assert program(daemon, "gather", f"params=@{tmp_path / 'text.npy'}", "indices=[1]") == ["b"]


def test_a_download_that_fails_leaves_the_file_as_it_was(daemon, client, tmp_path):
    client.tables["texts"].put(["a", "ö"])
    file = tmp_path / "precious.npy"
    file.write_text("precious")
    assert "texts has strings" in program(daemon, "get", "texts", str(file), status=1)
    assert "TensorNotFound" in program(daemon, "get", "missing", str(file), status=1)
    assert "is not a regular file; pass the name of a .npy file" in program(daemon, "get", "texts", str(tmp_path), status=1)
    with pytest.raises(ValueError, match="Object arrays"):  # after the header is written
        save(file, np.array(["a"], object))
    assert [one.name for one in tmp_path.iterdir()] == ["precious.npy"] and file.read_text() == "precious"
    assert program(daemon, "get", "texts") == ["a", "ö"]
    client.tables["texts"].delete()


def test_a_download_is_not_written_under_the_suffix_of_another_format(daemon, client, tmp_path):
    client.tables["numbers"].put(np.arange(3))
    for name in "out.csv", "out.npz", "out.json", "out.npy.gz":
        error = program(daemon, "get", "numbers", str(tmp_path / name), status=1)
        assert f"{tmp_path / name}: get writes only .npy files; pass the name of a .npy file, or omit the name to print JSON" in error
    assert not list(tmp_path.iterdir())
    for name in "out.NPY", "out", "-":
        program(daemon, "get", "numbers", str(tmp_path / name))
        assert np.load(tmp_path / name).tolist() == [0, 1, 2]
    client.tables["numbers"].delete()


def test_strings_that_json_cannot_have_are_refused(daemon, client, tmp_path):
    client.tables["bytes"].put([b"a", b"\xff\xfe", "ö".encode()])
    for words in ("get", "bytes"), ("lookup", "--rows", "bytes", "1"), ("gather", "params=bytes", "indices=[1]"):
        assert "not UTF-8 and cannot be printed as JSON: b'\\xff\\xfe'. In Python, the same call returns bytes" in program(daemon, *words, status=1), words
    assert client.tables["bytes"].get().tolist() == [b"a", b"\xff\xfe", "ö".encode()]
    assert program(daemon, "lookup", "--rows", "bytes", "0", "2") == ["a", "ö"]
    client.tables["bytes"].delete()


def test_a_download_is_written_to_the_file_of_that_name(daemon, client, tmp_path):
    client.tables["numbers"].put(np.arange(3))
    (tmp_path / "link").symlink_to("file")
    for name in "file", "link":
        assert program(daemon, "get", "numbers", str(tmp_path / name)) == {"file": str(tmp_path / name), "dtype": "int64", "shape": [3]}
        assert np.load(tmp_path / "file").tolist() == [0, 1, 2]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "link"] and (tmp_path / "link").is_symlink()
    client.tables["numbers"].delete()


def test_numbers_are_printed_as_in_the_api(daemon, client):
    client.tables["cli3"].put(np.array([0.1, np.nan, -np.inf], "f4"), keys=np.array([7, 8, 9]))
    assert program(daemon, "get", "cli3") == [0.1, "NaN", "-Infinity"]
    assert program(daemon, "gather", "params=cli3", "indices=[1]") == ["NaN"]
    assert program(daemon, "lookup", "cli3", "9", "7") == ["-Infinity", 0.1]
    client.tables["cli3"].delete()


def put_with_keys(daemon, tmp_path, content, *options, name="keys", status=0):
    """puts a table of two rows; the notes, or the error"""
    np.save(tmp_path / "t.npy", np.array([1.0, 2.0]))
    (tmp_path / name).write_bytes(content)
    done = subprocess.run([sys.executable, "-m", "tensord", "--url", daemon.url, "put", "cli6", str(tmp_path / "t.npy"), "--keys", str(tmp_path / name), *options],
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == status, done.stderr
    return done.stderr


@pytest.mark.parametrize(("content", "options", "expected"), [
    (b"9\n7\n", (), [9, 7]), (b"9\r\n7", (), [9, 7]), (b"09\n7\n", (), ["09", "7"]), (b"9\n7\n", ("--key-dtype", "string"), ["9", "7"]),
    (b"09\n7\n", ("--key-dtype", "uint64"), [9, 7]), (b"\xef\xbb\xbf9\n7\n", (), [9, 7]), (b"\xef\xbb\xbf\xc3\xb6\na\n", (), ["ö", "a"]),
    (b"NA\n7\n", ("--key-dtype", "string"), ["NA", "7"]), (b"18446744073709551615\n7\n", (), [2 ** 64 - 1, 7])])
def test_a_file_of_keys_is_read_as_by_the_importer(daemon, client, tmp_path, content, options, expected):
    notes = put_with_keys(daemon, tmp_path, content, *options)
    assert ("'09', which becomes 9" in notes) if "uint64" in options else notes == ""
    table = client.tables["cli6"]
    assert table.by_key(expected).tolist() == [1, 2]
    assert table.info()["keys"] == ("string" if isinstance(expected[0], str) else "uint64" if "uint64" in options or max(expected) >= 2 ** 63 else "int64")
    table.delete()


@pytest.mark.parametrize(("name", "content", "said"), [
    ("keys", b"a\n\n", "keys, line 2: it is empty; expected a key"), ("keys", b"a\n\xe9\n", "is not UTF-8; to convert a file in Latin-1 or from Windows in Western Europe, use iconv -f CP1252"),
    ("keys", "a\nb\n".encode("utf-16"), "the text is in UTF-16; expected UTF-8"), ("keys", b"7\nNA\n", "keys, line 2 is 'NA', among keys that are numbers"),
    ("keys", b"7\n8 \n", "keys, line 2 is '8 ', with blanks around it"), ("keys", b" 7\n 8\n", "keys, line 1 is ' 7', with blanks around it"),
    ("keys", b"a 0.1 2\nb 1 2\n", "would be one key, but each line has a word and 2 numbers"),
    ("keys", b"7\n7\n", "keys 0 and 1 are both 7. A key names one row"),
    ("keys", b"id\n7\n8\n", "keys, line 1 is 'id', among keys that are integers; if it is a header, remove the first line; if it is a key, use --key-dtype string"),
    *((f"k.{suffix}", b"7\n8\n", f"k.{suffix}: it has columns; expected one key per line, .json or .npy. To read a column of keys, use tensord-import with --keys-from FILE --keys COLUMN, or convert a pandas column with numpy.save('keys.npy', numpy.array(df['COLUMN'].tolist()))") for suffix in ("csv", "tsv.gz", "jsonl", "parquet")),
    ("k.json", b'{"a": 0, "b": 2}', 'key "b" is for row 2, but the table has 2 rows'), ("k.npy", b"x", "k.npy: it is damaged, or not an array")])
def test_what_the_importer_refuses_of_a_file_of_keys_is_refused(daemon, client, tmp_path, name, content, said):
    assert said in put_with_keys(daemon, tmp_path, content, name=name, status=1)
    assert "cli6" not in [one["name"] for one in client.tables.list()]


def test_keys_of_other_files_than_text(daemon, client, tmp_path):
    np.save(tmp_path / "ids.npy", np.array([9, 7], "i4"))
    for name, content, keys in ("k.npy", (tmp_path / "ids.npy").read_bytes(), [9, 7]), ("vocab.json", b'{"b": 1, "a": 0}', ["a", "b"]), ("ids.json", b'{"7": 1, "9": 0}', [9, 7]):
        assert put_with_keys(daemon, tmp_path, content, name=name) == ""
        assert client.tables["cli6"].by_key(keys).tolist() == [1, 2]
        client.tables["cli6"].delete()


def test_keys_that_look_like_numbers_and_are_text_are_noted(daemon, client, tmp_path):
    assert put_with_keys(daemon, tmp_path, b"7.0\n8.0\n") == (
        f"note: {tmp_path}/keys: the keys are text, because they are written as numbers such as 7.0. To write integers, use df['NAME'].astype('int64') before to_csv in pandas, or numpy.savetxt(FILE, ids, fmt='%d') for the ids alone"
        "; --key-dtype string hides this note\n")
    client.tables["cli6"].delete()
    assert "/keys, line 1: 'a\\t9' is one key; to read the keys from a column, rename the file to .tsv" in put_with_keys(daemon, tmp_path, b"a\t9\nb\t8\n")
    client.tables["cli6"].delete()
    assert "--key-dtype is given without --keys" in program(daemon, "put", "x", str(tmp_path / "t.npy"), "--key-dtype", "int64", status=1)


def test_lines_of_a_file_of_keys_end_at_newlines_alone(daemon, client, tmp_path):
    np.save(tmp_path / "t.npy", np.array([1.0, 2.0]))
    (tmp_path / "keys").write_text("a\u2028b\nc", encoding="utf-8")
    program(daemon, "put", "cli4", str(tmp_path / "t.npy"), "--keys", str(tmp_path / "keys"))
    assert sorted(client.tables["cli4"].keys()) == ["a\u2028b", "c"]
    client.tables["cli4"].delete()


def test_a_reply_does_not_control_the_terminal(false_server):
    server = false_server(problem(422, "\x1b[2J\x9b2J\r\n"))
    shown = program(server, "gather", "params=t", "indices=[0]", status=1)
    assert "?[2J" in shown and not {"\x1b", "\x9b", "\r"} & set(shown)


def test_an_upload_draws_a_bar_on_a_terminal_only(daemon, tmp_path):
    np.save(tmp_path / "t.npy", np.zeros(1_000_000))
    command = [sys.executable, "-m", "tensord", "--url", daemon.url, "put", "bar", str(tmp_path / "t.npy")]
    assert subprocess.run(command, capture_output=True, timeout=LIMIT, check=True).stderr == b""
    ours, theirs = pty.openpty()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, timeout=LIMIT, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "#" * 40 + " 100 % of 8.0 MB" in shown and shown.endswith("\r\n")


def test_a_bar_is_drawn_once_for_each_per_cent():
    file = io.StringIO()
    bar = progress.Bar(file)
    for sent in range(10_001):
        bar(sent, 10_000)
    assert file.getvalue().count("\r") == 101 and file.getvalue().endswith("100 % of 0.0 MB\n")


def test_progress_true_draws_a_bar(client, capsys):
    client.tables["bar"].put(np.zeros(1_000_000), progress=True)
    assert "100 %" in capsys.readouterr().err


def test_serve_starts_its_daemon_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("TENSORD_LOG_LEVEL", "error")
    monkeypatch.setenv("TENSORD_URL", "http://other")
    with tensord.serve() as server:
        assert server.client.ready()["status"] == "ready"


def test_serve_gives_its_client_the_token_of_the_daemon(tmp_path):
    token = "0123456789abcdef" * 2
    (tmp_path / "tokens").write_text(f"admin {token}\n")
    with tensord.serve(None, "--token-file", str(tmp_path / "tokens"), token=token) as server:
        assert server.client.tables.list() == []


def test_a_reader_that_leaves_is_no_error(daemon):
    command = [sys.executable, "-m", "tensord", "--url", daemon.url, "tables"]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (141, b"")


def test_choices_are_checked_by_mypy():
    bounds = inspect.signature(tensord.Client.gather).parameters["bounds"].annotation
    assert bounds.replace("'", '"') == 'Optional[Literal["error", "zero", "clip", "wrap"]]'


def test_serve_ends_its_daemon():
    with tensord.serve() as server:
        assert server.client.ready()["status"] == "ready"
    assert server.process.poll() == 0
    with pytest.raises(tensord.TensordError, match="did not start"):
        tensord.serve("/nonexistent-folder")


SERVES = """
import os, signal, sys, tensord
signal.signal(signal.SIGINT, lambda *_: None)
server = tensord.serve()
print(server.process.pid, flush=True)
"""


def child(text):
    return subprocess.Popen([sys.executable, "-c", SERVES + text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            start_new_session=True)


def test_an_interrupt_is_not_for_the_daemon():
    done = child("""
os.killpg(0, signal.SIGINT)
print(os.getpgid(server.process.pid) == os.getpgrp(), server.client.ready()['status'])""").communicate(timeout=LIMIT)[0]
    assert done.split()[1:] == ["False", "ready"]


def test_a_daemon_does_not_outlive_a_process_that_is_killed():
    process = child("sys.stdin.read()")
    daemon = int(process.stdout.readline())
    assert b"--listen" in Path(f"/proc/{daemon}/cmdline").read_bytes()
    end = os.pidfd_open(daemon)
    process.kill()
    process.wait()
    assert select.select([end], [], [], LIMIT)[0]
    os.close(end)
    process.communicate()


def exists(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_stop_leaves_no_process():
    with tensord.serve() as server:
        group = server.process.pid
        assert exists(group)
    eventually(lambda: not exists(group))
