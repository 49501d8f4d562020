"""Files of columns as programs write them: which columns are rows, and what text is taken for."""
import json

import pyarrow as pa
import pyarrow.parquet as pq

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
                    f"{path}: the first column has no name: it is the index that pandas writes, and not part of the rows"])
                self.assertEqual(numbers(self.tensors("m.safetensors"), "rows"), [1.5, 2, 2.5, 3])

    def test_the_index_of_a_parquet_file_is_in_its_metadata(self):
        for index in "__index_level_0__", "film":
            with self.subTest(index):
                path = self.parquet(index=[index], x=[1.5, 2.5], y=[2.0, 3.0], **{index: [7, 8]})
                self.assertEqual(self.notes(path), [f"{path}: column {index} is the index of a pandas DataFrame, and not part of "
                                                    "the rows; --keys or --rows can name it"])
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


class NamesOfColumns(ColumnTest):
    def test_names_that_are_equal_or_empty_are_listed(self):
        for names, expected in ((["t", "x", "x"], "columns 2 and 3 are both named 'x'"),
                                (["x", "t", "x", "x"], "columns 1, 3 and 4 are all named 'x'"),
                                (["t", "", ""], "columns 2 and 3 have no name"), (["t", "x", ""], "column 3 has no name"),
                                (["x", "x", ""], "columns 1 and 2 are both named 'x'; column 3 has no name")):
            with self.subTest(names):
                expected += ". Expected a different name for each column"
                path = self.text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
                self.assertEqual(self.refused(path, "--keys", "t"), f"{path}: {expected}")
                pq.write_table(pa.table([pa.array([1.0])] * len(names), names=names), self.work / "m.parquet")
                self.assertEqual(self.refused(self.work / "m.parquet"), f"{self.work / 'm.parquet'}: {expected}")
