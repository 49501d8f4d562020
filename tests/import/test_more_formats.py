"""Word vectors, .npy, JSON Lines, Arrow files, folders of partitions, and keys that are neither text nor integers."""
import gzip, json, re, shlex, shutil, unittest.mock, uuid

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import safetensors.numpy

from daemon import pack
from importing import ImportTest, numbers, run, strings
from test_columns import ColumnTest


class WordVectors(ColumnTest):
    GLOVE = "the 0.5 -1.25e1\n. . . 1 2\n5 3 4\né 5 6\n"

    def expect(self, path, words, rows, *options):
        self.imported(path, *options)
        tensors = self.tensors("m.safetensors")
        self.assertEqual(tensors["vectors"], ("float32", [len(words), len(rows) // len(words)], pack("float32", rows)))
        self.assertEqual(strings(tensors, "vectors.keys"), words)

    def test_glove_word2vec_and_fasttext_files_have_words_and_numbers(self):
        words, rows = ["the", ". . .", "5", "é"], [0.5, -12.5, 1, 2, 3, 4, 5, 6]
        self.expect(self.text(self.GLOVE, "m.txt"), words, rows)
        self.expect(self.text("4 2\n" + self.GLOVE, "m.vec"), words, rows)
        self.expect(self.text("4 2\n" + self.GLOVE.replace("\n", " \n"), "m.vec"), words, rows)  # as fastText writes it
        self.expect(self.text(self.GLOVE.replace("\n", "\r\n").removesuffix("\r\n"), "m.txt"), words, rows)
        self.expect(self.text(gzip.compress(self.GLOVE.encode()), "m.txt.gz"), words, rows)
        self.expect(self.text(gzip.compress(b"\xef\xbb\xbf4 2\n" + self.GLOVE.encode()), "m.vec.gz"), words, rows)
        self.expect(self.text(". . . 1 2\nb 3 4\n", "m.txt"), [". . .", "b"], [1, 2, 3, 4])

    def test_ids_in_place_of_words_are_integers(self):
        for text, keys in ("7 1 2\n-8 3 4\n", None), ("7 1 2\n8 3 4\n", [7, 8]), ("2 2\n7 1 2\n8 3 4\n", [7, 8]), ("7 1 2\n08 3 4\n", ["7", "08"]), ("7 1 2\n9223372036854775808 3 4\n", [7, 2 ** 63]):
            with self.subTest(text):
                path = self.text(text, "m.txt")
                if keys is None:
                    self.assertIn("the lines have only numbers", self.refused(path))
                    continue
                self.notes(path)
                tensors = self.tensors("m.safetensors")
                self.assertEqual(numbers(tensors, "vectors.keys") if isinstance(keys[0], int) else strings(tensors, "vectors.keys"), keys)
                self.notes(path, "--key-dtype", "string")
                self.assertEqual(strings(self.tensors("m.safetensors"), "vectors.keys"), list(map(str, keys)))

    def test_files_larger_than_a_batch_are_joined(self):
        import word_vectors
        lines = "".join(f"w{i} {i} {i / 2}\n" for i in range(3000))
        with unittest.mock.patch.object(word_vectors.WordVectors.lines, "__defaults__", (1000,)):
            self.expect(self.text("3000 2\n" + lines, "m.vec"), [f"w{i}" for i in range(3000)], [x for i in range(3000) for x in (i, i / 2)])

    def test_options_of_keys_names_and_dtypes(self):
        path = self.text("7 1 2\n8 3 4\n9 3 4\n", "m.txt")
        out = self.imported(path, "--key-dtype", "int64", "--tensor", "vectors=v", "--dtype", "float16")
        self.assertIn("m:v: float16 [3, 2], keys int64", out)
        self.assertEqual(numbers(self.tensors("m.safetensors"), "v.keys"), [7, 8, 9])
        (self.work / "k.txt").write_text("a\nb\nc\n")
        self.imported(path, "--keys-from", self.work / "k.txt")
        self.assertEqual(strings(self.tensors("m.safetensors"), "vectors.keys"), ["a", "b", "c"])
        for option in "--rows", "--keys":
            self.assertIn("it has no columns, so --rows and --keys do not apply", self.refused(path, option, "x"))

    def test_lines_that_are_wrong_are_named(self):
        for text, expected in (("a 1 2\nb 3\n", ", line 2: 'b 3' has fewer than 2 numbers after a word"),
                               ("a 1 2\n\nb 3 4\n", ", line 2: '' has fewer"),
                               ("a 1 2\nb 3 4 5\n", ", line 2: 'b 3', before the last 2 numbers, ends with another number"),
                               ("a 1 2\nb  3 4\n", ", line 2: 'b  3 4' has several spaces before a number; expected one. Remove the others with tr -s ' ' <FILE >NEW"),
                               ("id;x;y\na;1;2\n", "a file with semicolons to .csv and import it with --keys id --delimiter ';'"),
                               ('{"id": 1, "x": 2}\n', "; rename a file of JSON Lines to .jsonl"),
                               (" a 1 2\n", ", line 1: ' a', before the last 2 numbers, starts with a space"),
                               ("a\t1 2\nb\t3 4\n", ", line 1: 'a\\t1', before the last 1 numbers, ends with another number"),
                               ("2 3\na 1 2\nb 3 4\n", ", line 2: 'a 1 2' has fewer than 3 numbers after a word, which the first line announces"),
                               ("a 1 2\nb 3 x\n", ", line 2: element 1 is 'x'; expected a number"), ("a 1 2\nb 3  4\n", "line 2: "),
                               ("3 2\na 1 2\nb 3 1_0\n", ": the first line announces 3 words, but there are 2"),
                               ("2 2\na 1 2\nb 3 1_0\n", ", line 3: element 1 is '1_0'"),
                               ("a 1_0 2\nb 3 4\n", ", line 1: element 0 is '1_0'; expected a number; numbers have a decimal point, and no separators"),
                               ("a 0x1f 2\nb 3 4\n", ", line 1: element 0 is '0x1f'; expected a number; numbers must be decimal, not hexadecimal"),
                               ("a 0,1 0,2\nb 0,3 0,4\n", ", line 1: 'a 0,1 0,2' does not end with numbers; expected a word and its numbers, "
                                                        "separated by spaces; numbers have a decimal point"),
                               ("a 1 2\nb 0x1f 4\n", ", line 2: element 0 is '0x1f'; expected a number; numbers must be decimal, not hexadecimal"),
                               ("2 2\na 1 2\nb 1e39 1\n", "row 1 is too large for float32: 1e+39"),
                               ("the cat sat\n", ", line 1: 'the cat sat' does not end with numbers"), ("", ": it is empty"),
                               ("x\n", "does not end with numbers"),
                               ("a 1 2\na 3 4\n", "keys 0 and 1 are both \"a\""),
                               ("a 1\nb\xe9 2\n", ", line 2: b'b\\xe9' is not UTF-8; to convert a file in Latin-1")):
            with self.subTest(text):
                path = self.text(text.encode("latin-1"), "m.txt")
                self.assertIn(expected, self.refused(path))

    def test_a_header_is_not_a_word(self):
        rows = "king 0.5 1.5\nqueen 1 2\n"
        for names, key, way_out in ("word 0 1", "word", "; if it is a word, write its numbers as 0.0 1.0"), (" 0 1", "''", "; if it is a word"), ("'a e0 e1", """''"'"'a'""", ""):
            with self.subTest(names):
                path = self.text(f"{names}\n{rows}", "m.txt")
                self.assertIn(f"{path}, line 1: {names!r} is a header, as pandas writes it; to_csv with header=False omits it. To import the file with its header, rename it to .csv and use --delimiter ' '"
                              f" --keys {key}{way_out}", self.refused(path))
                self.notes(self.text(f"{names}\n{rows}"), "--delimiter", " ", "--keys", shlex.split(key)[0])
                self.assertEqual(strings(self.tensors("m.safetensors"), "rows.keys"), ["king", "queen"])
        for row in "king 0 1", "king 0.0 1.0", "king 1 2", "king 0":
            width = row.count(" ")
            path = self.text(f"{row}\nqueen{' 7' * width}\n" if row != "king 0 1" else f"{row}\nqueen 0 1\n", "m.txt")
            self.imported(path)
            self.assertEqual(strings(self.tensors("m.safetensors"), "vectors.keys"), ["king", "queen"])
        self.assertIn(", line 1: ' 0.5 1.5' starts with a space; expected a word before its 2 numbers", self.refused(self.text(f" 0.5 1.5\n{rows}", "m.txt")))
        for first in rows, f"{rows.count(chr(10)) + 1} 2\n{rows}":
            self.assertIn(": ' 0.5 1.5' starts with a space; expected a word before its 2 numbers", self.refused(self.text(f"{first} 0.5 1.5\n", "m.txt")))
        self.assertNotIn("header", self.refused(self.text("x y\n0.5 1.5\n", "m.txt")))

    def test_words_that_seem_to_be_quoted_are_noted(self):
        text = 'a 1 2\n"" 1 2\n" 1 2\n'
        path = self.text(text, "m.txt")
        self.assertEqual(self.notes(path), [])
        way_out = "; if pandas wrote it, rename the file to .csv and use --delimiter ' ' --no-header --keys 0, which removes the quotes"
        for word, key in ('""""', '"'), ('"new york"', "new york"), ('"a""b"', 'a"b'):
            text = f"a 1 2\n{word} 3 4\n"
            path = self.text(text, "m.txt")
            self.assertEqual(self.notes(path), [f"{path}, line 2: {word!r} is read with its quotes{way_out}"])
            self.assertEqual(strings(self.tensors("m.safetensors"), "vectors.keys"), ["a", word])
            self.notes(self.text(text), "--delimiter", " ", "--no-header", "--keys", "0")
            self.assertEqual(strings(self.tensors("m.safetensors"), "rows.keys"), ["a", key])
        path = self.text(f"2 2\n{text}", "m.txt")
        self.assertEqual(self.notes(path), [f"{path}, line 3: {word!r} is read with its quotes"])

    def test_the_way_out_for_tabs_and_commas_keeps_a_header(self):
        for text, suffix, options in (
                ("word\t0\t1\nking\t0.5\t1.5\n", ".tsv", "--keys word"), ("the word\te0\nking\t0.5\n", ".tsv", "--keys 'the word'"),
                (",0,1\nking,0.5,1.5\n", ".csv", "--keys ''"), ("word, e0, e1\nking, 0.5, 1.5\n", ".csv", "--keys word"),
                ("word, 0, 1\nking, 0.5, 1.5\n", ".csv", "--keys word"), ("king,0.5\n", ".csv", "--no-header --keys 0"),
                ("king\t0.5\t1\nqueen\t0\t1\n", ".tsv", "--no-header --keys 0")):
            with self.subTest(text):
                error = self.refused(self.text(text, "m.txt"))
                self.assertTrue(error.endswith(f" to {suffix} and import it with {options}"), error)
                self.imported(self.text(text, "m" + suffix), *shlex.split(options))
                self.assertEqual(strings(self.tensors("m.safetensors"), [*self.tensors("m.safetensors")][0].split(".")[0] + ".keys")[0], "king")

    def test_a_matrix_is_not_words_and_numbers(self):
        for text, shown in ("0.5 1.5\n2.5 3.5\n", "2.5 3.5"), ("1.000e+00 2.0\n3.0 4.0\n", "3.0 4.0"), ("0.5 1 2\n", "0.5 1 2"):
            with self.subTest(text):
                path = self.text(text, "m.txt")
                self.assertEqual(self.refused(path), f"{path}: the lines have only numbers, such as '{shown}'; expected a word and its numbers. Import a matrix from .npy, or from .csv with --delimiter ' ' and --no-header, and with --keys 0 if each line starts with an id")
        self.expect(self.text("0.5 1 2\na 1 2\n", "m.txt"), ["0.5", "a"], [1, 2, 1, 2])
        for text, options in ("x y\n0.5 1.5\n", ()), ("0.5 1.5\n", ("--no-header",)):
            self.notes(self.text(text), "--delimiter", " ", *options)
            self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [0.5, 1.5])

    def test_a_last_line_without_a_line_break_is_noted(self):
        for name, text in ("m.txt", "a 1 2\nb 3 4.2"), ("m.csv", "id,x\na,1\nb,2"), ("m.csv", "x,y"):
            path = self.text(text, name)
            empty = [f"{path}: the file has no rows, so the table is empty"] * (text == "x,y")
            with self.subTest(text):
                self.assertEqual(self.notes(path, *(("--keys", "id") if "id" in text else ())),
                                 [f"{path}: the last line has no line break; the file might be truncated", *empty])
                for complete in self.text(text + "\r\n", name), self.text(gzip.compress(text.encode()), name):
                    self.assertEqual(self.notes(complete, *(("--keys", "id") if "id" in text else ())), [one.replace(str(path), str(complete)) for one in empty])


class KeyFiles(ColumnTest):
    """Keys that are in another file than the rows."""
    CITIES = ["New York, NY", 'The "Hub"', "Bern"]
    QUOTED = '"New York, NY"\n"The ""Hub"""\nBern\n'

    def setUp(self):
        super().setUp()
        self.rows = self.work / "m.npy"
        np.save(self.rows, np.zeros((3, 1), "f4"))

    def keys(self):
        return strings(self.tensors("m.safetensors"), "rows.keys")

    def test_a_column_of_another_file_has_the_keys(self):
        for path in (self.text("city,x\n" + self.QUOTED.replace("\n", ",0\n"), "k.csv"), self.parquet("k.parquet", city=self.CITIES),
                     self.text("".join(json.dumps({"city": city}) + "\n" for city in self.CITIES), "k.jsonl")):
            with self.subTest(path.name):
                for rows in self.rows, self.text("x\n1\n2\n3\n"), self.text("a 1\nb 2\nc 3\n", "m.txt"):
                    self.assertEqual(self.notes(rows, "--keys-from", path, "--keys", "city", "--tensor", {"m.npy": "rows", "m.csv": "x", "m.txt": "vectors"}[rows.name] + "=rows"),
                                     [f"{rows}: its words are left out; the keys come from {path}"] if rows.name == "m.txt" else [])
                    self.assertEqual(self.keys(), self.CITIES)
                self.assertIn(f"{path}: name the column of keys with --keys; the columns are city", self.refused(self.rows, "--keys-from", path))
                self.assertIn(f"{path}: there is no column town; the columns are city", self.refused(self.rows, "--keys-from", path, "--keys", "town"))
        self.notes(self.rows, "--keys-from", self.text(self.QUOTED, "k.csv"), "--no-header", "--keys", "0")
        self.assertEqual(self.keys(), self.CITIES)
        self.assertIn("k.csv, column id: keys 0 and 2 are both 7", self.refused(self.rows, "--keys-from", self.text("id\n7\n8\n7\n", "k.csv"), "--keys", "id"))
        self.notes(self.rows, "--keys-from", self.text("id\n7\n8\n9\n", "k.csv"), "--keys", "id")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows.keys"), [7, 8, 9])

    def test_a_file_without_columns_has_no_column_of_keys(self):
        path = self.text("a\nb\nc\n", "k.txt")
        self.assertEqual(self.refused(self.rows, "--keys-from", path, "--keys", "id"),
                         f"{path}: it has no columns, but --keys names a column of the file in --keys-from. Omit --keys")

    def test_a_missing_value_in_a_file_of_one_column_is_noted(self):
        path = self.text('city\nBern\n""\nRoma\n', "k.csv")
        self.assertEqual(self.notes(self.rows, "--keys-from", path, "--keys", "city"),
                         [f'{path}: the key of row 1 is empty text, ""; in a file of one column, pandas writes a missing value like this'])

    def test_lines_that_seem_to_be_quoted_are_noted(self):
        for text, line, shown in ((self.QUOTED, 1, "'\"New York, NY\"'"), ('a\n""\nb\n', 2, "'\"\"'")):
            path = self.text(text, "k.txt")
            self.assertEqual(self.notes(self.rows, "--keys-from", path),
                             [f"{path}, line {line}: {shown} is read with its quotes; if the file is CSV, as pandas writes it, rename it to .csv and "
                              "import the table with tensord-import and its options --keys-from FILE.csv --no-header --keys 0; --key-dtype string hides this note"])
            self.assertEqual(self.notes(self.rows, "--keys-from", path, "--key-dtype", "string"), [])
        [note] = self.notes(self.rows, "--keys-from", self.text('"0","a"\n"1","b"\n"2","c"\n', "k.txt"))
        self.assertIn("--no-header --keys COLUMN, a number from 0; ", note)
        self.assertEqual(self.notes(self.rows, "--keys-from", self.text('"\n"a\n5"\n', "k.txt")), [])
        self.assertEqual(self.keys(), ['"', '"a', '5"'])

    def test_lines_that_have_columns_are_noted(self):
        def column(suffix, options):
            return (f"to read the keys from a column, rename the file to {suffix} and import the table with tensord-import and its options --keys-from FILE"
                    f"{suffix} {options}")
        cut = ">KEYS.txt keeps only the"
        for text, line, what, way in (
                ("0,a\n1,b\n2,c\n", 1, "'0,a' is one key", column(".csv", "--no-header --keys 1")),
                ('0,"a, b"\n1,b\n2,c\n', 1, "'0,\"a, b\"' is one key", column(".csv", "--no-header --keys 1")),
                ("a,9\nb,8\nc,8\n", 1, "'a,9' is one key", column(".csv", "--no-header --keys 0")),
                ("word,count\na,9\nb,8\n", 2, "'a,9' is one key", column(".csv", "--keys NAME")),
                ("a;9\nb;8\nc;8\n", 1, "'a;9' is one key", column(".csv", "--delimiter ';' --no-header --keys 0")),
                ("w0\t100\nw1\t90\nw2\t7\n", 1, "'w0\\t100' is one key", column(".tsv", "--no-header --keys 0, or --keys 1")),
                ("0,500\n1,501\n2,502\n", 1, "'0,500' is one key", column(".csv", "--no-header --keys 1")),
                ("0,5\n1,5\n2,5\n", 1, "'0,5' is one key", column(".csv", "--no-header --keys 1")),
                ("7,500\n8,501\n9,502\n", 1, "'7,500' is one key", column(".csv", "--no-header --keys 0, or --keys 1")),
                ("7,a\n8,b\n9,c\n", 1, "'7,a' is one key", column(".csv", "--no-header --keys 0, or --keys 1")),
                ("0 500\n1 501\n2 502\n", 1, "'0 500' is one key", f"cut -d' ' -f2- FILE {cut} text after the first word"),
                ("a\tx y\nb\tz\nc\tz\n", 1, "'a\\tx y' is one key, with its tab", column(".tsv", "--no-header --keys 0")),
                ("a 9\nb 8\nc -7.5\n", 1, "'a 9' is one key", f"cut -d' ' -f1 FILE {cut} first word, and cut -d' ' -f2- FILE {cut} text after the first word"),
                ("2 3\nword count\nb 8\n", None, "", ""),
                ("0 a b\n1 b\n2 c\n", 1, "'0 a b' is one key", f"cut -d' ' -f2- FILE {cut} text after the first word"),
                ("'a',\n'b',\n'c',\n", 1, '"\'a\'," is one key, with its comma',
                 "to write a list as keys in Python, use pathlib.Path('KEYS.txt').write_text('\\n'.join(LIST))"),
                ("item 0\nitem 1\nitem 2\n", None, "", ""), ("Jan 12 2020\nJan 13 2020\nJan 14 2020\n", None, "", ""),
                ("Bern, CH\nRoma, IT\nOslo, NO\n", None, "", ""), ("New York\nLos Angeles\nEl Paso 7\n", None, "", "")):
            with self.subTest(text):
                path = self.text(text, "k.txt")
                note = f"{path}, line {line}: {what}; {way}; --key-dtype string hides this note"
                self.assertEqual(self.notes(self.rows, "--keys-from", path), [note] if line else [])
                self.assertEqual(self.keys(), text.splitlines())
                self.assertEqual(self.notes(self.rows, "--keys-from", path, "--key-dtype", "string"), [])

    def test_word_vectors_are_no_keys(self):
        for text, line, columns, way in (
                ("a 0.1 -2\nb 1 2e-5\nc nan 1\n", 1, "a word and 2 numbers", "word vectors can be imported directly, with their words as the keys; cut -d' ' -f1 FILE"),
                ("2 3\na 0.1 .2 3.\nb 1 2 3\n", 2, "a word and 3 numbers", "tail -n +2 FILE | cut -d' ' -f1 >KEYS.txt keeps only the first word"),
                ("a\t1\t2\nb\t1\t2\nc\t1\t2\n", 1, "a word and 2 numbers", "rename the file to .tsv"), ("a, 1, 2\nb, 1, 2\nc, 1, 2\n", 1, "a word and 2 numbers", "rename the file to .csv"),
                ("0,500,3\n1,501,3\n2,502,4\n", 1, "3 numbers", "--keys 1; "),
                ("0,.5,3\n1,.6,3\n2,.7,4\n", 1, "3 numbers", "--keys 0; "), ("1 .5 3\n2 .6 3\n-3.5 .7 4\n", 1, "3 numbers", "3 numbers; cut -d' ' -f1 FILE"),
                ("".join(f"w{i}{' 1.5' * 9000}\n" for i in range(50)), 1, "a word and 9000 numbers", "word vectors can be imported directly"),
                ("".join(f"w{i} 1 2\n" for i in range(19)) + "odd\n", 1, "a word and 2 numbers", "word vectors can be imported directly")):
            with self.subTest(text):
                path = self.text(text, "k.txt")
                error = self.refused(self.rows, "--keys-from", path)
                self.assertIn(f"{path}, line {line}: {text.splitlines()[line - 1][:40]!r}", error)
                self.assertIn(f" would be one key, but each line has {columns}; ", error)
                self.assertIn(way, error)
                self.assertTrue(error.endswith("; if the whole lines are the keys, use --key-dtype string"), error)
        self.notes(self.rows, "--keys-from", self.text("a 1 2\nb 1 2\nc 1 2\n", "k.txt"), "--key-dtype", "string")
        self.assertEqual(self.keys(), ["a 1 2", "b 1 2", "c 1 2"])

    def test_text_that_numpy_makes_of_a_missing_key_is_noted(self):
        path = self.work / "k.npy"
        for missing in float("nan"), None:
            np.save(path, np.array(["a", missing, "c"], object).astype(str))
            self.assertEqual(self.notes(self.rows, "--keys-from", path), [f"{path}: key 1 is {str(missing)!r}, which astype(str) writes for a missing value; if a key is missing, remove its row;"
                                                                          " --key-dtype string hides this note"])
            self.assertEqual(self.notes(self.rows, "--keys-from", path, "--key-dtype", "string"), [])
        np.save(path, np.array([[1], [2], [3]]))
        self.assertEqual(self.refused(self.rows, "--keys-from", path), f"{path}: keys of shape [3, 1]; expected a vector; convert a column with x.ravel()")

    def test_lines_with_a_decimal_point_are_noted(self):
        path = self.text("1.0\n2.0\n10.0\n", "k.txt")
        self.assertEqual(self.notes(self.rows, "--keys-from", path),
                         [f"{path}: the keys are text, because they are written as numbers such as 10.0. To write integers, use df['NAME'].astype('int64') before to_csv in pandas, or numpy.savetxt(FILE, ids, fmt='%d') for the ids alone"
                          "; --key-dtype string hides this note"])
        self.assertEqual(self.notes(self.rows, "--keys-from", path, "--key-dtype", "string"), [])

    def test_an_empty_line_is_not_a_key(self):
        for text, line in ("a\n\nb\n", 2), ("a\nb\nc\n\n", 4), ("\r\na\r\nb\r\n", 1):
            path = self.text(text, "k.txt")
            self.assertEqual(self.refused(self.rows, "--keys-from", path), f"{path}, line {line}: it is empty; expected a key")


class Npy(ColumnTest):
    def test_one_array_with_a_file_of_ids(self):
        rows = np.arange(6, dtype="f4").reshape(3, 2)
        for array in rows, np.asfortranarray(rows), rows.astype(">f4"):
            np.save(self.work / "m.npy", array)
            for ids, key, kind in (("7\n8\n-9\n", [7, 8, -9], None), ("7\n8\nx\n", ["7", "8", "x"], None),
                                   ("7\n8\n09\n", ["7", "8", "09"], None),
                                   ("7\n8\n9\n", ["7", "8", "9"], "string"), ("07\n8\n9\n", [7, 8, 9], "uint64")):
                with self.subTest(ids=ids, kind=kind):
                    self.imported(self.work / "m.npy", "--keys-from", self.text(ids, "ids.txt"), *(["--key-dtype", kind] if kind else []))
                    tensors = self.tensors("m.safetensors")
                    self.assertEqual(tensors["rows"], ("float32", [3, 2], rows.tobytes()))
                    self.assertEqual(strings(tensors, "rows.keys") if isinstance(key[0], str) else numbers(tensors, "rows.keys"), key)

    def test_words_that_other_keys_replace_and_blanks_at_the_ends_of_keys_are_noted(self):
        path, keys = self.work / "w.txt", self.work / "k.txt"
        path.write_text("the 1 2\nof 3 4\n")
        keys.write_text("a \nb \n")
        status, _, errors = run(path, "--keys-from", keys, "--data-dir", self.data)
        self.assertEqual(status, 0, errors)
        self.assertIn(f"note: {path}: its words are left out; the keys come from {keys}\n", errors)
        self.assertIn(f"note: {keys}: the keys, such as 'a ', end with a blank, which is part of them; --key-dtype string hides this note\n", errors)

    def test_keys_with_tabs_are_columns_between_tabs_also_where_words_have_blanks(self):
        np.save(self.work / "m.npy", np.zeros((2, 1), "f4"))
        (self.work / "k.txt").write_text("w1\tname 1\nw2\tname 2\n")
        status, _, errors = run(self.work / "m.npy", "--keys-from", self.work / "k.txt", "--data-dir", self.data)
        self.assertEqual(status, 0, errors)
        self.assertIn("rename the file to .tsv", errors)
        self.assertNotIn("cut -d' '", errors)

    def test_keys_beside_it_that_the_daemon_would_take_are_noted(self):
        np.save(self.work / "m.npy", np.zeros((2, 2), "f4"))
        np.save(self.work / "m.keys.npy", np.array([7, 8]))
        beside = self.work / "m.keys.npy"
        status, _, errors = run(self.work / "m.npy", "--data-dir", self.data)
        self.assertEqual((status, errors.splitlines()[:1]),
                         (0, [f"import: note: {self.work}/m.npy: the keys in m.keys.npy are not imported; to import them, use --keys-from {beside}"]))
        status, _, errors = run(self.work / "m.npy", "--keys-from", beside, "--data-dir", self.data)
        self.assertEqual(status, 0)
        self.assertNotIn("note", errors)

    def test_arrays_of_any_shape(self):
        for array in np.float64(1.5), np.zeros((0, 3), "i4"), np.arange(3, dtype="u8"), np.zeros((2, 0), "f4"):
            np.save(self.work / "m.npy", array)
            self.imported(self.work / "m.npy", "--tensor", "rows=x")
            self.assertEqual(self.tensors("m.safetensors")["x"], (array.dtype.name, list(array.shape), array.tobytes()))

    def test_what_is_no_array_of_numbers_is_refused(self):
        path = self.work / "m.npy"
        np.save(path, np.zeros((5, 2)))
        content = path.read_bytes()
        for damaged in b"", b"x", content[:20], content[:-1]:
            path.write_bytes(damaged)
            self.assertIn("it is damaged, or not an array of numbers or strings that numpy.save wrote", self.refused(path))
        np.savez(self.work / "m.npz", w=np.zeros(3))
        (self.work / "m.npz").rename(path)
        self.assertIn("it is damaged, or not an array", self.refused(path))
        rows = np.empty(2, object)
        rows[:] = [np.array([0.5, 1.5]), np.array([2.5, 3.5])]
        for array, convert in (rows, np.stack), (np.array([[1, 0.5]], object), lambda x: x.astype("float32")), (np.array(["a"], object), lambda x: x.astype(str)):
            np.save(path, array, allow_pickle=True)
            self.assertEqual(self.refused(path), f"{path}: the array x has Python objects, which cannot be imported. Convert rows with numpy.stack(x), numbers with x.astype('float32'), and keys with x.astype('int64') or x.astype(str)"
                                                 "; a dict d of vectors by "
                                                 "pandas.DataFrame({'key': list(d), 'vector': list(d.values())}).to_parquet('FILE.parquet'), where d = x.item()")
            self.assertFalse(convert(np.load(path, allow_pickle=True)).dtype.hasobject)
        np.save(path, np.array(["x"]))
        self.assertIn("an array of strings is not a tensor", self.refused(path))

    def test_damaged_text_is_refused(self):
        np.save(self.work / "m.npy", np.zeros(1))
        path = self.work / "k.npy"
        np.save(path, np.array(["a"]))
        path.write_bytes(path.read_bytes()[:-4] + b"\xff\xff\xff\x7f")
        self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", path), f"{path}: its text is damaged; it has a character above U+10FFFF")

    def test_key_dtype_is_of_all_keys(self):
        np.savez(self.work / "m.npz", w=np.zeros((2, 1), "f4"), **{"w.keys": np.array([1, 2])})
        self.imported(self.work / "m.npz", "--key-dtype", "string")
        self.assertEqual(strings(self.tensors("m.safetensors"), "w.keys"), ["1", "2"])
        np.savez(self.work / "m.npz", w=np.zeros((2, 1), "f4"), **{"w.keys": np.array([1, -2])})
        self.assertEqual(self.refused(self.work / "m.npz", "--key-dtype", "uint64"),
                         f"{self.work}/m.npz, tensor w.keys: key 1 is -2; expected uint64")


class JsonLines(ColumnTest):
    def lines(self, *rows, name="m.jsonl"):
        return self.text("".join(json.dumps(row) + "\n" for row in rows), name)

    def test_members_are_columns_of_numbers_or_of_lists(self):
        path = self.lines({"id": "a", "v": [1, 2.5]}, {"v": [3, 4], "id": "b", "more": {"x": 1}})
        self.imported(path, "--keys", "id")
        tensors = self.tensors("m.safetensors")
        self.assertEqual((tensors["v"], strings(tensors, "v.keys")), (("float32", [2, 2], pack("float32", [1, 2.5, 3, 4])), ["a", "b"]))
        self.imported(self.lines({"id": 7, "x": 1, "y": 0.5}, {"id": 9, "x": 2, "y": 3}, name="m.ndjson"), "--keys", "id")
        tensors = self.tensors("m.safetensors")
        self.assertEqual(tensors["rows"], ("float32", [2, 2], pack("float32", [1, 0.5, 2, 3])))
        self.assertEqual(tensors["rows.keys"], ("int64", [2], pack("int64", [7, 9])))
        self.imported(self.text(gzip.compress(b'{"x": 1}\n\n{"x": 2}'), "m.jsonl.gz"), "--dtype", "float64")
        self.assertEqual(self.tensors("m.safetensors")["x"], ("float64", [2], pack("float64", [1, 2])))

    def test_integer_keys_that_need_it_are_uint64(self):
        path = self.lines({"id": 7, "x": 1}, {"id": 2 ** 64 - 1, "x": 1})
        self.imported(path, "--keys", "id")
        self.assertEqual(self.tensors("m.safetensors")["x.keys"], ("uint64", [2], pack("uint64", [7, 2 ** 64 - 1])))
        self.imported(path, "--keys", "id", "--key-dtype", "string")
        self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), ["7", str(2 ** 64 - 1)])

    def test_integers_that_float64_rounds_are_refused_as_in_csv(self):
        path = self.lines({"v": [1, 2 ** 60], "id": 1}, {"v": [-7, 2 ** 53 + 1], "id": 2})
        self.assertIn("column v: element 1 of row 1 has the integer 9007199254740993; floats", self.refused(path, "--keys", "id"))
        self.assertIn("column x: row 0 has the integer -9007199254740993; floats", self.refused(self.lines({"x": -2 ** 53 - 1})))
        csv = self.text("id,x\n9007199254740993,9007199254740992\n1, 9007199254740993\n")
        self.assertIn("column x: row 1 has the integer 9007199254740993; floats are exact only for integers up to 2**53. For a column of identifiers, use --keys, or leave it out of --rows. To have it rounded, write 9007199254740993.0",
                      self.refused(csv, "--keys", "id"))
        for rounded in self.text("x\n9007199254740993.0\n"), self.lines({"x": 9007199254740993.0}):
            self.imported(rounded, "--dtype", "float64")
            self.assertEqual(numbers(self.tensors(rounded.stem + ".safetensors"), "x"), [2 ** 53])
        self.imported(self.lines({"v": [2 ** 60, 1]}), "--dtype", "float64")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "v"), [2 ** 60, 1])

    def test_members_that_are_true_or_false_are_bools(self):
        self.imported(self.lines({"x": True}, {"x": False}))
        self.assertEqual(self.tensors("m.safetensors")["x"], ("bool", [2], b"\1\0"))
        self.imported(self.lines({"x": [True, False]}, {"x": [False, True]}))
        self.assertEqual(self.tensors("m.safetensors")["x"], ("bool", [2, 2], b"\1\0\0\1"))
        self.imported(self.lines({"x": [True, False]}), "--dtype", "float16")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "x"), [1, 0])
        path = self.lines({"x": True, "y": 0.5})
        self.assertIn("--dtype float32 or float64", self.refused(path))
        self.imported(path, "--dtype", "float64")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1, 0.5])

    def test_a_member_that_is_not_in_the_first_row_is_named_with_its_first_line(self):
        path = self.text('{"id": 1, "x": 1, "y": 2}\n\n{"id": 2, "x": 1, "y": 2, "yy": 3}\n')
        path = path.rename(self.work / "m.jsonl")
        for options in (), ("--rows", "x,yy"):
            self.assertEqual(self.refused(path, "--keys", "id", *options), f"{path}, column yy: row 0 has no value; yy appears first in line 3; fill it, or remove the row. Row 0 starts in line 1 and has the key 1")
        path = self.lines({"v": [1]}, {"v": [1]}, {"w": [1]})
        self.assertEqual(self.refused(path), f"{path}: there are several columns of lists, v, w; w appears first in line 3; --rows chooses one")
        self.assertEqual(self.refused(path, "--rows", "w"), f"{path}, column w: row 0 has no value; w appears first in line 3; fill it, or remove the row")

    def test_batches_are_joined(self):
        import json_lines
        with unittest.mock.patch.object(json_lines, "BATCH_ROWS", 7):
            self.imported(self.lines(*({"id": i, "v": [i, 1]} for i in range(100))), "--keys", "id")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "v.keys"), list(range(100)))
        self.assertEqual(numbers(self.tensors("m.safetensors"), "v")[::2], list(range(100)))

    def test_what_is_wrong_is_named_with_its_row_or_line(self):
        for text, options, expected in (
                ('{"x": 1}\n{"x"\n', (), ", line 2: invalid JSON at column 5; expected an object in one line, such as"),
                ('{"x": 1}\n[1]\n', (), ", line 2: '[1]' is not an object"), ("", (), ": the file has no rows"),
                ("{}\n", (), ": the file has no rows"),
                ('{"x": 1, "y": 1, "x": 2}\n', (), ", line 1: columns 1 and 3 are both named 'x'"),
                ('{"": 1}\n', (), ", line 1: column 1 has no name"),
                ('{"x": 1}\n{"x": "NA"}\n', (), ", column x: row 1 is \"NA\"; expected a number, as in row 0"),
                ('{"x": 1}\n{"x": true}\n', (), ", column x: row 1 is true; expected a number"),
                ('{"x": 1}\n{"x": [1]}\n', (), "row 1 is [1]; expected a number"),
                ('{"x": 1}\n{"x": null}\n', (), ", column x: row 1 has no value"),
                ('{"x": 1}\n{"y": 1}\n', (), ", column x: row 1 has no value"),
                ('{"x": [1, 2]}\n{"x": [1]}\n', (), ", column x: row 1 has 1 elements; expected 2"),
                ('{"x": [1, 2]}\n{"x": [1, null]}\n', (), "element 1 of row 1 has no"),
                ('{"x": [1]}\n{"x": ["y"]}\n', (), "row 1 is \"y\"; expected a number"),
                ('{"x": [1]}\n{"x": [0.5, true]}\n', (), "row 1 is true; expected a number"),
                ('{"x": [1]}\n{"x": 5}\n', (), "row 1 is 5; expected a list of numbers"),
                ('{"x": [[1]]}\n', (), "the type is list<item: list<item: double>>; expected numbers"),
                ('{"x": [1, true]}\n', (), ", column x: row 0 is true; expected a number"),
                ('{"x": [true, 1]}\n', (), ", column x: row 0 is 1; expected true or false"),
                ('{"x": true}\n{"x": 1}\n', (), ", column x: row 1 is 1; expected true or false"),
                ('{"k": null, "x": 1}\n', ("--keys", "k"), ", column k: row 0 has no key"),
                ('{"x": {"y": 1}}\n', (), "column x (objects) is not numeric"),
                ('{"x": "NA"}\n{"x": 1}\n', (), "row 1 is 1; expected text, as in row 0"),
                ('{"x": "a"}\n', (), "column x (row 0: 'a') is not numeric"),
                ('{"x": 1' + "0" * 400 + "}\n", (), "…; expected a number up to 1.8e308, the maximum of float64"),
                ('{"x": 1' + "0" * 5000 + "}\n", (), ", line 1: it has a number that is too long"),
                ('{"x": ' + "[" * 100_000 + "\n", (), "line 1: it "),
                ('{"x": 1}\n{"x": "\xe9"}\n', (), ", line 2: b'{\"x\": \"\\xe9\"}' is not UTF-8"),
                ('{"k": 1, "x": 1}\n{"k": "a", "x": 1}\n', ("--keys", "k"), ", column k: row 1 is \"a\"; expected int64, as in row 0; --key-dtype string converts all keys to text"),
                ('{"k": "0", "x": 1}\n{"k": 1, "x": 1}\n', ("--keys", "k"), ", column k: row 1 is 1; expected text, as in row 0; --key-dtype string converts all keys to text"),
                ('{"k": "a", "x": 1}\n{"k": 1, "x": 1}\n', ("--keys", "k", "--key-dtype", "int64"), ", column k: row 0 is 'a'; expected int64"),
                ('{"k": "a", "x": 1}\n{"k": 18446744073709551615, "x": 1}\n', ("--keys", "k"), "row 1 is 18446744073709551615; expected text, as in row 0; --key"),
                ('{"k": 12345678901234567890123, "x": 1}\n', ("--keys", "k"), "row 0 is 12345678901234567890123; expected uint64; --key-dtype string"),
                ('{"k": -1, "x": 1}\n{"k": 18446744073709551615, "x": 1}\n', ("--keys", "k"), "row 0 is -1; expected uint64, because another key is "
                                                                                               "above 2^63 - 1; --key-dtype string"),
                ('{"k": 1.5, "x": 1}\n', ("--keys", "k"), "keys are of type double"),
                ('{"k": "\\ud800", "x": 1}\n', ("--keys", "k"), "row 0 is \"\ud800\"; expected Unicode text"),
                ('{"k": 1, "x": 1}\n{"x": 1}\n', ("--keys", "k"), "row 1 has no key"),
                ('{"x": 1}\n', ("--keys", "k"), "there is no column k; the columns are x")):
            with self.subTest(text[:40]):
                path = self.text(text.encode("latin-1"), "m.jsonl")
                self.assertIn(expected, self.refused(path, *options))


class KeysOfJsonLines(ColumnTest):
    def test_key_dtype_takes_text_and_integers(self):
        for ids, kind, expected in ((('"a"', "1"), "string", ["a", "1"]), (("12345678901234567890123", '"0"'), "string", ["12345678901234567890123", "0"]),
                                    (("-1", "18446744073709551615"), "string", ["-1", "18446744073709551615"]), (("1", '"2"'), "int64", [1, 2]),
                                    (('"18446744073709551615"', "2"), "uint64", [18446744073709551615, 2])):
            with self.subTest(ids):
                path = self.text("".join(f'{{"id": {one}, "v": [1, 2]}}\n' for one in ids), "m.jsonl")
                self.imported(path, "--keys", "id", "--key-dtype", kind)
                tensors = self.tensors("m.safetensors")
                self.assertEqual(strings(tensors, "v.keys") if kind == "string" else numbers(tensors, "v.keys"), expected)


class ArrowFiles(ColumnTest):
    def test_feather_and_arrow_files_and_streams(self):
        table = pa.table({"id": ["a", "b", "c"], "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
        for name, write in (("m.feather", lambda path: pyarrow.feather.write_feather(table, path, chunksize=2)),
                            ("m.arrow", lambda path: self.stream(pa.ipc.new_file, table, path)),
                            ("m.arrow", lambda path: self.stream(pa.ipc.new_stream, table, path))):
            with self.subTest(name):
                write(self.work / name)
                self.imported(self.work / name, "--keys", "id")
                tensors = self.tensors("m.safetensors")
                self.assertEqual((numbers(tensors, "v"), strings(tensors, "v.keys")), ([1, 2, 3, 4, 5, 6], ["a", "b", "c"]))

    def stream(self, kind, table, path):
        with kind(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)

    def test_damaged_files_are_refused(self):
        rng = np.random.default_rng(1)
        for kind in pa.ipc.new_file, pa.ipc.new_stream:
            path = self.work / "m.arrow"
            self.stream(kind, pa.table({"id": [f"k{i}" for i in range(50)], "v": [[float(i)] for i in range(50)]}), path)
            content = np.frombuffer(path.read_bytes(), "u1")
            for trial in range(150):
                damaged = content.copy()
                damaged[rng.integers(0, len(content), 3)] = rng.integers(0, 256, 3)
                path.write_bytes(damaged.tobytes()[:rng.integers(0, len(content)) if trial % 5 == 0 else None])
                status, _, errors = run(path, "--keys", "id", "--quiet", "--data-dir", self.data)
                self.assertRegex(errors, r"\A(import: error: .*\n)?\Z")
                self.assertTrue(status == 0 or str(path) in errors, errors)
        for content, expected in ((b"", "it is empty"), (b"FEA1" * 9, "it is Feather version 1"),
                                  (b"x" * 99, "it is damaged, or not Arrow")):
            path.write_bytes(content)
            self.assertIn(expected, self.refused(path))


class Partitions(ColumnTest):
    def folder(self, files):
        """a folder of the Parquet files {path: columns}"""
        shutil.rmtree(self.work / "m", ignore_errors=True)
        for name, columns in files.items():
            path = self.work / "m" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(columns), path)
        return self.work / "m"

    def test_columns_in_the_names_of_folders_can_be_chosen(self):
        path = self.folder({"year=2025/a.parquet": {"id": ["a", "b"], "x": [1.0, 2.0]}, "year=2026/a.parquet": {"id": ["c"], "x": [3.0]},
                            "year=2026/_temporary/a.parquet": {"z": [1]}, ".hidden/a.parquet": {"z": [1]}})
        note = f"{path}: column year comes from the names of folders and is not part of the rows; --keys or --rows can name it"
        self.assertEqual(self.notes(path, "--keys", "id"), [note])
        tensors = self.tensors("m.safetensors")
        self.assertEqual((numbers(tensors, "x"), strings(tensors, "x.keys")), ([1, 2, 3], ["a", "b", "c"]))
        self.assertEqual(self.notes(path, "--rows", "year"), [f"{path}: column id is left out, and the table has no keys; --keys names the column of keys"])
        self.assertEqual(self.tensors("m.safetensors")["year"], ("int64", [3], pack("int64", [2025, 2025, 2026])))
        self.assertIn(f"key 0 of {path}/year=2025/a.parquet, column year and key 1 of {path}/year=2025/a.parquet, column year are both 2025",
                      self.refused(path, "--keys", "year", "--rows", "x"))

    def test_folders_are_nested_and_their_names_are_encoded(self):
        path = self.folder({"dt=2026-01-01/part=a%20b/a.parquet": {"x": [1.0]}, "dt=2026-01-02/part=c/a.parquet": {"x": [2.0]}})
        self.notes(path, "--keys", "part")
        self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), ["a b", "c"])
        self.notes(path, "--keys", "dt")
        self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), ["2026-01-01", "2026-01-02"])

    def test_the_folder_of_a_model_is_no_table_of_columns(self):
        path = self.folder({"data/a.parquet": {"x": [1.0]}, "b.parquet/part-0.parquet": {"x": [2.0]}})
        self.notes(path)
        self.assertEqual(numbers(self.tensors("m.safetensors"), "x"), [2, 1])
        safetensors.numpy.save_file({"w": np.zeros(2)}, path / "model.safetensors")
        self.notes(path)
        self.assertEqual(list(self.tensors("m.safetensors")), ["w"])

    def test_files_of_other_formats_in_the_folder_are_noted(self):
        path = self.folder({"a.parquet": {"x": [1.0]}, ".crc/a": {"x": [1.0]}, "_SUCCESS": {"x": [1.0]}})
        self.assertEqual(self.notes(path), [])
        (path / "b.csv").write_text("x\n2\n")
        expected = "expected *.parquet, *.pq, *.feather, *.arrow, *.ipc"
        self.assertEqual(self.notes(path), [f"{path}: b.csv is left out; {expected}"])
        (path / "part").mkdir()
        (path / "part" / "000000_0").write_text("")
        self.assertEqual(self.notes(path), [f"{path}: b.csv and 1 more are left out; {expected}"])

    def test_folders_that_disagree_are_refused(self):
        x = {"x": [1.0]}
        for files, options, expected in (
                ({"dt=1/a.parquet": x, "dt=2/h=1/a.parquet": x}, (),
                 "dt=2/h=1/a.parquet: its folders name the columns dt, h; expected dt, as in"),
                ({"a.parquet": x, "dt=1/a.parquet": x}, (), "dt=1/a.parquet: its folders name the columns dt; expected none, as in"),
                ({"dt=1/dt=2/a.parquet": x}, (), "its folders name the column 'dt' twice, or have no column name"),
                ({"x=1/a.parquet": x}, (), "x=1/a.parquet: column x is in the file and in the names of its folders. To use the column of the files, pass the files instead of the folder"),
                ({"dt=1/a.parquet": x, "dt=2/a.parquet": {"y": [1.0]}}, (), "dt=2/a.parquet: column y is in "),
                ({"dt=1/a.parquet": x, "dt=__HIVE_DEFAULT_PARTITION__/a.parquet": x}, ("--keys", "dt"),
                 "dt=__HIVE_DEFAULT_PARTITION__/a.parquet, column dt: row 0 has no key")):
            with self.subTest(expected):
                self.assertIn(expected, self.refused(self.folder(files), *options))


class OrderOfFiles(ColumnTest):
    def files(self, *names):
        """a folder of files, whose only value is their place among `names`"""
        shutil.rmtree(self.work / "m", ignore_errors=True)
        for i, name in enumerate(names):
            path = self.work / "m" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            table = pa.table({"name": [f"id{i}"], "x": [float(i)]})
            (pq.write_table if name.endswith("parquet") else pyarrow.feather.write_feather)(table, path)
        return self.work / "m"

    def rows(self, *arguments):
        """the notes of an import, and its rows"""
        return self.notes(*arguments, "--rows", "x", "--name", "m"), numbers(self.tensors("m.safetensors"), "x")

    def test_a_folder_is_joined_by_number_and_noted_where_the_order_by_text_differs(self):
        for names in ([f"part.{i}.parquet" for i in range(12)], ["9.feather", "10.feather"], ["2.parquet", "10.feather"],
                      ["dt=1/a.parquet", "dt=2/a.parquet", "dt=10/a.parquet"]):
            with self.subTest(names):
                folder = self.files(*names)
                notes, rows = self.rows(folder)
                self.assertEqual(rows, [*range(len(names))])
                self.assertRegex(notes[0], rf"\A{folder}: the files are joined by the numbers in their names, \S+ before \S+, as Dask reads a folder; "
                                           r"for the order of pandas, by text, use --order text\. --order number hides this note\Z")
                self.assertEqual(self.rows(folder, "--keys", "name"), ([], rows))
                self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), [f"id{i}" for i in range(len(names))])
        self.assertIn("dt=2/a.parquet before dt=10/a.parquet", notes[0])

    def test_keys_of_another_file_are_refused_for_a_folder_whose_order_is_not_certain(self):
        keys = self.text("".join(f"k{i}\n" for i in range(12)), "ids.txt")
        folder = self.files(*(f"part.{i}.parquet" for i in range(12)))
        self.assertEqual(self.refused(folder, "--keys-from", keys),
                         f"{folder}: the order of its files is ambiguous: part.10.parquet is before part.2.parquet by text, as pandas reads a folder, and after it by number, as Dask does. Choose the order of the keys with --order text or --order number")
        self.assertIn("is ambiguous: part.10.parquet is before", self.refused(folder, "--keys-from", self.files_of_keys(), "--keys", "k"))

    def test_the_order_of_the_files_of_a_folder_is_chosen(self):
        for names in [f"part {i}.parquet" for i in range(12)], [f"dt={i}/a b.parquet" for i in range(12)], [*(f"{i}.feather" for i in range(11)), "11.parquet"]:
            folder = self.files(*names)
            keys = self.text("".join(f"k{i}\n" for i in range(12)), "ids.txt")
            advice = re.findall("--order (?:text|number)", self.refused(folder, "--keys-from", keys))
            self.assertEqual(advice, ["--order text", "--order number"])
            for order, rows in zip(advice, (sorted(range(12), key=lambda i: names[i]), [*range(12)])):
                for given in [folder], [folder / name for name in names[::-1]]:
                    with self.subTest(names[0], order=order, given=len(given)):
                        self.assertEqual(self.rows(*given, "--keys-from", keys, *shlex.split(order)), ([], rows))
        self.imported(self.files("dt=2/a.parquet", "dt=10/a.parquet"), "--rows", "dt", "--order", "text")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "dt"), [10, 2])

    def test_files_without_an_order_have_no_option_for_it(self):
        for path in self.text("a 1\n", "m.txt"), self.text("a\n1\n", "m.csv"):
            self.assertEqual(self.refused(path, "--order", "text"), f"{path}: --order is for several Parquet or Arrow files, or a folder of them")

    def test_keys_are_in_one_file_and_not_in_a_folder(self):
        folder = self.files("1.parquet")
        for options in (), ("--keys", "name"):
            self.assertEqual(self.refused(folder / "1.parquet", "--rows", "x", "--keys-from", folder, *options), f"{folder}: this is a folder; expected one file of keys")

    def files_of_keys(self):
        return self.parquet("keys.parquet", k=[f"k{i}" for i in range(12)])

    def test_files_that_are_named_are_joined_in_the_order_given(self):
        folder = self.files(*(f"part.{i}.parquet" for i in range(12)))
        files, keys = [folder / f"part.{i}.parquet" for i in range(12)], self.text("".join(f"k{i}\n" for i in range(12)), "ids.txt")
        for given in files, files[::-1], [*files[4:], *files[:4]]:
            order = [files.index(file) for file in given]
            self.assertEqual(self.rows(*given, "--keys-from", keys), ([], order))
            self.assertEqual(self.rows(*given, "--keys", "name"), ([], order))
            self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), [f"id{i}" for i in order])
        by_text = sorted(files)
        note = f"{files[0]}: the files are joined in the order given, {files[10]} before {files[2]}; --order number joins "
        note += "them by the numbers in their names, and --order text hides this note"
        self.assertEqual(self.rows(*by_text, "--order", "text")[0], [])
        for options in (), ("--keys-from", keys):
            self.assertEqual(self.rows(*by_text, *options), ([note], [files.index(file) for file in by_text]))
        self.assertEqual(self.rows(*by_text, "--keys", "name")[0], [])

    def test_an_order_that_is_the_same_by_text_and_by_number_is_certain(self):
        keys = self.text("".join(f"k{i}\n" for i in range(3)), "ids.txt")
        for names in ["part-00000.parquet", "part-00001.parquet", "part-00010.parquet"], ["a.parquet", "a1.parquet", "b.parquet"], \
                ["dt=2026-01-02/9.parquet", "dt=2026-01-10/1.parquet", "dt=2026-01-10/2.parquet"]:
            for options in (), ("--keys-from", keys):
                with self.subTest(names, options=options):
                    notes, rows = self.rows(self.files(*names), *options)
                    self.assertEqual((notes, rows), ([], [0, 1, 2]))


class OtherKeys(ColumnTest):
    def test_uuids_are_keys_in_their_canonical_form(self):
        ids = [uuid.UUID(int=i * 0x123456789abcdef0123456789) for i in range(3)]
        for stored in True, False:
            with self.subTest(stored):
                table = pa.table({"id": pa.array([i.bytes for i in ids], pa.uuid()), "x": [1.0, 2.0, 3.0]})
                pq.write_table(table, self.work / "m.parquet", store_schema=stored)
                self.imported(self.work / "m.parquet", "--keys", "id")
                self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), list(map(str, ids)))
        self.assertIn("column id (type extension<arrow.uuid>) is not numeric", self.refused(self.work / "m.parquet"))
        self.assertIn("row 0 is '00000000-0000-0000-0000-000000000000'; expected int64",
                      self.refused(self.work / "m.parquet", "--keys", "id", "--key-dtype", "int64"))

    def test_binary_keys_are_text_or_refused(self):
        for kind in pa.binary(), pa.large_binary(), pa.binary(2):
            path = self.parquet(id=pa.array([b"ab", b"cd"], kind), x=[1.0, 2.0])
            self.imported(path, "--keys", "id")
            self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), ["ab", "cd"])
            path = self.parquet(id=pa.array([b"ab", b"\xff\0"], kind), x=[1.0, 2.0])
            self.assertEqual(self.refused(path, "--keys", "id"),
                             f"{path}, column id: row 1 is b'\\xff\\x00'; expected UTF-8 text; convert binary keys to text, for example to hexadecimal")
