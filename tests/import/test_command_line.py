"""The command line of the import, its progress, and the types of its source."""
import datetime, decimal, errno, fcntl, io, os, pathlib, pty, re, shlex, shutil, subprocess, sys, unittest, unittest.mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from importing import PROGRAM, ImportTest, numbers, program, run


class CommandLine(ImportTest):
    def test_help_describes_every_option(self):
        done = subprocess.run([sys.executable, PROGRAM, "--help"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for action in program.parser_of()._actions:
            self.assertTrue(action.help, action.option_strings)
            for option in action.option_strings:
                self.assertIn(option, done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)

    def test_the_process_ends_before_the_interpreter_is_taken_down(self):
        """because a thread of Arrow may still read ahead: it aborts if the interpreter is gone"""
        code = f"import atexit, runpy, sys; atexit.register(print, 'taken down'); sys.argv[0] = 'import'; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
        (self.work / "m.csv").write_text("x\n1\n")
        (self.work / "bad.csv").write_text("x\n1\nNA\n")
        for name, status, said in (("bad.csv", 1, "bad.csv: column x (row 1: 'NA')"), ("m.csv", 0, "m:x: float32 [1]")):
            done = subprocess.run([sys.executable, "-c", code, self.work / name, "--data-dir", self.data], capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(said, done.stdout + done.stderr)
            self.assertNotIn("taken down", done.stdout)

    def test_an_output_that_cannot_be_written_is_an_error(self):
        (self.work / "m.csv").write_text("x\n1\n")
        with open("/dev/full", "w") as full:
            done = subprocess.run([sys.executable, PROGRAM, self.work / "m.csv", "--list"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Aimport: error: (standard output: )?No space left on device\n\Z")

    def test_wrong_options_end_with_status_2_and_the_reason(self):
        np.savez(self.work / "m.npz", w=np.zeros(3))
        for options, expected in (([], "--data-dir is missing"), (["--data"], "unrecognized arguments: --data; did you mean --data-dir?"),
                                  (["--data-dir", "d", "--alias", "a=w"], "--version is missing"),
                                  (["--data-dir", "d", "--version", "../x"], "expected 1 to 64 of the characters"),
                                  (["--data-dir", "d", "--version", ".x"], "no dot first"),
                                  (["--data-dir", "d", "--version", "x" * 65], "expected 1 to 64"),
                                  (["--data-dir", "d", "--name", "a/b"], "'/' (U+002F) is not allowed; expected letters"),
                                  (["--data-dir", "d", "--name", "e\u0301"], "(NFC); expected '\u00e9'"),
                                  (["--data-dir", "d", "--delimiter", "::"], "--delimiter '::': expected one ASCII character, or \\t for a tab"),
                                  (["--data-dir", "d", "--rows", "a", "b"], "unrecognized arguments: b; list all inputs together. An option takes one value, such as --rows a,b"),
                                  (["--data-dir", "d", "--delimiter", '"'], "expected one ASCII character"),
                                  (["--data-dir", "d", "--rows", ""], "--rows '': expected names of columns, separated by commas"),
                                  (["--data-dir", "d", "--rows", "a,,b"], "--rows 'a,,b': expected names of columns"),
                                  *((["--data-dir", "d", option, value, option, value], f"{option} is given twice; expected one value")
                                    for option, value in (("--keys", "a"), ("--keys-from", "k.txt"), ("--key-dtype", "int64"), ("--delimiter", ","),
                                                          ("--decimal", "."), ("--dtype", "float32"), ("--version", "1"), ("--name", "a"), ("--data-dir", "e"))),
                                  (["--data-dir", "d", "--tensor", "=x"], "expected FROM or FROM=TO, each name once"),
                                  (["--data-dir", "d", "--tensor", "w", "--tensor", "w=v"], "each name once"),
                                  (["--data-dir", "d", "--version", "1", "--alias", "a"], "expected NAME=TENSOR"),
                                  (["--data-dir", "d", "--dtype", "int4"], "invalid choice: 'int4'")):
            with self.subTest(options):
                status, out, errors = run(self.work / "m.npz", *options)
                self.assertEqual((status, out), (2, ""))
                self.assertIn(expected, errors)
        self.assertFalse(os.path.exists("d"))

    def test_columns_of_rows_may_be_in_several_options(self):
        (self.work / "m.csv").write_text("id,p,q,s\n7,1,2,3\n")
        self.imported(self.work / "m.csv", "--rows", "s,p", "--keys", "id", "--rows", "q")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [3, 1, 2])

    def of_numpy(self, array):
        """the arguments for a .npy file of this array"""
        path = self.work / f"{array.dtype.char}{array.dtype.itemsize}.npy"
        np.save(path, array)
        return (path,)

    def test_what_was_probably_meant_is_said(self):
        vectors, keys, floats = self.work / "v.npy", self.work / "k.txt", self.work / "f.npy"
        np.save(vectors, np.zeros((2, 3), "f4"))
        np.save(floats, np.array([7.0, 8.0]))
        keys.write_text("a\nb\n")
        integers = self.work / "i.npy"
        np.save(integers, np.arange(6).reshape(3, 2))
        pq.write_table(pa.table({"id": [1], "d": pa.array([decimal.Decimal("1.50")], pa.decimal128(4, 2)), "x": [1.0]}), self.work / "dec.parquet")
        pq.write_table(pa.table({"id": [1], "v": ["[1, 2]"]}), self.work / "lists.parquet")
        (self.work / "commas.txt").write_text("king,1,2\nqueen,3,4\n")
        (self.work / "commas2.txt").write_text("king, 1, 2\nqueen, 3, 4\n")
        (self.work / "k.csv").write_text("id\na\nb\n")
        (self.work / "t.csv").write_text("id,x\na,1\nb,2\n")
        (self.work / "t2.csv").write_text("id,x,y\na,1,2\nb,2,3\n")
        (self.work / "w.txt").write_text("a 1\nb 2\n")
        pq.write_table(pa.table({"id": [datetime.date(2026, 1, 1)], "x": [1.5]}), self.work / "d.parquet")
        for name, text in (("s.jsonl", '{"id": 1, "v": {"a": 0.5}}\n'), ("p.csv", "id,p\n1,$1.5\n"), ("e.csv", "id,x,\n1,2,\n"), ("c.csv", "# made today\nid,x\n1,2\n"),
                           ("tabs.txt", "a\t1\t2\n"), ("s.xml", ""), ("tabs.tsv", "a\t1\t2\n"), ("l.json", '["a", "b"]'), ("r.json", '{"0": "a", "1": "b"}')):
            (self.work / name).write_text(text)
        self.imported(self.work / "tabs.tsv", "--no-header", "--keys", "0")
        shutil.rmtree(self.data)
        model = self.work / "m.npz"
        np.savez(model, w=np.zeros(2), v=np.zeros(2))
        for arguments, expected in (
                ((vectors, "--keys", keys), f". To read the keys from that file, use --keys-from {keys}"),
                ((self.work / "t.csv", "--keys", keys), f"the columns are id, x. To read the keys from that file, use --keys-from {keys}"),
                ((self.work / "t.csv", "--keys", "id,x"), "the columns are id, x. Keys must be one column; combine the columns into one in the file"),
                ((self.work / "t.csv", "--keys", "id," * 200 + "x"), "the columns are id, x. Keys must be one column; combine the columns into one in the file"),
                ((model, "--tensor", "w", "--keys", "v" * 400), f"there is no tensor {'v' * 400}; the tensors are v, w"),
                ((vectors, "--keys-from", self.work / "k.csv"), "k.csv: name the column of keys with --keys; the columns are id"),
                ((vectors, "--keys-from", self.work / "s.xml"), "expected a .txt, .json or .npy file of keys, or a .csv, .tsv, .jsonl, .parquet, .feather or .arrow file with a column of keys, which --keys names"),
                ((vectors, "--keys-from", floats), "keys are of dtype float64; expected integers or strings; convert numbers such as 7.0 with astype('int64')"),
                ((model, "--tensor", "words=w"), "there is no tensor words; the tensors are v, w. The name in the input comes first: --tensor w=words"),
                ((self.work / "w.txt", "--tensor", "words"), "the tensor is vectors. To rename it, use --tensor vectors=words"),
                ((self.work / "dec.parquet", "--keys", "id"), "column d (type decimal128(4, 2)) is not numeric; convert decimal numbers to floats with df['d'] = df['d'].astype('float64'); choose"),
                ((self.work / "dec.parquet", "--rows", "d"), "column d: the type is decimal128(4, 2); expected numbers, or lists of numbers; convert decimal numbers to floats with df['d'] = df['d'].astype('float64')"),
                ((self.work / "dec.parquet", "--keys", "d"), "keys are of type decimal128(4, 2); expected integers or strings; convert them to integers with astype('int64')"),
                ((self.work / "lists.parquet", "--keys", "id"), "column v (row 0: '[1, 2]') is not numeric; it is text; convert it to lists with df['NAME'] = df['NAME'].map(json.loads). Row 0 has the key 1; choose"),
                ((integers, "--dtype", "float16"), "the dtype is int64; --dtype converts only floats. To keep int64, omit --dtype, or choose tensors with --tensor. To convert an array x to floats, use numpy.save('FILE.npy', x.astype('float32'))"),
                *((self.of_numpy(x), hint) for x, hint in (
                    (np.ones(1, "c16"), "; numpy.save('FILE.npy', x.astype('complex64')) converts the array x"),
                    (np.array(["2026-01-01"], "M8[D]"), "; numpy.save('FILE.npy', x.astype('int64')) converts the array x"),
                    (np.zeros(1, [("u", "f4"), ("v", "i4")]), "; numpy.save('FILE.npy', x['u']) saves one field as an array"),
                    (np.zeros(1, "V2"), "; if it is bfloat16, numpy.save('FILE.npy', x.view(ml_dtypes.bfloat16).astype('float32')) keeps its values"))),
                ((self.work / "commas.txt",), "; rename a file with commas to .csv and import it with --no-header --keys 0"),
                ((self.work / "commas2.txt",), "'king, 1,', before the last 1 numbers, ends with another number; expected 1 numbers in each line, one space before each; rename a file with commas"),
                ((self.work / "t2.csv", "--tensor", "x=v", "--keys", "id"), "t2.csv: x is a column, but --tensor chooses tensors. To import only this column, use --rows x"),
                ((self.work / "t.csv", "--tensor", "y", "--keys", "id"), "t.csv: there is no tensor y; the tensor is x. To rename it, use --tensor x=y"),
                ((self.work / "w.txt", "--keys", "0"), "it has no columns, so --rows and --keys do not apply; the words are the keys"),
                ((vectors, "--version", "1", "--alias", "a=v:rows"), "--alias a=v:rows: there is no tensor v:rows; the input has rows"),
                ((self.work / "d.parquet", "--keys", "id"), "keys are of type date32[day]; expected integers or strings; convert dates to text with astype('string')"),
                ((self.work / "s.jsonl", "--keys", "id"), "column v (objects) is not numeric; objects are not flattened. Make a column of each member"),
                ((self.work / "p.csv", "--keys", "id"), "column p (row 0: '$1.5') is not numeric; write numbers without the currency"),
                ((self.work / "e.csv", "--keys", "id"), "column 3 has no name. Expected a different name for each column. If each line ends with ',', remove it there"),
                ((self.work / "c.csv", "--keys", "id"), "as the first line, '# made today', has; if the first line is a comment, remove it"),
                ((self.work / "tabs.txt",), "; rename a file with tabs to .tsv and import it with --no-header --keys 0"),
                ((vectors, "--keys-from", self.work / "l.json"), "; write a list of keys as a .txt file with one key per line"),
                ((vectors, "--keys-from", self.work / "r.json"), """its row is '"a"'; expected an integer from 0; write each key before its row, as in {"king": 0}"""),
                ((self.work / "v*.npy",), f"{self.work}/v*.npy: the file does not exist")):
            with self.subTest(arguments[1:]):
                self.assertIn(expected, self.refused(*arguments))
        for name, hint in (("a.json", "pandas.DataFrame(json.load(open('FILE.json')), dtype=object).to_parquet('FILE.parquet')"), ("a.pkl", "df.to_parquet"), ("a.pkl", "pandas.DataFrame({'key': list(d)"),
                           ("a.xlsx", "pandas.read_excel(FILE, dtype=str)"), ("a.h5", "numpy.save")):
            (self.work / name).write_text("")
            error = self.refused(self.work / name)
            self.assertTrue("files of this format cannot be imported" in error and hint in error, error)
        by_column = ("it is one object of columns, as df.to_json(FILE) of pandas writes it. Use df.reset_index().to_parquet('FILE.parquet'), which keeps all digits, and the index as a column")
        for text, hint in (('{"id":{"0":7,"1":8},"x":{"0":0.5,"1":1.5}}', by_column), ('{"id": 7}\n{"id": 8}\n', "it has an object in each line, which is JSON Lines. Rename it to FILE.jsonl"),
                           ("[[1, 2],\n [3, 4]]", "numpy.save('FILE.npy', json.load(open('FILE.json'))) converts a list of lists to an array"), ("[\n [\n 1], [2]]", "numpy.save('FILE.npy', "),
                           *((text, "its members are lists of numbers. With d = ") for text in ('{"king": [0.5, 1], "queen": [1, 2]}', '{"x": [\n1, 2\n]}')),
                           *((text, "pandas.DataFrame(json.load(open('FILE.json')), dtype=object)") for text in
                             ('[{"id": 7}]', '[\n{"id": 7}]', '{"id": [7, 8], "x": [[1], [2]]}', '{"id": {"0": 7}, "x": {}}', '{"id": 7}', "{}", "{"))):
            (self.work / "l.json").write_text(text)
            self.assertIn(f"l.json: files of this format cannot be imported; {hint}", self.refused(self.work / "l.json"))
        (self.work / "l.jsonl").write_text('{"id":{"0":7,"1":8},"x":{"0":0.5,"1":1.5}}')
        self.assertEqual(self.refused(self.work / "l.jsonl"), f"{self.work}/l.jsonl: {by_column}")
        for text in '[{"x": 1}, {"x": 2}]', '[\n {"x": 1}\n]', "[{\n":
            (self.work / "l.jsonl").write_text(text)
            self.assertIn("; pandas.DataFrame(json.load(open('FILE.json')), dtype=object).to_parquet('FILE.parquet') converts a list of objects", self.refused(self.work / "l.jsonl"))

    def test_the_options_of_an_error_are_written_as_a_shell_takes_them(self):
        vectors, keys = self.work / "v.npy", self.work / "my 'keys' $x.txt"
        np.save(vectors, np.zeros((2, 3), "f4"))
        keys.write_text("a\nb\n")
        np.savez(self.work / "m.npz", **{"a b": np.zeros(2)})
        texts = [("t.csv", "-id,x\n1,2\n"), ("w.txt", "-word x y\na 1 2\nb 3 4\n"), ("w.csv", "-word x y\na 1 2\nb 3 4\n"), ("i.csv", "-id,-t,x y,z\n1,a,2,3\n")]
        for name, text in texts:
            (self.work / name).write_text(text)
        model, table, header = self.work / "m.npz", self.work / "t.csv", self.work / "w.csv"
        for arguments, start, end, path in (
                ((vectors, "--keys", keys), "from that file, use ", "\n", vectors),
                ((table, "--tensor=-id"), "only this column, use ", "\n", table),
                ((self.work / "i.csv", "--keys=-id"), ", here ", "\n", self.work / "i.csv"),
                ((model, "--tensor=-w=a b"), "in the input comes first: ", "\n", model),
                ((self.work / "w.txt",), "rename it to .csv and use ", "; if it is a word", header)):
            told = self.refused(*arguments).rpartition(start)[2].partition(end)[0]
            with self.subTest(told):
                self.imported(path, *shlex.split(told), "--name", "m")

    def test_the_summary_names_the_first_columns_of_the_rows(self):
        path = self.work / "t.csv"
        for text, shown in (('id,x,"y,z"\n1,2,3\n', ', columns x,"y,z"'), ("id,x\n1,2\n", ""), ("id,a,b,c,d,e,f\n1,2,3,4,5,6,7\n", ", columns a,b,c,d,e,…")):
            path.write_text(text)
            _, out, _ = run(path, "--keys", "id", "--list")
            with self.subTest(text):
                self.assertTrue(out.endswith(f", keys int64{shown}\n"), out)

    def test_strings_alone_lead_to_the_table_whose_keys_they_are(self):
        words, table = self.work / "words.npy", self.work / "v.npy"
        np.save(words, np.array(["king", "queen"]))
        np.save(table, np.zeros((2, 3), "f4"))
        told = self.refused(words).rpartition("import the table with it: TABLE ")[2]
        self.imported(table, *shlex.split(told), "--name", "m")

    def test_strings_beside_an_array_are_said_to_be_possible_keys(self):
        np.savez(self.work / "m.npz", w=np.zeros(2), names=np.array(["a", "b"]), table=np.array([["a"]]))
        _, _, errors = run(self.work / "m.npz", "--data-dir", self.data)
        self.assertEqual([("names" in line, "; to use it as keys, pass --keys names. It is left out" in line) for line in errors.splitlines() if "note" in line],
                         [(True, True), (False, False)])

    def test_inputs_that_are_not_there_or_of_no_known_format(self):
        (self.work / "m.doc").write_text("")
        (self.work / "a.parquet").write_text("")
        self.assertIn("the file does not exist", self.refused(self.work / "none.parquet"))
        self.assertIn("the format of the file is unknown; expected a name that ends with .parquet", self.refused(self.work / "m.doc"))
        self.assertIn("several inputs must be Parquet or Arrow files",
                      self.refused(self.work / "a.parquet", self.work / "m.doc"))
        for folder, suffix, lines in ("parts", "csv", "id,x\n{0},0.{0}"), ("lines", "jsonl", '{{"id": {0}, "x": 0.{0}}}'):
            (self.work / folder).mkdir()
            paths = [self.work / folder / f"{part}.{suffix}" for part in (1, 2)]
            for part, path in enumerate(paths, 1):
                path.write_text(lines.format(part))  # without the end of the last line
            for inputs in (paths, [self.work / folder]):
                advice = re.search(f"join them with (awk .* >NEW.{suffix})", self.refused(*inputs))[1]
                subprocess.run(advice, shell=True, cwd=self.work, check=True)
                run(self.work / f"NEW.{suffix}", "--keys", "id", "--data-dir", self.data)
                self.assertEqual(numbers(self.tensors("NEW.safetensors"), "x.keys"), [1, 2])
        np.savez(self.work / "m x.npz", w=np.zeros(3))
        self.assertIn("cannot be the name of a table: ' ' (U+0020) is not allowed", self.refused(self.work / "m x.npz"))
        np.savez(self.work / "m.npz", w=np.zeros(3), v=np.zeros(3))
        for options, expected in ((["--tensor", "x"], "there is no tensor x; the tensors are v, w"), (["--keys", "x"], "there is no tensor x"),
                                  (["--keys", ""], "there is no tensor ''; the tensors are v, w"),
                                  (["--rows", "x"], "--rows chooses columns"), (["--no-header"], "--header and --decimal are for CSV"),
                                  (["--quote"], "--delimiter, --quote, --header and --decimal are for CSV and TSV"),
                                  (["--delimiter", ";"], "--delimiter, --quote, --header and --decimal are for CSV and TSV"),
                                  (["--tensor", "w=a/b"], "tensor 'a/b': '/' (U+002F) is not allowed"),
                                  (["--tensor", "w=v", "--tensor", "v"], "two tensors would be named v"),
                                  (["--tensor", "w=" + "x" * 130], "the name has 132 bytes; expected at most 121"),
                                  (["--version", "1", "--alias", "a=x"], "--alias a=x: there is no tensor x"),
                                  (["--version", "1", "--alias", "a/b=w"], "alias 'a/b'"),
                                  (["--version", "1", "--alias", "a.keys=w"], "alias 'a.keys'")):
            with self.subTest(options):
                self.assertIn(expected, self.refused(self.work / "m.npz", *options))

    def test_parts_without_a_header_are_joined_with_all_their_rows(self):
        """As Spark writes them."""
        folder = self.work / "out"
        folder.mkdir()
        for part in range(3):
            (folder / f"part-{part}.csv").write_text("".join(f"w{row},{row}.5,1\n" for row in range(4 * part, 4 * part + 4)))
        for inputs in ([folder], [folder, "--no-header"], sorted(folder.iterdir())):
            error = self.refused(*inputs, "--keys", "0")
            advice = re.search("(awk 1 .* >NEW.csv) and import that file with --no-header. Their first lines differ, so these are rows. If they are names, the columns differ", error)
            self.assertTrue(advice, error)
            subprocess.run(advice[1], shell=True, cwd=self.work, check=True)
            self.assertIn("float32 [12, 2], keys string", self.imported(self.work / "NEW.csv", "--keys", "0", "--no-header", "--list"))
        for part in folder.iterdir():
            part.write_text("id,x\n" + part.name + ",1\n")
        self.assertIn("awk 'FNR > 1 || NR == 1'", self.refused(folder))
        self.assertIn("awk 1", self.refused(folder, "--no-header"))

    def test_a_pointer_of_git_lfs_is_named_whatever_its_suffix(self):
        folder = self.work / "model"
        folder.mkdir()
        np.save(self.work / "n.npy", np.zeros((1, 1)))
        for name in ("m.csv", "m.jsonl", "m.txt", "m.parquet", "m.npy", "m.npz", "m.pt", "m.safetensors", "model/model.safetensors",
                     "model/pytorch_model.bin", "k.json"):
            path = self.work / name
            path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n")
            with self.subTest(name):
                keys = ("--keys-from", path) if name[0] == "k" else ()
                source = self.work / "n.npy" if keys else folder if name.startswith("model/") else path
                self.assertEqual(self.refused(source, *keys), f"{path}: it is a Git LFS pointer; run git lfs pull to download the file")
            path.unlink()

    def test_pipes_are_refused_and_not_waited_for(self):
        os.mkfifo(self.work / "m.csv")
        np.save(self.work / "m.npy", np.zeros((1, 1)))
        expected = "this is a pipe or a device; expected a file, because inputs are read several times"
        self.assertEqual(self.refused(self.work / "m.csv"), f"{self.work}/m.csv: {expected}")
        self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", self.work / "m.csv"), f"{self.work}/m.csv: {expected}")

    def test_what_the_system_refuses_is_said_with_the_name_of_the_file(self):
        np.save(self.work / "m.npy", np.zeros((2, 1)))
        (self.work / "d.csv").mkdir()
        (self.work / "file").write_text("")
        self.assertEqual(self.refused(self.work / "d.csv"), f"{self.work}/d.csv: Is a directory")
        self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", self.work / "k.txt"), f"{self.work}/k.txt: the file does not exist")
        status, _, errors = run(self.work / "m.npy", "--data-dir", self.work / "file", "--quiet")
        self.assertEqual((status, errors), (1, f"import: error: --data-dir {self.work}/file: this is a file; expected a folder\n"))
        written = f"{self.data}/.import-m/m.safetensors"
        for call in "pwrite", "fsync", "posix_fallocate":
            with self.subTest(call), unittest.mock.patch.object(os, call, side_effect=OSError(errno.EIO, "Input/output error")):
                self.assertEqual(self.refused(self.work / "m.npy"), f"{written}: Input/output error")
        for failing in range(1, 5):  # fsync of the file, the manifest, the folder of the version, the data folder
            calls = [*([None] * (failing - 1)), OSError(errno.EIO, "Input/output error")]
            with self.subTest(failing), unittest.mock.patch.object(os, "fsync", side_effect=calls):
                status, _, errors = run(self.work / "m.npy", "--data-dir", self.data, "--version", str(failing), "--quiet")
                self.assertEqual(status, 1)
                self.assertRegex(errors, rf"\Aimport: error: {self.data}.*: Input/output error\n\Z")
        with unittest.mock.patch.object(fcntl, "flock", side_effect=OSError(errno.ENOLCK, "No locks available")):
            self.assertEqual(run(self.work / "m.npy", "--data-dir", self.data, "--quiet"),
                             (1, "", f"import: error: {self.data}/.import-m: No locks available\n"))
        with unittest.mock.patch.object(np, "load", side_effect=OSError(errno.ENODEV, "x")):
            self.assertEqual(self.refused(self.work / "m.npy"), f"{self.work}/m.npy: No such device")
        import arrow_files, table, text
        with self.assertRaisesRegex(program.Refused, r"\Am\.parquet: Permission denied\Z"), arrow_files.read_errors(pathlib.Path("m.parquet")):
            raise OSError(errno.EACCES, "a sentence of Arrow")
        failing = unittest.mock.Mock(**{"read.side_effect": OSError(errno.EIO, "Input/output error")})
        for read in lambda: text.Stream(failing, "m.csv").readinto(bytearray(9)), lambda: table.read_exactly(failing, 9, "m.csv"):
            with self.assertRaisesRegex(program.Refused, r"\Am\.csv: Input/output error\Z"):
                read()

    def test_a_file_that_is_replaced_is_said_to_be(self):
        np.save(self.work / "m.npy", np.zeros((2, 1)))
        self.assertRegex(self.imported(self.work / "m.npy"), r"m\.safetensors: \d+ B\n")
        self.assertRegex(self.imported(self.work / "m.npy"), r"m\.safetensors: \d+ B; replaced the file of that name\n")
        self.assertNotIn("replaced", self.imported(self.work / "m.npy", "--version", "1"))

    def test_a_data_folder_is_created_with_the_folders_above_it(self):
        np.save(self.work / "m.npy", np.zeros((2, 1)))
        self.data = self.work / "x" / "y" / "z"
        self.imported(self.work / "m.npy")
        self.assertEqual(os.listdir(self.data), ["m.safetensors"])

    def test_a_header_among_keys_is_named(self):
        np.save(self.work / "m.npy", np.zeros((2, 1)))
        for lines, hint in (("title\na\nb\n", ". If the first line, 'title', is a header, remove it; otherwise remove the key that has no row. A key names the row at its position"), ("title\na\nb\nc\n", ""), ("0\n8\n9\n", ". If the first line, '0', is a header, remove it; otherwise remove the key that has no row. A key names the row at its position"),
                            ("7\na\nb\n", ". If the first line, '7', is a header, remove it; otherwise remove the key that has no row. A key names the row at its position")):
            (self.work / "k.txt").write_text(lines)
            count = lines.count("\n")
            self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", self.work / "k.txt"),
                             f"{self.work}/k.txt: there are {count} keys, but {self.work}/m.npy has 2 rows{hint}")

    def test_keys_on_one_line_are_no_key(self):
        np.save(self.work / "m.npy", np.zeros((30, 1)))
        path = self.work / "k.txt"
        ids = list(range(500, 530))
        for text in ",".join(map(str, ids)), str(ids), str(tuple(ids)), "\t".join(map(str, ids)), "New York", str(np.array(ids)):
            path.write_text(text + "\n")
            lines, texts = text.count("\n") + 1, 2 if text == "New York" else 30
            for options in (), ("--drop-padding",), ("--key-dtype", "string"):
                self.assertRegex(self.refused(self.work / "m.npy", "--keys-from", path, *options),
                                 rf"k.txt: its keys are on {lines} lines?, {texts} texts for 30 rows; expected one key per line. In Python, write a list with ")
        path.write_text("a\n")
        self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", path), f"{path}: there are 1 keys, but {self.work}/m.npy has 30 rows")
        self.imported(self.work / "m.npy", "--keys-from", path, "--drop-padding")
        path.write_text("New York\nRome\n")
        self.imported(self.work / "m.npy", "--keys-from", path, "--drop-padding")
        np.save(self.work / "m.npy", np.zeros((1, 1)))
        path.write_text("New York\n")
        self.imported(self.work / "m.npy", "--keys-from", path)

    def test_list_says_what_would_be_made(self):
        np.savez(self.work / "m.npz", w=np.zeros((3, 2), "f4"), **{"w.keys": np.arange(3)}, v=np.zeros(2, "i8"))
        self.assertEqual(run(self.work / "m.npz", "--list"), (0, "m:w: float32 [3, 2], keys int64\nm:v: int64 [2]\n", ""))
        self.assertFalse(self.data.exists())

    def test_without_the_libraries_it_says_how_to_install_them(self):
        done = subprocess.run([sys.executable, "-S", "-E", PROGRAM, "--help"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"import: error: numpy is not installed: pip install -r {PROGRAM / 'requirements.txt'}\n")
        (self.work / "m.csv").write_text("a\n1\n")
        with unittest.mock.patch.dict(sys.modules, {"pyarrow": None, "columns": None}):
            self.assertIn(" is not installed: pip install -r ", self.refused(self.work / "m.csv"))


class Progress(ImportTest):
    def test_a_terminal_shows_a_bar_and_the_end(self):
        np.savez(self.work / "m.npz", w=np.zeros((40_000, 256), "f4"))
        parent, child = pty.openpty()
        done = subprocess.Popen([sys.executable, PROGRAM, self.work / "m.npz", "--data-dir", self.data], stderr=child,
                                stdout=subprocess.DEVNULL)
        os.close(child)
        shown = b""
        try:
            while part := os.read(parent, 4096):
                shown += part
        except OSError:  # the end, once nobody has the terminal open
            pass
        os.close(parent)
        self.assertEqual(done.wait(), 0)
        self.assertRegex(shown.decode(), r"writing m\.safetensors: 41 MB in \d+\.\d s\r\n\Z")

    def test_a_bar_has_its_part_rate_and_rest(self):
        from progress import Progress
        bar = Progress("writing", 4_000_000, True)
        bar.done = 1_000_000
        self.assertEqual(bar.line(bar.begun + 2), "writing [######                  ] 25% of 4 MB, 500 kB/s, 6 s left")

    def test_elsewhere_it_is_one_line_a_step_and_none_with_quiet(self):
        np.savez(self.work / "m.npz", w=np.zeros(3, "f4"))
        self.assertRegex(run(self.work / "m.npz", "--data-dir", self.data)[2], r"\Awriting m\.safetensors: \d+ B in \d+\.\d s\n\Z")
        self.assertEqual(run(self.work / "m.npz", "--data-dir", self.data, "--quiet"), (0, "", ""))


class Source(unittest.TestCase):
    def test_mypy_finds_nothing(self):
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "--config-file", PROGRAM / "mypy.ini",
                   *sorted(PROGRAM.glob("*.py"))]
        done = subprocess.run(command, capture_output=True, text=True, cwd=PROGRAM)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
