"""Files of columns as programs write them: which columns are rows, and what text is taken for."""
import datetime, decimal, json, math, shlex, unittest.mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daemon import pack
from importing import ImportTest, numbers, run, strings


class ColumnTest(ImportTest):
    def text(self, content, name="m.csv"):
        """a file of text"""
        path = self.work / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def parquet(self, name="m.parquet", index=None, **columns):
        """a Parquet file; `index` is what the metadata of pandas says of the index"""
        table = pa.table(columns)
        if index is not None:
            table = table.replace_schema_metadata({"pandas": json.dumps({"index_columns": index})})
        pq.write_table(table, self.work / name)
        return self.work / name

    def notes(self, *arguments):
        """runs an import that succeeds; the notes it prints"""
        status, _, errors = run(*arguments, "--data-dir", self.data)
        self.assertEqual(status, 0, errors)
        self.assertEqual(run(*arguments, "--data-dir", self.data, "--quiet")[2], "")
        return [line.removeprefix("import: note: ") for line in errors.splitlines() if line.startswith("import: note: ")]


class IndexOfPandas(ColumnTest):
    def test_the_index_of_a_csv_file_has_no_name_and_is_not_part_of_the_rows(self):
        for name, separator in ("m.csv", ","), ("m.tsv", "\t"):
            with self.subTest(name):
                path = self.text(",title,x,y\n0,Alien,1.5,2\n1,Brazil,2.5,3\n".replace(",", separator), name)
                self.assertEqual(self.notes(path, "--keys", "title"), [
                    f"{path}: the first column has no name, like the index that pandas writes, and is not part of the rows; to use it as keys, pass --keys ''"])
                self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, 2, 2.5, 3])

    def test_the_index_of_a_csv_file_can_be_the_keys(self):
        path = self.text(",x,y\nAlien,1.5,2\nBrazil,2.5,3\n")
        self.assertEqual(self.notes(path, "--keys", ""), [])
        tensors = self.tensors("m.safetensors")
        self.assertEqual((numbers(tensors, "rows"), strings(tensors, "rows.keys")), ([1.5, 2, 2.5, 3], ["Alien", "Brazil"]))
        self.assertEqual(self.refused(path, "--keys", "id"), f"{path}: there is no column id; the columns are '', x, y. The first column has no name; to use it as keys, pass --keys ''")
        path = self.text(",x\n7,1.5\n7,2.5\n")
        self.assertEqual(self.refused(path, "--keys", ""), f"{path}, column '': keys 0 and 1 are both 7. A key names one row")
        for path in self.text("id,x\n7,1.5\n"), self.text('{"x": 1}\n', "m.jsonl"), self.parquet(x=[1.0]):
            self.assertIn("there is no column ''; the columns are", self.refused(path, "--keys", ""))

    def test_the_index_of_a_parquet_file_is_in_its_metadata(self):
        for index in "__index_level_0__", "film":
            with self.subTest(index):
                path = self.parquet(index=[index], x=[1.5, 2.5], y=[2.0, 3.0], **{index: [7, 8]})
                self.assertEqual(self.notes(path), [f"{path}: column {index} is the index of a pandas DataFrame and is not part of the rows; --keys or --rows can name it"])
                self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, 2, 2.5, 3])
                self.assertEqual(self.notes(path, "--keys", index), [])
                self.assertEqual(numbers(self.tensors("m.safetensors"), "rows.keys"), [7, 8])
                self.assertEqual(self.notes(path, "--rows", index), [])
                self.assertEqual(numbers(self.tensors("m.safetensors"), index), [7, 8])

    def test_an_index_that_is_not_stored_and_metadata_that_is_damaged_change_nothing(self):
        for index in [{"kind": "range", "start": 0, "stop": 2, "step": 1}], ["not there"], 7, [["x"]]:
            with self.subTest(index):
                self.assertEqual(self.notes(self.parquet(index=index, x=[1.5, 2.5], y=[2.0, 3.0])), [])
                self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, 2, 2.5, 3])
        pq.write_table(pa.table({"x": [1.0]}).replace_schema_metadata({"pandas": "{"}), self.work / "m.parquet")
        self.assertEqual(self.notes(self.work / "m.parquet"), [])


    def test_an_index_that_was_read_as_a_column_keeps_the_name_that_pandas_gave_it(self):
        for path, index in ((self.text("Unnamed: 0,x,y\n0,1.5,2\n1,2.5,3\n"), "Unnamed: 0"),
                            (self.parquet(__index_level_0__=[0.0, 1.0], x=[1.5, 2.5], y=[2.0, 3.0]), "__index_level_0__"),
                            (self.text('{"x": 1.5, "y": 2, "Unnamed: 0": 1}\n{"x": 2.5, "y": 3, "Unnamed: 0": 2}\n', "m.jsonl"), "Unnamed: 0")):
            with self.subTest(path.name):
                self.assertEqual(self.notes(path), [f"{path}: column {index} is the index of a pandas DataFrame and is not part of the rows; --keys or --rows can name it"])
                self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, 2, 2.5, 3])
                self.assertEqual(self.notes(path, "--rows", f"{index},x"), [])

    def test_the_index_that_reset_index_made_columns_is_left_out(self):
        def note(path, name):
            return (f"{path}: column {name} is the index of a pandas DataFrame and is not part of the rows; --keys or --rows can name it")
        for names in ["index"], ["level_0"], ["level_0", "index"], ["level_0", "level_1"], ["Unnamed: 0", "index"]:
            lines = [",".join([*names, "id", "x", "y"]), *(",".join(["3"] * len(names) + ["7", "1.5", "2"]) for _ in range(1))]
            lines.append(",".join(["5"] * len(names) + ["8", "2.5", "3"]))
            objects = [dict(zip(lines[0].split(","), map(float, line.split(",")))) for line in lines[1:]]
            for one in objects:
                one["id"] = int(one["id"])
            table = pa.table({**{name: [3, 5] for name in names}, "id": [7, 8], "x": [1.5, 2.5], "y": [2.0, 3.0]})
            pq.write_table(table, self.work / "m.parquet")
            for path in (self.text("\n".join(lines) + "\n"), self.text("".join(json.dumps(one) + "\n" for one in objects), "m.jsonl"),
                         self.work / "m.parquet"):
                with self.subTest(f"{path.name} {names}"):
                    self.assertEqual(sorted(self.notes(path, "--keys", "id")), sorted(note(path, name) for name in names))
                    self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, 2, 2.5, 3])
                    self.assertEqual(self.notes(path, "--keys", "id", "--rows", f"{names[-1]},x", "--dtype", "float32"), [])
                    self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [3, 1.5, 5, 2.5])

    def test_a_column_named_index_that_is_no_index_is_part_of_the_rows(self):
        for text in ("index,x\n3,1\n3,2\n", "index,x\n3,1\n2,2\n", "index,x\n0.5,1\n1.5,2\n", "x,index\n1,3\n2,4\n"):
            with self.subTest(text):
                self.imported(self.text(text))
                self.assertEqual(self.tensors("m.safetensors")["rows"][1], [2, 2])
        path = self.text("index,x\n3,1\n4,2\n")
        self.assertEqual(self.notes(path, "--keys", "index"), [])
        self.assertEqual(numbers(self.tensors("m.safetensors"), "x.keys"), [3, 4])
        self.imported(path, "--keys", "x")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "index"), [3, 4])
        self.imported(self.text("index\n3\n4\n"))
        self.assertEqual(numbers(self.tensors("m.safetensors"), "index"), [3, 4])

    def test_a_named_range_is_not_a_column(self):
        path = self.parquet(index=[{"kind": "range", "name": "id", "start": 1, "stop": 3, "step": 1}], x=[1.5, 2.5])
        self.assertEqual(self.refused(path, "--keys", "id"), f"{path}: there is no column id; the columns are x. id is the index of a pandas DataFrame, a range that is not stored in the file; reset_index() makes it a column")

    def test_a_range_that_may_be_keys_is_noted_in_a_table_without_keys(self):
        for index, what in (({"name": "id", "start": 100, "step": 1}, "the index id of a pandas DataFrame, a range from 100 in steps of 1"),
                            ({"name": "id", "start": 0, "step": 1}, "the index id of a pandas DataFrame, a range from 0 in steps of 1"),
                            ({"name": None, "start": 0, "step": 3}, "the index of a pandas DataFrame, a range from 0 in steps of 3")):
            for columns in {"x": [1.5, 2.5], "k": [1.0, 2.0]}, {"x": [[1.5], [2.5]], "k": ["a", "b"]}:
                with self.subTest(what, columns=columns):
                    path = self.parquet(index=[{"kind": "range", "stop": 200, **index}], **columns)
                    self.assertIn(f"{path}: {what}, is not stored in the file, and the table has no keys. reset_index() makes it a column, which --keys"
                                  " can name", self.notes(path))
        path = self.parquet(index=[{"kind": "range", "name": "id", "start": 1, "stop": 3, "step": 1}], x=[1.5, 2.5], k=["a", "b"])
        self.assertEqual(self.notes(path, "--keys", "k"), [])
        self.assertEqual(self.notes(path, "--rows", "x", "--keys-from", self.text("a\nb\n", "k.txt")), [])


class FirstLineOfCsv(ColumnTest):
    def test_a_first_line_of_numbers_is_a_row_and_not_names(self):
        for line in "1,0.5,2", "7,1,2", "1.0e+00,-.5,-2", "0,0,1", "5":
            with self.subTest(line):
                path = self.text(f"{line}\n{line}\n")
                self.assertEqual(self.refused(path), f"{path}: the first line, '{line}', has only numbers; expected the names of the columns. Use --no-header if it is a row, or --header if these are names")
        path = self.text("1999,2000\n0.5,1\n")
        self.assertEqual(self.notes(path, "--header"), [])
        self.assertEqual(self.notes(path, "--rows", "1999,2000"), [f"{path}: the first line, '1999,2000', is read as names of columns; --no-header reads it as a row, and --header hides this note"])
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [0.5, 1])

    def test_names_that_may_be_numbers_are_noted(self):
        for line in "0,1,2", "1,2,3", "a,0.5,0.9", "a,1,0", "a,3,7", "a,0,1", "a,b,0":
            with self.subTest(line):
                path = self.text(f"{line}\n1,2,3\n")
                note = [f"{path}: the first line, '{line}', is read as names of columns; --no-header reads it as a row, and --header hides this note"]
                self.assertEqual(self.notes(path, "--tensor", "rows=x"), note)
                self.assertEqual(self.notes(path, "--rows", line.split(",")[2], "--keys", line.split(",")[0]), note)
                self.assertEqual(self.notes(path, "--header"), [])
        for line in "id,0,1", ",0,1", "inf,nan,x", "id,2019,2020", "a,0,1,2", "city,2018,2019,2020":
            self.text(f"{line}\n" + ",".join("9" * len(line.split(","))) + "\n")
            self.assertFalse([note for note in self.notes(self.work / "m.csv") if "first line" in note])

    def test_a_first_line_that_is_a_key_but_for_its_number_is_noted(self):
        path = self.text("doc0,x\ndoc1,2\n")
        note = [f"{path}: the first line, 'doc0,x', is read as names of columns; --no-header reads it as a row, and --header hides this note"]
        self.assertEqual(self.notes(path, "--keys", "doc0"), note)
        self.assertEqual(self.notes(path, "--keys", "doc0", "--header"), [])
        self.assertEqual(self.notes(self.text("doc,x\ndoc1,2\n"), "--keys", "doc"), [])

    def test_a_first_line_that_may_be_a_row_is_no_advice(self):
        for line, name in ("doc0,-0.8,0.24", "m.csv"), ("film0\t6.7", "m.tsv"), ("doc0,5", "m.csv"):
            path = self.text(f"{line}\n{line}\n", name)
            text = line.split("\t" if "\t" in line else ",")[0]
            self.assertEqual(self.refused(path), f"{path}: column {text} (row 0: {text!r}) is not numeric. If the first line is a row, use --no-header; choose the columns of the"
                                                 " rows with --rows, and the column of keys with --keys")
        self.assertIn("with --rows, here --rows 1, and the column of keys with --keys, here --keys 0", self.refused(path, "--no-header"))

    def test_a_first_line_that_may_be_the_key_that_lacks_is_named(self):
        np.save(self.work / "m.npy", np.zeros((3, 2), "<f4"))
        for lines in "king\nqueen\nrook\n", "king,x\nqueen,y\nrook,z\n":
            path = self.text(lines, "k.csv")
            given = self.work / "m.npy", "--keys-from", path
            self.assertIn(". If the first line is a key, use --no-header", self.refused(*given))
            hint = ". If the first line is a row, with the key 'king', use --no-header --keys 0"
            self.assertEqual(self.refused(*given, "--keys", "king"), f"{path}, column king: there are 2 keys, but {given[0]} has 3 rows{hint}. "
                                                                     "If the last row is padding, --drop-padding leaves it out")
            self.assertEqual(self.notes(*given, "--keys", "king", "--drop-padding"), [f"{given[0]}: the last row, which has no key, is left out{hint}"])
            self.notes(*given, "--no-header", "--keys", "0")
            self.assertEqual(strings(self.tensors("m.safetensors"), "rows.keys"), ["king", "queen", "rook"])

    def test_keys_that_lack_are_not_taken_for_padding_alone(self):
        np.save(self.work / "m.npy", np.zeros((4, 3), "<f4"))
        path = self.text("a\nb\nc\n", "k.txt")
        told = self.refused(self.work / "m.npy", "--keys-from", path)
        self.assertIn("has 4 rows. A key names the row at its position. If a key was lost, such as a header or a missing value, all keys after it name the wrong row. Add the lost key at its place"
                      ". If the last row is padding, --drop-padding leaves it out", told)

    def test_keys_of_another_file_do_not_contradict_a_column_of_their_name(self):
        rows, keys = self.text("id,x\na,1\nb,2\n"), self.text("id\nb\na\n", "k.csv")
        self.assertEqual(self.refused(rows, "--keys-from", keys, "--keys", "id"), f"{rows}: it has its own column id, and the keys of {keys} would name its rows only by position. To use the input's own keys, omit --keys-from; otherwise rename the column")
        self.notes(rows, "--keys", "id")

    def test_an_alias_of_bytes_is_noted(self):
        path = self.text("id,x,y\na,1,2\n")
        note = "--alias m: once the alias is set, a lookup returns the quantised bytes of its rows; m.scale and m.offset are set with it. If m has named floats, use another alias"
        self.assertIn(note, self.notes(path, "--keys", "id", "--version", "1", "--alias", "m=rows", "--dtype", "int8", "--list"))
        self.assertNotIn(note, self.notes(path, "--keys", "id", "--version", "1", "--alias", "m=rows", "--list"))

    def test_a_first_line_is_a_row_with_no_header(self):
        for text in "king,3,7\nqueen,4,8\n", "king,3,7\nqueen,4,8":
            self.notes(self.text(text), "--no-header", "--keys", "0")
            self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [3, 7, 4, 8])
            self.assertEqual(strings(self.tensors("m.safetensors"), "rows.keys"), ["king", "queen"])
        self.notes(self.text("0.5"), "--no-header")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "0"), [0.5])
        path = self.text("a,1,2\n")
        self.assertIn("there is no column id; the columns are 0, 1, 2", self.refused(path, "--no-header", "--keys", "id"))
        self.text("a,1,2\nb,2,3\nc,4\n")
        self.assertIn("row 2, 'c,4', has 2 columns; expected 3", self.refused(path, "--no-header", "--keys", "0"))
        path = self.text("a,1,2\nb,x,3\n")
        self.assertIn("column 1 (row 1: 'x') is not numeric", self.refused(path, "--no-header", "--keys", "0"))
        self.assertEqual(self.refused(self.text(""), "--no-header"), f"{path}: it is empty; expected rows")

    def test_errors_about_names_that_are_numbers_point_to_no_header(self):
        hint = ". If the first line is a row, use --no-header"
        path = self.text("king,3,7\nqueen,4,8\n")
        self.assertEqual(self.refused(path, "--keys", "id"), f"{path}: there is no column id; the columns are king, 3, 7{hint}")
        path = self.text("king,0.1,0.1\n")
        self.assertEqual(self.refused(path), f"{path}: columns 2 and 3 are both named '0.1'. Expected a different name for each column{hint}")

    def test_an_empty_first_line_names_no_column(self):
        path = self.text("\nx\n1\n")
        self.assertEqual(self.refused(path), f"{path}: the first line is empty; expected the name of the column")
        self.notes(self.text("\n\nx,y\n1,2\n"))
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1, 2])

    def test_a_first_line_for_excel_is_named(self):
        path = self.text("\ufeffsep=;\r\nid;x\r\na;1\r\n")
        for options in (), ("--delimiter", ";"):
            self.assertIn("the first line, 'sep=;', is for Excel; remove it", self.refused(path, *options))

    def test_a_first_line_without_rows_is_a_table_without_rows(self):
        for text in "id,x,y", "id,x,y\n":
            self.notes(self.text(text), "--keys", "id")
            self.assertEqual(self.tensors("m.safetensors")["rows"], ("float32", [0, 2], b""))

    def test_files_of_other_formats_are_named(self):
        for start, what in (b"PK\3\4", "a zip archive, such as .xlsx or .npz"), (b"PAR1", "a Parquet file"):
            for name in "m.csv", "m.jsonl", "m.txt":
                path = self.text(start + b"\0" * 30, name)
                self.assertEqual(self.refused(path), f"{path}: it is {what}; expected text")


class NamesOfColumns(ColumnTest):
    def test_a_column_that_cannot_be_keys_is_named_before_columns_that_cannot_be_rows(self):
        path = self.parquet(title=["a"], v=[[0.5]])
        self.assertEqual(self.refused(path, "--keys", "v"), f"{path}, column v: keys are of type list<element: double>; expected integers or strings")

    def test_lists_that_are_text_are_named(self):
        path = self.parquet(id=[1], v=["[0.5, 1.5]"])
        self.assertEqual(self.refused(path, "--rows", "v"), f"{path}, column v: the type is string; expected numbers, or lists of numbers; "
                                                            "'[0.5, 1.5]' is text; convert it to lists with df['v'] = df['v'].map(json.loads)")
        path = self.parquet(id=[1], v=["Dune"])
        self.assertEqual(self.refused(path, "--rows", "v"), f"{path}, column v: the type is string; expected numbers, or lists of numbers")

    def test_a_name_that_could_be_several_is_quoted(self):
        self.assertIn("there is no column id; the columns are 'id x', ' y', z", self.refused(self.text("id x, y,z\n1,2,3\n"), "--keys", "id"))

    def test_columns_beside_lists_are_left_out_with_a_note(self):
        path = self.parquet(id=[1, 2], v=[[1.0], [2.0]], x=[1.0, 2.0], t=["a", "b"])
        self.assertEqual(self.notes(path, "--keys", "id"), [f"{path}: the rows are the lists of column v; columns x and t are left out"])
        self.assertEqual(self.notes(path, "--keys", "id", "--rows", "v"), [])

    def test_names_that_are_equal_or_empty_are_listed(self):
        for names, expected in ((["t", "x", "x"], "columns 2 and 3 are both named 'x'"),
                                (["x", "t", "x", "x"], "columns 1, 3 and 4 are all named 'x'"),
                                (["t", "", ""], "columns 2 and 3 have no name"), (["t", "x", ""], "column 3 has no name"),
                                (["x", "x", ""], "columns 1 and 2 are both named 'x'; column 3 has no name")):
            with self.subTest(names):
                expected += ". Expected a different name for each column"
                trailing = ". If each line ends with ',', remove it there" if all(names[:-1]) and not names[-1] else ""
                trailing = ". If the first line, 't,,', is a title, remove it" if names == ["t", "", ""] else trailing
                path = self.text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
                self.assertEqual(self.refused(path, "--keys", "t"), f"{path}: {expected}{trailing}")
                pq.write_table(pa.table([pa.array([1.0])] * len(names), names=names), self.work / "m.parquet")
                self.assertEqual(self.refused(self.work / "m.parquet"), f"{self.work / 'm.parquet'}: {expected}")


class Quotes(ColumnTest):
    """Text in quotes is read as RFC 4180 has it, and never joins fields or lines without a word."""

    def keys(self, *arguments):
        self.notes(*arguments)
        return strings(self.tensors("m.safetensors"), "x.keys")

    def test_a_quote_is_text_in_tsv(self):
        path = self.text('id\tx\n5"\t1\na\t2\n"b\t3\n', "m.tsv")
        self.assertEqual((self.keys(path, "--keys", "id"), self.notes(path, "--keys", "id")), (['5"', "a", '"b'], []))

    def test_tsv_has_quotes_if_asked_and_a_note_says_that_it_seems_to(self):
        path = self.text('id\tx\na\t1\n"5"" b"\t2\n', "m.tsv")
        self.assertEqual(self.keys(path, "--keys", "id"), ["a", '"5"" b"'])
        self.assertEqual(self.notes(path, "--keys", "id"), [
            f"""{path}, line 3: '"5"" b"' is read with its quotes; --quote reads quoted fields, and --no-quote hides this note"""])
        for option in "--quote", "--no-quote":
            self.assertEqual(self.notes(path, "--keys", "id", option), [])
        self.assertEqual(self.keys(path, "--keys", "id", "--quote"), ["a", '5" b'])
        self.assertIn("row 0, '\"a\\tb\"\\t1', has 3 columns; expected 2, as the first line, 'id\\tx', has; --quote reads quoted fields",
                      self.refused(self.text('id\tx\n"a\tb"\t1\n', "m.tsv"), "--keys", "id"))

    def test_csv_has_quotes_unless_told_otherwise(self):
        path = self.text('id,x\n5" a,1\n"b, ""c""",2\n"",3\n')
        self.assertEqual((self.keys(path, "--keys", "id"), self.notes(path, "--keys", "id")), (['5" a', 'b, "c"', ""], []))
        self.assertEqual(self.keys(self.text('id,x\n"a,1\nb",2\n'), "--keys", "id", "--no-quote"), ['"a', 'b"'])

    def test_a_field_that_is_not_closed_or_goes_on_after_its_quote_is_refused(self):
        rule = "; a quote inside a quoted field is written \"\". If quotes are part of the text, use --no-quote"
        for text, expected in (('id,d,x\n1,"5 in,0.5\n2,"6 in,0.7\n',
                                "line 2: the quoted field '\"5 in,0.5\\n2,\"' has text after its closing quote"),
                               ('id,d,x\n1,a,0.5\n2,"6 in,0.7\n', "line 3: the quoted field '\"6 in,0.7\\n' is not closed"),
                               ('id,d,x\n1,"a"b,0.5\n', "line 2: the quoted field '\"a\"' has text after its closing quote"),
                               ('id,d,"x', "line 1: the quoted field '\"x' is not closed")):
            with self.subTest(text):
                path = self.text(text)
                self.assertEqual(self.refused(path, "--keys", "id", "--rows", "x"), f"{path}, {expected}{rule}")

    def test_quoted_line_breaks_are_noted_with_the_first_line(self):
        path = self.text('id,d,x\n1,a,0.5\n2,"b\nc",1.5\r\n3,"d\r\ne",2.5\n')
        self.assertEqual(self.notes(path, "--keys", "id", "--rows", "x"), [
            f"{path}: 2 quoted fields have line breaks, the first in line 3; if quotes are part of the text, use --no-quote"])
        self.assertEqual(numbers(self.tensors("m.safetensors"), "x"), [0.5, 1.5, 2.5])

    def test_quotes_are_followed_across_blocks(self):
        import csv_file
        rows = [(f'k{i}', f'"a""{i % 7}"' if i % 3 else f'"b\n{i}"') for i in range(300)]
        path = self.text("id,d,x\n" + "".join(f"{key},{d},1\n" for key, d in rows))
        breaks = f"{path}: 100 quoted fields have line breaks, the first in line 2; if quotes are part of the text, use --no-quote"
        for size in 16, 17, 19, 23, 64, 1000:
            with self.subTest(size), unittest.mock.patch.object(csv_file, "QUOTED_BYTES", size):
                self.assertEqual(csv_file.check_quotes(path, ","), [breaks])
        with unittest.mock.patch.object(csv_file, "QUOTED_BYTES", 16):
            path = self.text('id,d\n1,"' + "a" * 100 + '"\n')
            self.assertIn("line 2: a quoted field starts here and has more than 16 bytes", self.refused(path))


class DecimalCommas(ColumnTest):
    def test_numbers_have_a_decimal_comma_if_asked(self):
        path = self.text("id;x;y\na;1,5;-2e3\nb; ,25 ;inf\n")
        self.notes(path, "--delimiter", ";", "--decimal", ",", "--keys", "id")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, -2000, 0.25, float("inf")])

    def test_a_point_is_then_no_part_of_a_number(self):
        options = "--delimiter", ";", "--decimal", ",", "--keys", "id"
        hint = "with --decimal , numbers have a decimal comma, and no separators between digits"
        path = self.text("id;x\na;1,5\nb;1.234\n")
        self.assertIn(f"column x (row 1: '1.234') is not numeric; {hint}", self.refused(path, *options))
        self.assertEqual(self.refused(path, *options, "--rows", "x"), f"{path}, column x: row 1 is '1.234'; expected a number; {hint}; "
                         "if the point is a decimal point, write a comma: pandas.read_csv with dtype=str, then df['NAME'] = df['NAME'].str.replace('.', ','); "
                         "if it separates thousands, remove it: pandas.read_csv with dtype=str, then df['NAME'] = df['NAME'].str.replace('.', ''). "
                         "Row 1 starts in line 3 and has the key 'b'")
        path = self.text("id;x\na;1,5\nb;" + "9" * 400 + ",5\n")
        self.assertIn("column x: row 1 is '9999", self.refused(path, *options, "--rows", "x"))

    def test_points_that_may_separate_thousands_are_noted(self):
        def note(path, column, first):
            return [f"{path}: the numbers in column {column}, such as '{first}', have three digits after the point, which is read as a decimal point; "
                    "if it separates thousands, remove it. --decimal . hides this note"]
        path = self.text("name;x;y\na;1.234;0.125\nb;-12.500;7.125\n")
        self.assertEqual(self.notes(path, "--delimiter", ";", "--keys", "name"), note(path, "x", "1.234"))
        self.assertEqual(self.notes(path, "--delimiter", ";", "--keys", "name", "--decimal", "."), [])
        self.assertEqual(self.notes(path, "--delimiter", ";", "--rows", "y"), [])
        path = self.text('name,x,y\na,1.234,"2,5"\nb,12.500,"3,5"\n')
        self.assertEqual(self.notes(path, "--rows", "x"), note(path, "x", "1.234"))
        for text in "name,x\na,1.234\nb,12.500\n", "name,x,y\na,1.234,b\nb,12.500,c\n":
            self.assertEqual(self.notes(self.text(text), "--rows", "x"), [])
        path = self.text("name;x\na;\nb;1.234\n")
        self.assertEqual(self.notes(path, "--delimiter", ";", "--keys", "name", "--list"), note(path, "x", "1.234"))
        self.assertEqual(self.refused(path, "--delimiter", ";", "--keys", "name"), f"{path}, column x: row 0 has no value; fill it, or remove the row. Row 0 starts in line 2 and has the key 'a'")
        path = self.text("a;1.234\nb;2.500\n")
        self.assertEqual(self.notes(path, "--delimiter", ";", "--no-header", "--keys", "0"), note(path, "1", "1.234"))

    def test_an_index_without_a_name_has_no_thousands(self):
        path = self.text(";x\n1.234;1.5\n")
        notes = self.notes(path, "--delimiter", ";")
        self.assertEqual(["first column has no name" in note for note in notes], [True], notes)

    def test_a_column_of_rows_that_is_not_there_is_an_error(self):
        for text, name, expected in (("id;x\na;1.5\n", "nosuch", "there is no column nosuch; the columns are id, x"),
                                     ("a;1.5\n", "2", "there is no column 2; the columns are 0, 1")):
            path = self.text(text)
            options = [] if "id" in text else ["--no-header"]
            self.assertEqual(self.refused(path, "--delimiter", ";", "--rows", name, *options), f"{path}: {expected}")

    def test_commas_that_may_separate_thousands_are_noted(self):
        for values in ('"1,234"', "999", '"12,345"'), ("999", '"-1,234"', '""'):
            path = self.text("name,visits,x\n" + "".join(f'{i},{value},"0,5"\n' for i, value in enumerate(values) if value != '""'))
            shown = next(value.strip('"') for value in values if "," in value)
            self.assertEqual(self.notes(path, "--decimal", ",", "--keys", "name"),
                             [f"{path}: the numbers in column visits, such as '{shown}', have three digits after the comma, which is read as a decimal point; "
                              "if it separates thousands, remove it: pandas.read_csv with dtype=str, then df['NAME'] = df['NAME'].str.replace(',', '')"])
            self.assertEqual(self.notes(path, "--decimal", ",", "--rows", "x"), [])
        for contradiction in '"1,5"', '"0,125"', "1234", '"1234,567"', '"1,2345"', ",5":
            path = self.text('name;x\na;"1,234"\nb;' + contradiction + "\n")
            self.assertEqual(self.notes(path, "--delimiter", ";", "--decimal", ",", "--keys", "name"), [], contradiction)


class ValuesOfCsv(ColumnTest):
    def test_a_value_that_is_no_number_is_shown_with_its_row_and_a_hint(self):
        for value, hint in (("NA", "a row with a missing value cannot be imported. Fill the value, or remove the row"), ("5%", "write 5% as 0.05"),
                            ("1 2", "numbers have a decimal point, and no separators between digits"),
                            ('"0,5"', "numbers have a decimal point, and no separators between digits; --decimal , reads decimal commas; if these are two numbers, each needs a column"),
                            *((f'"{text}"', f"in CSV, each number of a list needs its own column. With pandas, use df['NAME'].str.split('{separator}', expand=True)")
                              for text, separator in (("1,2,3", ","), ("0.5|1", "|"), ("1;2", ";"), ("1 2 3", " "))),
                            ('"1 234 567"', "numbers have a decimal point, and no separators between digits"),
                            *((f'"{value}"', "numbers have a decimal point, and no separators between digits; if the comma separates thousands, remove it: "
                               "pandas.read_csv with dtype=str, then df['NAME'] = df['NAME'].str.replace(',', '')") for value in ("1,234", "103,771.90", "-1,234,567")),
                            *((f'"{value}"', "a number in parentheses is negative in accounting. Write (5) as -5; with pandas, df['NAME']"
                               r" = df['NAME'].str.replace(r'^\((.*)\)$', r'-\1', regex=True)") for value in ("(5)", "(1,234.50)", "( 0.5 )")),
                            ("#DIV/0!", "a row with a missing value cannot be imported. Fill the value, or remove the row"), ("−5", "the minus sign must be -, not the character − (U+2212)"),
                            ("(5 %)", "write 5% as 0.05, and (5) as -5"), ("(1+2j)", "choose the columns of numbers with --rows, and the column of keys with --keys"),
                            ("(1 2)", "lists can be imported only from Parquet or JSON Lines. In CSV, each number needs its own column"), ("5-", "write the minus sign first, 5- as -5"),
                            *((f'"{value}"', "write numbers without the currency") for value in ("$5", "-$5", "$1,200", "1.200,50 €", "$-5")),
                            ("($5)", "write numbers without the currency, and (5) as -5"),
                            ("1_000", "numbers have a decimal point, and no separators between digits"),
                            ("0x1f", "numbers must be decimal, not hexadecimal"), ("１２", "numbers must use the digits 0 to 9"),
                            ('"[0.5, 1.5]"', "lists can be imported only from Parquet or JSON Lines. In CSV, each number needs its own column"),
                            *((value, "choose the columns of numbers with --rows, and the column of keys with --keys")
                              for value in ("Dune", "Dune-", "(Dune)", "$Dune", "#Dune", "1|Dune", "true.", "5%5"))):
            path = self.text(f"id,x\na,0.5\nb,\nc,{value}\n")
            shown = value.strip('"')
            with self.subTest(value):
                self.assertEqual(self.refused(path, "--rows", "x"), f"{path}, column x: row 2 is '{shown}'; expected a number; {hint}. Row 2 starts in line 4")
                error = self.refused(path, "--keys", "id")
                self.assertIn(f"{path}: column x (row 2: '{shown}') is not numeric", error)
                self.assertTrue(error.endswith(". Row 2 starts in line 4 and has the key 'c'; choose the columns of the rows with --rows"), error)
                self.assertNotIn("--keys", self.refused(path, "--keys", "id", "--rows", "x"))

    def test_the_line_of_a_row_counts_line_breaks_in_fields_and_empty_lines(self):
        for text, place in (('id,x\na,1\n\n"b\nc",2\nd,y\n', "Row 2 starts in line 6 and has the key 'd'"), ("id\tx\na\t1\n\"b\t2\nd\ty\n", "Row 2 starts in line 4 and has the key 'd'"),
                            ("id,x\r1,1\r2,y\r", "Row 1 starts in line 3 and has the key 2")):
            with self.subTest(text):
                options = ("--delimiter", "\\t", "--no-quote") if "\t" in text else ()
                self.assertIn(place, self.refused(self.text(text), "--keys", "id", "--rows", "x", *options))
        self.assertIn(". Row 1 has the key 8", self.refused(self.parquet(id=[7, 8], x=[1.0, None]), "--keys", "id"))

    def test_an_amount_in_parentheses_may_have_a_decimal_comma(self):
        path = self.text("id;x\na;1,5\nb;(5,5)\n")
        self.assertIn("a number in parentheses is negative in accounting", self.refused(path, "--delimiter", ";", "--decimal", ",", "--rows", "x"))

    def test_columns_of_other_types_say_how_they_become_numbers(self):
        for column, hint in (
                (pa.array([datetime.datetime(2026, 1, 1)]), "convert times to integers with df['x'] = pandas.to_datetime(df['x']).astype('int64')"),
                (pa.array([datetime.date(2026, 1, 1)]), "convert times to integers with df['x'] = pandas.to_datetime(df['x']).astype('int64')"),
                (pa.array([datetime.timedelta(1)]), "convert durations to integers with df['x'] = df['x'].astype('int64')"),
                (pa.array(["1.5"]).dictionary_encode(), "convert categories of text to numbers with df['x'] = df['x'].astype('float64')"),
                (pa.array([b"1234"]), "if the bytes are float32, convert them to lists with df['x'] = df['x'].map(lambda x: numpy.frombuffer(x, '<f4'))"),
                (pa.array([[decimal.Decimal("1.5")]]), "convert decimal numbers to floats with df['x'] = [[float(x) for x in row] for row in df['x']]"),
                (pa.array([{"y": 1}]), "objects are not flattened. Make a column of each member that is a number")):
            pq.write_table(pa.table({"x": column}), self.work / "m.parquet")
            with self.subTest(hint):
                self.assertTrue(self.refused(self.work / "m.parquet", "--rows", "x").endswith("; " + hint))

    def test_lists_that_are_text_say_how_they_become_lists(self):
        for text, function in ("[1, 2]", "json.loads"), *((text, f"lambda x: numpy.fromstring(x.strip('[]'), sep={separator!r})") for text, separator in (
                ("[1.5 2. ]", " "), ("[1.5\n 2.]", " "), ("[1.5, nan]", ","), ("[1.5,\n 2.]", ","))):
            path = self.parquet(v=[text])
            self.assertIn(f"is text; convert it to lists with df['v'] = df['v'].map({function})", self.refused(path, "--rows", "v"))
            self.assertIn(f"is text; convert it to lists with df['NAME'] = df['NAME'].map({function})", self.refused(path))

    def test_text_that_was_shortened_is_written_again(self):
        hint = "is text that was shortened when it was written, so the numbers at ... are not in the file. Write it again from the arrays, as Parquet"
        for text in "[ 1.82 0.62 0.12 ... 0.5 ]", "[1.5\n ...\n 2.5]", "array([1.5, ..., 2.5])", "tensor([1.5, ..., 2.5])":
            with self.subTest(text):
                path = self.parquet(v=[text])
                self.assertTrue(self.refused(path, "--rows", "v").endswith(f" {hint}"))
                for path in path, self.text(f'v\n"{text}"\n'), self.text(json.dumps({"v": text}) + "\n", "m.jsonl"):
                    self.assertIn(f"is not numeric; it {hint}", self.refused(path))
        for text in "[[1.5 2. ]\n [3. 4. ]]", "[np.float64(1.5), np.float64(2.5)]":
            path = self.parquet(v=[text])
            self.assertTrue(self.refused(path, "--rows", "v").endswith("is text; write it again from the lists, as Parquet"))
            self.assertIn("; it is text; write it again from the lists, as Parquet", self.refused(path))

    def test_columns_of_bools_are_converted_as_those_of_integers(self):
        path = self.parquet(a=[True, False], b=[2, 3], c=[0.5, 1.5])
        self.imported(path, "--dtype", "float32")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1, 2, 0.5, 0, 3, 1.5])
        self.imported(self.parquet(v=[[True, False]]), "--dtype", "float16")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "v"), [1, 0])

    def test_blank_text_and_numbers_that_are_text_are_shown(self):
        path = self.text("id,x\na,1\nb,  \n")
        self.assertIn("column x (row 1: '  ') is not numeric; a row with a missing value cannot be imported", self.refused(path, "--keys", "id"))
        self.assertIn("column x (text) is not numeric; numbers that are stored as text are not converted automatically. Use df['x'] = df['x'].astype('float64')", self.refused(self.parquet(x=["1", "2"])))
        self.assertIn("column x: row 0 has no value", self.refused(self.text('id,x\na,""\n'), "--keys", "id"))

    def test_a_value_far_into_the_file_is_found(self):
        lines = "".join(f"k{i},{i},7\n" for i in range(400_000))
        self.assertIn(", column x: row 400000 is 'none'; expected a number; a row with a missing value",
                      self.refused(self.text("id,x,y\n" + lines + "k,none,7\n"), "--keys", "id"))
        self.assertIn(": row 400000, 'k,1', has 2 columns; expected 3, as the first line, 'id,x,y', has",
                      self.refused(self.text("id,x,y\n" + lines + "k,1\n"), "--keys", "id"))

    def test_columns_of_text_are_listed_and_the_columns_of_numbers_too(self):
        path = self.text("id,title,x,y,seen,day\n1,Alien,1,,true,2026-01-01\n2,Brazil,2,3,false,2026-01-02\n")
        self.assertEqual(self.refused(path, "--keys", "id"),
                         f"{path}: columns title (row 0: 'Alien'), seen (row 0: 'true') and day (row 0: '2026-01-01') are not numeric; write true as 1 and false as 0; choose the columns of the rows with --rows, here --rows x,y")
        path = self.parquet(title=["Alien"], x=[1.0], seen=[True], day=pa.array([1], pa.date32()))
        self.assertEqual(self.refused(path),
                         f"{path}: columns title (row 0: 'Alien') and day (type date32[day]) are not numeric; convert times to integers with df['day'] = pandas.to_datetime(df['day']).astype('int64'); choose the columns of the rows with --rows, here --rows x,seen, and the column of keys with --keys")

    def test_latin_1_is_refused_only_where_it_is_read(self):
        path = self.text("id,é,x\na,1,2\nb\xe9,1,2\n".encode("latin-1"))
        hint = "is not UTF-8; to convert a file in Latin-1 or from Windows in Western Europe, use iconv -f CP1252 -t UTF-8 FILE >NEW; for a file from another region, use CP1251, GBK or CP932"
        self.assertEqual(self.refused(path), f"{path}, line 1: 'id,\\xe9,x\\n' {hint}".replace("'id", "b'id"))
        path = self.text("id,x\na,1\nb\xe9,2\n".encode("latin-1"))
        self.assertEqual(self.refused(path, "--keys", "id"), f"{path}, column id: row 1: b'b\\xe9' {hint}")
        self.notes(path, "--rows", "x")

    def test_spaces_between_columns_are_recognised(self):
        path = self.text("id a b c\nx 1.5 2 3\n")
        self.assertEqual(self.refused(path, "--keys", "id"), f"{path}: the first line, 'id a b c', has no ','; if ' ' separates the "
                                                             "columns, use --delimiter ' '")
        self.notes(path, "--keys", "id", "--delimiter", " ")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, 2, 3])
        self.assertIn("--delimiter ' '", self.refused(self.text("id x\n7 1.5\n")))
        np.save(self.work / "r.npy", np.zeros(1))
        for text in "room name\nroom 7\n", "name of room\na b c\n", "room name\n", "the name\nx\n":
            path = self.text(text, "k.csv")
            self.assertNotIn("--delimiter", run(self.work / "r.npy", "--keys-from", path, "--keys", text.partition("\n")[0], "--data-dir", self.data)[2])

    def test_another_delimiter_is_recognised_and_can_be_given(self):
        for delimiter, shown in (";", "';'"), ("\t", "'\\t'"), ("|", "'|'"):
            path = self.text("id,x,y\na,1.5,2\n".replace(",", delimiter))
            with self.subTest(delimiter):
                self.assertEqual(self.refused(path, "--keys", "id"),
                                 f"{path}: the first line, {'id,x,y'.replace(',', delimiter)!r}, has no ','; if "
                                 f"{shown} separates the columns, use --delimiter {shown}")
                self.notes(path, "--keys", "id", "--delimiter", shown.strip("'"))
                self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, 2])
        self.notes(self.text("a;b\n1\n"), "--delimiter", ",", "--tensor", "a;b=x")

    def test_an_empty_line_is_a_row_without_a_value_only_where_there_is_one_column(self):
        self.assertIn("column x: row 1 has no value", self.refused(self.text("x\n1\n\n2\n")))
        self.notes(self.text("x,y\n1,2\n\n3,4\n\n"))
        self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1, 2, 3, 4])


class PartsOfSeveralDtypes(ColumnTest):
    def parts(self, *columns):
        return [self.parquet(f"p{i}.parquet", id=[2 * i, 2 * i + 1], v=column) for i, column in enumerate(columns)]

    def test_dtype_converts_them(self):
        for first, second in (("f4", "f8"), ("f8", "f4"), ("i4", "f8"), ("i4", "i8"), ("?", "f4"), ("i8", "?")):
            one, two = np.array([1, 0], first), np.array([1, 1], second)
            for kind, a, b, width in (("numbers", one, two, 1), ("lists", [one, one], [two, two], 2)):
                with self.subTest(f"{first} {second} {kind}"):
                    parts = self.parts(pa.array(a), pa.array(b))
                    types = [pq.read_schema(part).field("v").type for part in parts]
                    self.assertEqual(self.refused(*parts, "--keys", "id"), f"{parts[1]}: column v is of type {types[1]}; expected {types[0]}, as in {parts[0]}; "
                                     "--dtype float32 or float64 converts both")
                    self.assertEqual(self.notes(*parts, "--keys", "id", "--dtype", "float32", "--name", "m"), [])
                    expected = [1, 0, 1, 1] if width == 1 else [1, 0, 1, 0, 1, 1, 1, 1]
                    self.assertEqual(numbers(self.tensors("m.safetensors"), "v"), expected)

    def test_what_is_not_converted_is_refused(self):
        for a, b in (([1.0, 2.0], [[1.0], [2.0]]), ([1.0, 2.0], ["a", "b"])):
            self.assertIn(f", as in {self.work}/p0.parquet", told := self.refused(*self.parts(a, b), "--keys", "id", "--dtype", "float32"))
            self.assertNotIn("--dtype", told)
        large = self.parts(pa.array([[1.0], [2.0]]), pa.array([[3], [2 ** 53 + 1]]))
        self.assertIn("p1.parquet, column v: row 1 has the integer 9007199254740993", self.refused(*large, "--keys", "id", "--dtype", "float64"))
        told = self.refused(*self.parts(pa.array([1, 2]), pa.array(["a", "b"])), "--keys", "v")
        self.assertTrue(told.endswith("; all keys must have one dtype. To make them text, use df['v'] = df['v'].astype(str)"), told)
        keys = self.parts(pa.array([1, 2]), pa.array([3.0, 4.0]))
        self.assertTrue(self.refused(*keys, "--keys", "v", "--dtype", "float32").endswith(f"column v is of type double; expected int64, as in {keys[0]}"))

    def test_keys_may_be_integers_of_several_dtypes(self):
        self.notes(*self.parts(pa.array([1, 2], pa.int32()), pa.array([3, 4])), "--keys", "v", "--rows", "id", "--name", "m")
        self.assertEqual(numbers(self.tensors("m.safetensors"), "id.keys"), [1, 2, 3, 4])


class NamesWithCommas(ColumnTest):
    def test_a_name_with_a_comma_is_in_quotes(self):
        for path in (self.text('"x,y","a ""b""",z,t\n1,2,3,q\n4,5,6,r\n'), self.parquet(**{"x,y": [1.0, 4.0], 'a "b"': [2.0, 5.0], "z": [3.0, 6.0], "t": ["q", "r"]})):
            with self.subTest(path.name):
                for options, rows in ((['"x,y",z'], [1, 3, 4, 6]), (['z,"x,y"'], [3, 1, 6, 4]), (["z", '"a ""b"""'], [3, 2, 6, 5])):
                    self.imported(path, *(part for one in options for part in ("--rows", one)))
                    self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), rows)
                self.assertTrue(self.refused(path, "--rows", "x,y").endswith(""". To choose the column 'x,y', use --rows '"x,y"'"""))
                told = self.refused(path)
                self.imported(path, *shlex.split(told.partition(", here ")[2].replace(", and the column of keys with --keys, here ", " ")))
                self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1, 2, 3, 4, 5, 6])
                self.assertEqual(strings(self.tensors("m.safetensors"), "rows.keys"), ["q", "r"])

    def test_names_in_a_list_are_told_apart(self):
        lists = {"a b": [[1.0]], "c,d": [[2.0]]}
        self.assertIn(": there are several columns of lists, 'a b', 'c,d', e; ", self.refused(self.parquet(**lists, e=[[3.0]])))
        self.assertIn("; columns 'x, y' and z are left out", self.notes(self.parquet(**{"x, y": [1], "z": [2], "v": [[1.0]]}))[0])
        self.assertIn(": columns 'item id' and id are part of the rows, ", self.notes(self.parquet(**{"item id": [1], "id": [2], "v": [3]}))[0])
        self.assertIn(": columns 'p q' (row 0: 'x') and r (row 0: 'y') are not numeric", self.refused(self.parquet(**{"p q": ["x"], "r": ["y"]})))

    def test_a_list_that_is_not_one_is_refused(self):
        for rows in "a,,b", "", '"a', '"a"b', ",":
            status, _, errors = run(self.text("a,b\n1,2\n"), "--data-dir", self.data, "--rows", rows)
            self.assertEqual(status, 2)
            self.assertIn(f"--rows {rows!r}: expected names of columns, separated by commas. Write a name with a comma or a quote as in CSV", errors)


class CodesInCsv(ColumnTest):
    """Numbers with leading zeros among the rows."""

    def test_leading_zeros_are_noted_because_numbers_lose_them(self):
        def note(name, code):
            return (f"{path}: column {name} has leading zeros, such as {code}, which numbers lose; if it is a code that names the row, --keys {name} keeps the zeros")
        path = self.work / "m.csv"
        path.write_text("code,a\n1234,1\n00007,2\n")
        self.assertEqual(self.notes(path), [note("code", "'00007'")])
        self.assertEqual(self.notes(path, "--keys", "code"), [])
        self.assertEqual(self.notes(path, "--rows", "a"), [])
        path.write_text("name,code,a\nx,01,0.5\ny,2,-0.5\n")
        self.assertEqual(self.notes(path, "--keys", "name"), [note("code", "'01'")])


class KeysOfCsv(ColumnTest):
    def kind(self, *keys, options=()):
        self.notes(self.text("id,x\n" + "".join(f"{key},1\n" for key in keys)), "--keys", "id", *options)
        tensors = self.tensors("m.safetensors")
        return numbers(tensors, "x.keys") if "x.keys" in tensors else strings(tensors, "x.keys")

    def test_keys_are_int64_if_all_are_integers_in_their_usual_form(self):
        self.assertEqual(self.kind(7, -3, 0, 2 ** 63 - 1, -2 ** 63), [7, -3, 0, 2 ** 63 - 1, -2 ** 63])
        self.assertEqual(self.kind(7, 0, 2 ** 63, 2 ** 64 - 1), [7, 0, 2 ** 63, 2 ** 64 - 1])
        self.assertEqual(self.tensors("m.safetensors")["x.keys"][0], "uint64")
        for other in "x", "08", "-0", "+8", "8.0", str(2 ** 64), "1" * 30:
            with self.subTest(other):
                self.assertEqual(self.kind("7", other), ["7", other])

    def test_an_empty_field_is_a_missing_key_and_not_an_empty_one(self):
        for name, text in (("m.csv", "id,x\n7,1\n,2\n"), ("m.csv", "id,x\na,1\n,2\n"), ("m.tsv", "id\tx\n7\t1\n\t2\n")):
            with self.subTest(text):
                path = self.text(text, name)
                for options in (), ("--key-dtype", "string"):
                    self.assertIn(f"{path}, column id: row 1 has no key", self.refused(path, "--keys", "id", *options))
        self.notes(self.text('id,x\na,1\n"",2\n'), "--keys", "id")
        self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), ["a", ""])

    def files_of_keys(self, keys):
        """files of each format with text keys, the options that name their column, and the place of row 1"""
        lines = "".join(f'"{key}",1\n' for key in keys)
        yield (path := self.text("id,x\n" + lines)), ("--keys", "id"), f"{path}, column id: row 1"
        yield (path := self.text(lines, "n.csv")), ("--keys", "0", "--no-header"), f"{path}, column 0: row 1"
        yield (path := self.text("id\tx\n" + "".join(f"{key}\t1\n" for key in keys), "m.tsv")), ("--keys", "id"), f"{path}, column id: row 1"
        yield (path := self.text("".join(json.dumps({"id": key, "x": 1}) + "\n" for key in keys), "m.jsonl")), ("--keys", "id"), f"{path}, column id: row 1"
        yield (path := self.parquet(id=keys, x=[1.0] * len(keys))), ("--keys", "id"), f"{path}, column id: row 1"
        rows = self.work / "rows.npy"
        np.save(rows, np.zeros(len(keys)))
        yield rows, ("--keys-from", path := self.text("".join(f"{key}\n" for key in keys), "k.txt")), f"{path}, line 2"

    def test_a_missing_key_among_numbers_is_an_error_unless_keys_are_asked_to_be_text(self):
        for key in "NA", "nan", "n/a", "<NA>", "null", "\\N", "  ":
            for keys in (["1001", key, "1003"], ["007", key, "008"], ["1001.0", key, "1003.0"], [*map(str, range(1)), key, *map(str, range(2, 22)), "x", "y"]):
                for path, options, place in self.files_of_keys(keys):
                    with self.subTest(f"{path.name} {keys}"):
                        self.assertEqual(self.refused(path, *options),
                                         f"{place} is {key!r}, among keys that are numbers; if it stands for a missing key, remove its row; if it is "
                                         "a key, use --key-dtype string")
                        self.notes(path, *options, "--key-dtype", "string")

    def test_a_number_with_blanks_around_it_is_an_error_among_numbers(self):
        for key in " 1002", "1002 ", " 7.0":
            for path, options, place in self.files_of_keys(["1001", key, "1003"]):
                self.expect_blanks(path, options, place, key)

    def test_a_number_with_blanks_around_it_is_an_error_in_each_key_too(self):
        for keys in ["   1", "  10", " 100"], ["1   ", "10  ", "100 "], [" 7.0", " 8.0"]:
            for path, options, place in self.files_of_keys(keys):
                self.expect_blanks(path, options, place.removesuffix("1").removesuffix("2") + ("1" if "line" in place else "0"), keys[0])
        for keys in ["a", " 7"], ["  ", "   "], [" a", " b"]:
            for path, options, place in self.files_of_keys(keys):
                self.assertEqual(self.notes(path, *options), [])

    def expect_blanks(self, path, options, place, key):
        with self.subTest(f"{path.name} {key!r}"):
            self.assertEqual(self.refused(path, *options),
                             f"{place} is {key!r}, with blanks around it, among keys that are numbers; remove the blanks (with df['NAME'].str.strip() in pandas, or write only the ids, with numpy.savetxt(FILE, ids, fmt='%d'))"
                             ", or use --key-dtype string if they are part of the key")
            self.notes(path, *options, "--key-dtype", "string")

    def test_a_word_for_a_missing_value_is_a_key_among_text(self):
        for keys in ["DE", "NA", "US"], ["DE", "NA", "7"], ["a", "nan", "b", " 7", "c", "d", *map(str, range(100, 200))]:
            for path, options, _ in self.files_of_keys(keys):
                with self.subTest(f"{path.name} {keys[:4]}"):
                    self.assertEqual(self.notes(path, *options), [])

    def test_a_key_that_is_no_integer_is_an_error_among_integers(self):
        mistake = "if it is a mistake, write an integer such as 1234, or remove its row"
        spelling = "if it is an integer, write it like 1234"
        digits = (". To write integers, use df['NAME'].astype('int64') before to_csv in pandas, or numpy.savetxt(FILE, ids, fmt='%d') for the ids alone")
        for key, way in (("12a", mistake), ("id", mistake), ("1,234", mistake), ("+5", mistake), ("0123", spelling),
                         ("7.0", spelling + digits), ("1e5", spelling + digits), *((large, "it fits neither int64 nor uint64") for large in ("9" * 20, str(2 ** 128 - 1), "-" + "9" * 39)),
                         ("-", "if it stands for a missing key, remove its row"),
                         ("?", "if it stands for a missing key, remove its row")):
            for path, options, place in self.files_of_keys(["1000", key, *map(str, range(2000, 2029)), "x", "y"]):
                with self.subTest(f"{path.name} {key}"):
                    self.assertEqual(self.refused(path, *options), f"{place} is {key!r}, among keys that are integers; {way}; "
                                     "if it is a key, use --key-dtype string")
                    self.assertEqual(self.notes(path, *options, "--key-dtype", "string"), [])

    def test_a_few_integers_or_several_other_keys_are_text(self):
        for keys in (["7", "12a", *map(str, range(100, 108))], ["7", "a", "b", "c", "d", *map(str, range(100, 200))],
                     ["7", "007", "008", "009", "010", *map(str, range(100, 200))]):
            for path, options, _ in self.files_of_keys(keys):
                with self.subTest(f"{path.name} {keys[:4]}"):
                    self.assertEqual(self.notes(path, *options), [])

    def test_a_first_line_that_is_no_integer_before_integers_is_a_header(self):
        rows = self.work / "rows.npy"
        for count in 3, 40:
            np.save(rows, np.zeros(count))
            lines = "".join(f"{key}\n" for key in ["id", *range(1, count)])
            path = self.text(lines, "k.txt")
            expected = "is 'id', among keys that are integers; if it is a header, remove the first line; if it is a key, use --key-dtype string"
            self.assertEqual(self.refused(rows, "--keys-from", path), f"{path}, line 1 {expected}")
            self.notes(rows, "--keys-from", path, "--key-dtype", "string")
            for name in "k.csv", "k.tsv":
                path = self.text(lines, name)
                self.assertEqual(self.refused(rows, "--keys-from", path, "--no-header", "--keys", "0"), f"{path}, column 0: row 0 {expected}")
        for path, options in ((self.text("id,x\na,1\n7,1\n8,1\n"), ()), (self.parquet(id=["a", "7", "8"], x=[1.0] * 3), ())):
            self.assertEqual(self.notes(path, "--keys", "id"), [])

    def test_integers_that_no_dtype_has_are_text_with_a_note(self):
        path = self.text(f"id,x\n-1,1\n{2 ** 63},2\n")
        reason = ("because neither int64 nor uint64 can hold all of the integers: some are negative and others above 2^63 - 1, or one is outside both ranges;"
                  " --key-dtype string hides this note")
        self.assertEqual(self.notes(path, "--keys", "id"), [f"{path}: the keys in column id are text, {reason}"])
        self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), ["-1", str(2 ** 63)])
        for keys in [2 ** 128 - 1, 1], [10 ** 22 + i for i in range(50)]:
            path = self.text("id,x\n" + "".join(f"{key},1\n" for key in keys))
            self.assertEqual(self.notes(path, "--keys", "id"), [f"{path}: the keys in column id are text, {reason}"])
            self.assertEqual(self.notes(path, "--keys", "id", "--key-dtype", "string"), [])
        rows = self.work / "rows.npy"
        np.save(rows, np.zeros(2))
        for name, text in ("k.txt", f"{2 ** 128}\n1\n"), ("k.json", f'{{"{2 ** 128}": 0, "1": 1}}'):
            path = self.text(text, name)
            self.assertEqual(self.notes(rows, "--keys-from", path), [f"{path}: the keys are text, {reason}"])
            self.assertEqual(self.notes(rows, "--keys-from", path, "--key-dtype", "string"), [])
        path = self.text(f"{2 ** 128} 0.5 1\n1 0.5 2\n", "m.vec")
        self.assertEqual(self.notes(path), [f"{path}: the keys are text, {reason}"])
        self.assertEqual(self.notes(path, "--key-dtype", "string"), [])
        path = self.text(f"-1\n{2 ** 63}\n", "k.txt")
        self.assertEqual(self.notes(rows, "--keys-from", path), [f"{path}: the keys are text, {reason}"])
        self.notes(rows, "--keys-from", self.text(f"1\n{2 ** 63}\n", "k.txt"))
        self.assertEqual(self.tensors("rows.safetensors")["rows.keys"][0], "uint64")

    def test_the_part_with_a_missing_key_is_named(self):
        parts = [self.parquet(f"p{i}.parquet", id=keys, x=[1.0, 2.0]) for i, keys in enumerate((["1", "2"], ["3", "nan"]))]
        self.assertIn(f"{parts[1]}, column id: row 1 is 'nan', among keys that are numbers", self.refused(*parts, "--keys", "id"))

    def test_integers_with_a_decimal_point_are_text_with_a_note(self):
        path = self.text("id,x\n7.0,1\n-8.0,2\n")
        self.assertEqual(self.notes(path, "--keys", "id"), [f"{path}: the keys in column id are text, because they are written as numbers "
                                                            "such as -8.0. To write integers, use df['NAME'].astype('int64') before to_csv in pandas, or numpy.savetxt(FILE, ids, fmt='%d') for the ids alone"
                                                            "; --key-dtype string hides this note"])
        self.assertTrue(self.refused(path, "--keys", "id", "--key-dtype", "int64").endswith("row 0 is '7.0'; expected int64. To write integers, use df['NAME'].astype('int64') before to_csv in pandas, or numpy.savetxt(FILE, ids, fmt='%d') for the ids alone"))
        self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), ["7.0", "-8.0"])
        self.assertEqual(self.notes(path, "--keys", "id", "--key-dtype", "string"), [])

    def test_ids_that_have_lost_digits_are_not_made_integers(self):
        """Following the advice for 7.0 would make other ids of them."""
        cut = "Programs shorten long numbers like this, and the missing digits are not in the file; write the ids again as text or as integers at their source"
        long = "Floats round such long integers, so some ids are already wrong; write them as integers or text at their source"
        for first, worst, why in (("4.00638E+12", "4.00638E+12", cut), ("1e+09", "1e+09", cut), ("9007199254740992.0", "9007199254740992.0", long), ("1e5", "1e5", "To write integers, use df['NAME'].astype('int64')"),
                                  ("1.700000000000000000e+09", "1.700000000000000000e+09", "To write integers, use df['NAME'].astype('int64')")):
            with self.subTest(first):
                path = self.text(f"id,x\n{first},1\n5.0,2\n")
                [note] = self.notes(path, "--keys", "id")
                self.assertTrue(note.startswith(f"{path}: the keys in column id are text, because they are written as numbers such as {worst}. {why}"), note)
                self.assertIn(why, self.refused(path, "--keys", "id", "--key-dtype", "int64") if first != "1e5" else why)
        path = self.text("id;x\n1,01111E+12;1\n2,0;2\n")
        self.assertIn(f"such as 1,01111E+12. {cut}", self.notes(path, "--keys", "id", "--delimiter", ";")[0])

    def test_keys_with_fractions_are_noted(self):
        for keys in "7.0 8.1", "0.5 -0.25", "1,5 2,5":
            first, second = keys.split()
            path = self.text(f"id;x\n{first};1\n{second};2\n")
            self.assertEqual(self.notes(path, "--keys", "id", "--delimiter", ";"),
                             [f"{path}: the keys in column id are text, because they are numbers with fractions, which are kept as written; --key-dtype string hides this note"])

    def test_errors_of_a_spreadsheet_are_no_keys_among_numbers(self):
        for error in "#REF!", "#N/A", "#NAME?", "#DIV/0!":
            self.assertIn(f"row 0 is '{error}', among keys that are numbers", self.refused(self.text(f"id,x\n{error},1\n2,3\n"), "--keys", "id"))

    def test_a_table_without_rows_is_noted(self):
        for path in self.text("id,x\n"), self.parquet(id=pa.array([], "int64"), x=pa.array([], "float32")):
            self.assertEqual(self.notes(path, "--keys", "id"), [f"{path}: the file has no rows, so the table is empty"])
        self.assertEqual(len(self.notes(self.text("id,x\n1.23E+12,1\n4E+12,2\n"), "--keys", "id")), 1)

    def test_several_strings_among_many_integers_make_strings(self):
        import csv_file
        with unittest.mock.patch.object(csv_file, "BLOCK", 4096):
            self.assertEqual(self.kind(*range(3000), *"wxyz")[-2:], ["y", "z"])
            self.assertEqual(self.kind(*range(3000))[-2:], [2998, 2999])

    def test_key_dtype_decides(self):
        self.assertEqual(self.kind(7, 8, options=("--key-dtype", "string")), ["7", "8"])
        self.assertEqual(self.kind("07", 8, options=("--key-dtype", "int64")), [7, 8])
        self.assertEqual(self.kind(7, 2 ** 64 - 1, options=("--key-dtype", "uint64")), [7, 2 ** 64 - 1])
        for key in "0x1F", "+7", " 7", "":
            self.assertTrue(self.refused(self.text(f'id,x\n7,1\n"{key}",1\n'), "--keys", "id", "--key-dtype", "int64").endswith(f"row 1 is {key!r}; expected int64"))
        path = self.text("id,x\n7,1\nx7,1\n")
        self.assertEqual(self.refused(path, "--keys", "id", "--key-dtype", "int64"), f"{path}, column id: row 1 is 'x7'; expected int64")

    def test_keys_that_lose_their_zeros_are_noted(self):
        np.save(self.work / "rows.npy", np.zeros((3, 1), "f4"))
        lost = "which becomes 7 without its leading zeros, so '007' names no row; --key-dtype string keeps the zeros"
        for path, options, place in ((self.text("id,x\n5,1\n007,2\n08,3\n"), ("--keys", "id"), "{}, column id: row 1"),
                                     (self.text('{"id":5,"x":1}\n{"id":"007","x":2}\n{"id":"08","x":3}\n', "m.jsonl"), ("--keys", "id"), "{}, column id: row 1"),
                                     (self.parquet(id=["5", "007", "08"], x=[1.0, 2.0, 3.0]), ("--keys", "id"), "{}, column id: row 1"),
                                     (self.parquet("b.parquet", id=pa.array([b"100", b"007", b"008"], pa.binary(3)), x=[1.0, 2.0, 3.0]), ("--keys", "id"), "{}, column id: row 1"),
                                     (self.parquet("v.parquet", id=pa.array(["5", "007", "08"], pa.string_view()), x=[1.0, 2.0, 3.0]), ("--keys", "id"), "{}, column id: row 1"),
                                     (self.parquet("d.parquet", id=pa.array(["5", "007", "08"]).dictionary_encode(), x=[1.0, 2.0, 3.0]), ("--keys", "id"), "{}, column id: row 1"),
                                     (self.text("5 1 1\n007 2 2\n08 3 3\n", "m.txt"), (), "{}: key 1"), (self.text("5\n007\n08\n", "k.txt"), None, "{}: key 1")):
            arguments = (path, *options) if options is not None else (self.work / "rows.npy", "--keys-from", path)
            for kind in "int64", "uint64":
                with self.subTest(path.name, kind=kind):
                    self.assertEqual(self.notes(*arguments, "--key-dtype", kind), [f"{place.format(path)} is '007', {lost}"])
            self.assertEqual(self.notes(*arguments, "--key-dtype", "string"), [])

    def test_keys_that_are_equal_without_their_zeros_say_so(self):
        for path, options, _ in self.files_of_keys(["7", "007", "8"]):
            with self.subTest(path.name):
                error = self.refused(path, *options, "--key-dtype", "int64")
                self.assertRegex(error, r"keys 0 and 1 are both 7\. A key names one row\. .* is '007', which becomes 7 without its leading zeros, so ")
                self.assertEqual(self.notes(path, *options, *shlex.split(error.partition("; ")[2].removesuffix(" keeps the zeros"))), [])


class SeveralFiles(ColumnTest):
    """An error about one of the files that make a table names that file."""

    def parts(self, **changed):
        (self.work / "parts").mkdir(exist_ok=True)
        for i, name in enumerate("abc"):
            columns = {"id": [f"k{2 * i}", f"k{2 * i + 1}"], "v": [[1.0, 2.0], [3.0, 4.0]], **changed.get(name, {})}
            pq.write_table(pa.table(columns), self.work / "parts" / f"{name}.parquet", use_dictionary=False, compression="none")
        return self.work / "parts"

    def test_a_damaged_file_is_named_wherever_the_damage_is(self):
        content = (self.parts() / "c.parquet").read_bytes()
        for damaged in b"", content[:-1], content[:-20] + b"\xff" * 12 + content[-8:], b"\xff" * 150 + content[150:]:
            (self.work / "parts" / "c.parquet").write_bytes(damaged)
            self.assertRegex(self.refused(self.work / "parts", "--keys", "id"), r"parts/c\.parquet: it is damaged.*, or not Parquet\Z")

    def test_the_file_of_a_text_is_named(self):
        parts = self.work / "parts"
        self.parts()
        for name, text in ("a", "1"), ("b", "2.5"), ("c", "x"):
            pq.write_table(pa.table({"w": ["3", text]}), parts / f"{name}.parquet")
        self.assertIn(f"{parts}: column w (row 1 of {parts}/c.parquet: 'x') is not numeric", self.refused(parts))

    def test_the_file_of_a_row_or_key_is_named_with_the_number_in_it(self):
        parts = self.work / "parts"
        for options, change, expected in (
                (["--keys", "id"], {"id": ["k1", "k9"]},
                 f"key 1 of {parts}/a.parquet, column id and key 0 of {parts}/c.parquet, column id are both \"k1\""),
                (["--keys", "id"], {"id": ["k8", None]}, f"{parts}/c.parquet, column id: row 1 has no key"),
                ([], {"v": [[1.0, 2.0], [3.0, None]]}, f"{parts}/c.parquet, column v: element 1 of row 1 has no value"),
                (["--dtype", "uint8"], {"v": [[1.0, 2.0], [3.0, math.inf]]}, f"{parts}/c.parquet: element 1 of row 1 is not finite: inf; --dtype float32 or bfloat16 keeps such numbers"),
                ([], {"v": [["x"], ["y"]]}, f"{parts}/c.parquet: column v is of type list<element: string>; expected list<element: double>, as in {parts}/a.parquet"),
                ([], {"w": [1, 2]}, f"{parts}/c.parquet: column w is in {parts}/c.parquet, but not in {parts}/a.parquet; expected the same columns in "
                                    "each file"),
                ([], {"__index_level_0__": [1, 2]}, "expected the same columns in each file; it is the index of a DataFrame, which df.to_parquet(FILE, index=False) leaves out")):
            with self.subTest(expected):
                self.parts(c=change)
                self.assertIn(expected, self.refused(parts, *options))

    def test_columns_may_have_another_order_in_each_file(self):
        pq.write_table(pa.table({"x": [1.0], "id": [7], "y": [2.0]}), self.work / "a.parquet")
        pq.write_table(pa.table({"y": [4.0], "x": [3.0], "id": [8]}), self.work / "b.parquet")
        for name in "a", "b":
            table = pq.read_table(self.work / f"{name}.parquet")
            with pa.ipc.new_file(self.work / f"{name}.arrow", table.schema) as writer:
                writer.write_table(table)
        for suffix in "parquet", "arrow":
            with self.subTest(suffix):
                self.imported(self.work / f"a.{suffix}", self.work / f"b.{suffix}", "--keys", "id")
                tensors = self.tensors("a.safetensors")
                self.assertEqual((numbers(tensors, "rows"), numbers(tensors, "rows.keys")), ([1, 2, 3, 4], [7, 8]))


class Integers(ColumnTest):
    def test_dtype_converts_columns_of_integers_beside_floats(self):
        path = self.parquet(a=[1, 2], b=[0.5, 1.5], c=pa.array([1, 2], pa.uint8()), d=pa.array([0.5, 2], pa.float32()))
        for dtype in "float32", "float64":
            with self.subTest(dtype):
                self.assertNotIn("rounded", self.imported(path, "--dtype", dtype))
                self.assertEqual(self.tensors("m.safetensors")["rows"], (dtype, [2, 4], pack(dtype, [1, 0.5, 1, 0.5, 2, 1.5, 2, 2])))
        self.imported(path, "--dtype", "uint8")
        self.assertEqual(self.tensors("m.safetensors")["rows"][:2], ("uint8", [2, 4]))

    def test_dtype_converts_lists_of_integers_and_columns_of_integers_alone(self):
        self.imported(self.parquet(v=[[1, 2], [3, -4]]), "--dtype", "float32")
        self.assertEqual(self.tensors("m.safetensors")["v"], ("float32", [2, 2], pack("float32", [1, 2, 3, -4])))
        self.imported(self.parquet(v=[1, 2]), "--dtype", "float32")
        self.assertEqual(self.tensors("m.safetensors")["v"], ("float32", [2], pack("float32", [1, 2])))
        self.imported(self.parquet(v=[1, 2]))
        self.assertEqual(self.tensors("m.safetensors")["v"][0], "int64")

    def test_integers_that_are_rounded_are_counted_and_beyond_float64_refused(self):
        path = self.parquet(a=[2 ** 24, 2 ** 24 + 1, 2 ** 53], b=[0.1, 1.5, 2.5])
        self.assertTrue(self.imported(path, "--dtype", "float32").endswith("; 1 integer rounded\n"))
        self.assertTrue(self.imported(self.parquet(a=[2 ** 24 + 1, 2 ** 24 + 3]), "--dtype", "float32").endswith(" values; 2 integers rounded\n"))
        self.assertTrue(self.imported(self.parquet(a=[[2 ** 24 + 1]]), "--dtype", "float32").endswith("; 1 integer rounded\n"))
        for columns, place in (({"a": [0, 2 ** 53 + 1], "b": [0.5, 1]}, "column a: row 1 has the integer 9007199254740993"),
                               ({"a": [0, -2 ** 53 - 1]}, "column a: row 1 has the integer -9007199254740993"),
                               ({"a": [[0, 1], [1, 2 ** 60]]}, "column a: row 1 has the integer 1152921504606846976")):
            path = self.parquet(**columns)
            self.assertEqual(self.refused(path, "--dtype", "float64"),
                             f"{path}, {place}; floats are exact only for integers up to 2**53. For a column of identifiers, use --keys, or leave it out of --rows")


    def test_text_is_not_keys_and_rows(self):
        path = self.text("id,p\na,1\nb,2\n")
        self.assertEqual(self.refused(path, "--keys", "id", "--rows", "p,id"), f"{path}, column id: the type is string; expected numbers, or lists of numbers; "
                         "the column has the keys, which --keys names, and --rows names the other columns")


class ForgottenKeys(ColumnTest):
    HINT = "and the table has no keys; --keys names the column of keys"

    def test_columns_beside_lists_are_named(self):
        path = self.parquet(id=[1, 2], v=[[1.0], [2.0]])
        self.assertEqual(self.notes(path), [f"{path}: the rows are the lists of column v; column id is left out, {self.HINT}"])
        (self.work / "k.txt").write_text("a\nb\n")
        self.assertEqual(self.notes(path, "--keys-from", self.work / "k.txt"), [f"{path}: the rows are the lists of column v; column id is left out"])

    def test_columns_of_ids_that_become_rows_are_named(self):
        (self.work / "k.txt").write_text("a\nb\n")
        for name in ("id", "ID", "movie_id", "movieId", "key", "uid", "guid", "user_uid", "userid", "ItemID", "rowid", "ROWID", "index", "idx", "item", "item_id", "sku",
                     "pk"):
            with self.subTest(name):
                path = self.text(f"{name},x\n2,0.5\n1,1.5\n")
                self.assertEqual(self.notes(path), [f"{path}: column {name} is part of the rows, {self.HINT}"])
                beside = f"{path}: column {name} is part of the rows. If it is not a value of the row, choose the other columns with --rows"
                for options, expected in ((("--keys", name), []), (("--keys-from", self.work / "k.txt"), [beside]), (("--rows", f"{name},x"), [])):
                    self.assertEqual(self.notes(path, *options), expected)
                path = self.text(f"title,{name},x\na,2,0.5\nb,1,1.5\n")
                self.assertEqual(self.notes(path, "--keys", "title"), [beside])
        for name in "valid", "x", "paid", "Android", "keyword", "fluid", "centroid", "price_index", "items_sold", "user_score":
            self.assertEqual(self.notes(self.text(f"{name},y\n1,0.5\n")), [])

    def test_columns_of_ids_that_are_not_rows_are_named(self):
        (self.work / "k.txt").write_text("a\nb\n")
        path = self.text("id,x,y\n2,0.5,1\n1,1.5,2\n")
        self.assertEqual(self.notes(path, "--rows", "x,y"), [f"{path}: column id is left out, {self.HINT}"])
        for options in ("--keys", "id"), ("--keys-from", self.work / "k.txt"):
            self.assertEqual(self.notes(path, "--rows", "x,y", *options), [])

    def test_the_advice_about_columns_takes_ids_as_keys_and_not_as_rows(self):
        told = self.refused(self.text("id,title,x,y\n1,Alien,1,2\n"))
        self.assertTrue(told.endswith("; choose the columns of the rows with --rows, here --rows x,y, and the column of keys with --keys, here --keys id"), told)


class OtherColumns(ColumnTest):
    def arrow(self, **columns):
        table = pa.table(columns)
        with pa.ipc.new_file(self.work / "m.arrow", table.schema) as writer:
            writer.write_table(table)
        return self.work / "m.arrow"

    def test_a_key_whose_value_in_the_dictionary_is_null_is_missing(self):
        ids = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["a", None, "b"]))
        path = self.arrow(id=ids, x=[1.0, 2.0, 3.0])
        self.assertEqual(self.refused(path, "--keys", "id"), f"{path}, column id: row 1 has no key")
        path = self.arrow(id=ids.take(pa.array([2, 0])), x=[1.0, 2.0])
        self.notes(path, "--keys", "id")
        self.assertEqual(strings(self.tensors("m.safetensors"), "x.keys"), ["b", "a"])

    def test_tensors_of_one_shape_keep_it(self):
        rows = [[float(i) for i in range(start, start + 6)] for start in (0, 6)]
        for permutation in None, [0, 1]:
            kind = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=permutation)
            path = self.parquet(id=[1, 2], v=pa.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type)))
            self.notes(path, "--keys", "id")
            self.assertEqual(self.tensors("m.safetensors")["v"], ("float32", [2, 2, 3], pack("float32", range(12))))
        kind = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[1, 0])
        path = self.parquet(v=pa.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type)))
        self.assertEqual(self.refused(path),
                         f"{path}, column v: the dimensions of its tensors are permuted, [1, 0]; expected tensors in row-major order")

    def test_the_length_of_lists_is_not_guessed_without_rows(self):
        path = self.parquet(v=pa.array([], pa.list_(pa.float32())))
        self.assertEqual(self.refused(path), f"{path}, column v: there are no rows, so the length of the lists is unknown")
        self.notes(self.parquet(v=pa.array([], pa.list_(pa.float32(), 3))))
        self.assertEqual(self.tensors("m.safetensors")["v"], ("float32", [0, 3], b""))
