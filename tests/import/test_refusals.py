"""Inputs that are wrong, damaged or hostile: each is refused, the error names the place, and nothing is left."""
import gzip, json, os, pickle, struct, unittest.mock, zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import safetensors.numpy

import state_dicts
from daemon import npy, pack, safetensors as safetensors_bytes
from importing import ImportTest, run


class Columns(ImportTest):
    def expect(self, expected, options=(), **columns):
        path = self.work / "m.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=2)
        with self.subTest(expected):
            self.assertEqual(self.refused(path, *options), f"{path}{expected}")

    def test_parquet(self):
        vectors = [[1.0], [2.0], [3.0]]
        key = ("--keys", "id")
        self.expect(", column id: keys 0 and 2 are both \"a\". A key names one row", key, id=["a", "b", "a"], v=vectors)
        self.expect(", column id: keys 1 and 2 are both -7. A key names one row", key, id=[1, -7, -7], v=vectors)
        self.expect(", column id: row 2 has no key", key, id=["a", "b", None], v=vectors)
        self.expect(", column id: keys are of type double; expected integers or strings; pandas converts a column of integers to floats if a value is missing. Fill the value or remove the row, then use astype('int64'). Floats have rounded integers above 2**53, so write these as integers at their source", key, id=[1.0, 2.0, 3.0], v=vectors)
        self.expect(", column v: row 2 has no value; fill it, or remove the row", v=[[1.0], [2.0], None])
        self.expect(", column v: row 0 has no value; fill it, or remove the row", v=[None, [2.0]])
        self.expect(", column v: element 1 of row 2 has no value; fill it, or remove the row", v=[[1.0, 2.0], [3.0, 4.0], [5.0, None]])
        self.expect(", column v: row 2 has 1 elements; expected 2, as in the first row", v=[[1.0, 2.0], [3.0, 4.0], [5.0]])
        self.expect(": column b is double, but column a is int64. Choose columns of one dtype with --rows, or convert all of them with --dtype float32 or float64".replace("double", "float64"),
                    a=[1], b=[2.0])
        self.expect(": column b is float64, but column a is bool. Choose columns of one dtype with --rows, or convert all of them with --dtype float32 or float64",
                    a=[True], b=[2.0])
        for options in (), ("--dtype", "float32"):  # which does not help
            self.expect(": column v has lists; --rows takes one column of lists, here --rows v, or several columns of numbers, here --rows n",
                        ("--rows", "n,v", *options), v=[[1.0]], n=[1])
        self.expect(": column a (row 0: 'x') is not numeric; choose the columns of the rows with --rows, and the column of keys with --keys", a=["x"])
        self.expect(", column a: the type is list<element: list<element: double>>; expected numbers, or lists of numbers; join the lists of each row with df['a'] = df['a'].map(numpy.concatenate)", a=[[[1.0]]])
        self.expect(": there is no column x; the columns are a", ("--rows", "x"), a=[1])
        self.expect(": there are several columns of lists, a, b; --rows chooses one", a=[[1]], b=[[2]])
        self.expect(": there is no column of rows", key, id=[1])

    def test_keys_that_are_not_of_the_dtype_asked_for(self):
        path = self.work / "m.parquet"
        pq.write_table(pa.table({"id": [1, -1], "v": [[1.0], [2.0]]}), path)
        self.assertIn("column id: row 1 is -1; expected uint64",
                      self.refused(path, "--keys", "id", "--key-dtype", "uint64"))

    def test_damaged_parquet(self):
        path = self.work / "m.parquet"
        pq.write_table(pa.table({"v": np.arange(10_000.0)}), path, use_dictionary=False)
        content = path.read_bytes()
        for at in 0, 3, 12, len(content) // 2, len(content) - 9, len(content) - 1:
            with self.subTest(at):
                path.write_bytes(content[:at])
                self.assertIn(str(path), self.refused(path))

    def test_csv(self):
        path = self.work / "m.csv"
        for text, expected in ((b"id,a\nx,1\ny,q\n", "column a: row 1 is 'q'; expected a number"),
                               (b"id,a\nx,1\ny\n", "row 1, 'y', has 1 column; expected 2, as the first line, 'id,a', has"),
                               (b"\r\nid,a\rx,1\ry\r", "row 1, 'y', has 1 column; expected 2, as the first line, 'id,a', has"),
                               (b"id,a\nx,\ny,2\n", "column a: row 0 has no value"), (b"id,a\nx,1\nx,2\n", "are both \"x\""),
                               (b"id,a\n\xff,1\n", "column id: row 0: b'\\xff' is not UTF-8"),
                               (b"", "it is empty; expected a first line of column names"),
                               (b"id,a,a\nx,1,2\n", "columns 2 and 3 are both named 'a'"),
                               (b"id,a\n,1\n", "column id: row 0 has no key")):
            with self.subTest(text):
                path.write_bytes(text)
                self.assertIn(expected, self.refused(path, "--keys", "id", "--rows", "a"))


class Archives(ImportTest):
    def test_npz(self):
        path = self.work / "m.npz"
        np.savez(path, w=np.array([{"a": 1}], dtype=object))
        self.assertIn("array w: the array x has Python objects", self.refused(path))
        np.savez(path, w=np.array(["x"]))
        self.assertIn("array w: the dtype is <U1; expected one of bool", self.refused(path))
        np.savez(path, w=np.zeros((2, 2)), **{"w.keys": np.arange(3)})
        self.assertIn("there are 3 keys, but", self.refused(path))
        np.savez(path, w=np.zeros((2, 2)), **{"w.keys": np.array(["a", "\udc80"])})
        self.assertIn("w.keys, key 1: '\\udc80' is not Unicode", self.refused(path))
        np.savez(path, **{"a b": np.zeros(2)})
        self.assertIn("tensor 'a b': ' ' (U+0020) is not allowed", self.refused(path))
        np.savez(path, memory=np.zeros(2, "i8"), b=np.zeros(2))
        for name in ".keys", ".keys.bytes", ".keys.offsets":
            self.assertIn(f"tensor 'b{name}': names that end in .keys, .keys.bytes, .keys.offsets are reserved",
                          self.refused(path, "--tensor", f"memory=b{name}", "--tensor", "b"))
        path.write_bytes(path.read_bytes()[:-30])
        self.assertIn("the archive is damaged: the file ends too early, or was changed", self.refused(path))
        path.write_bytes(b"x")
        self.assertIn("m.npz: it is not a zip archive, although its suffix says so", self.refused(path))

    def test_an_array_that_ends_before_its_rows(self):
        path = self.work / "m.npz"
        for shape in (1000, 2), (1 << 62, 4), (1 << 100,), (-1,), (2.0,), (1 << 62, 1 << 62, 0, 1):
            with self.subTest(shape):
                with zipfile.ZipFile(path, "w") as archive:
                    archive.writestr("w.npy", npy("float32", shape, bytes(8)))
                self.refused(path)

    def test_a_pickle_runs_nothing(self):
        path, mark = self.work / "m.pt", self.work / "ran"

        class Hostile:
            def __reduce__(self):
                return os.system, (f"touch {mark}",)
        state_dicts.save_pickle(path, pickle.dumps({"w": Hostile()}), {})
        self.assertIn("it has an object of posix.system; expected only the tensors of a state dict", self.refused(path))
        self.assertFalse(mark.exists())
        for name in "builtins.eval", "numpy.load", "torch.load", "torch._utils.__builtins__", "collections.namedtuple":
            module, _, function = name.rpartition(".")
            state_dicts.save_pickle(path, f"c{module}\n{function}\n(S'1'\ntR.".encode(), {})
            self.assertIn(f"an object of {name}", self.refused(path))

    def test_tensors_beyond_their_storage(self):
        path = self.work / "m.pt"
        for offset, shape, strides in ((0, (5,), (1,)), (1, (4,), (1,)), (0, (2, 2), (3, 1)), (-1, (2,), (1,)), (0, (2,), (-1,)),
                                       (0, (2,), (1, 1)), (0, (2.0,), (1,)), (0, (True,), (1,)), (False, (1,), (1,)), (1 << 62, (1,), (1,)), (0, (1 << 61, 8), (0, 0))):
            with self.subTest(shape=shape, strides=strides, offset=offset):
                tensor = state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 4), offset, shape, strides)
                state_dicts.save(path, {"w": tensor}, {"0": bytes(16)})
                self.refused(path)

    def test_storages_that_are_missing_or_short(self):
        path = self.work / "m.pt"
        tensor = state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 4), 0, (4,), (1,))
        for storages in {}, {"0": bytes(15)}, {"../0": bytes(16)}:
            state_dicts.save(path, {"w": tensor}, storages)
            self.assertIn("tensor w: storage 0 lacks 16 bytes", self.refused(path))

    def test_tensors_that_would_have_one_name_or_lie_too_deep(self):
        path, tensor = self.work / "m.pt", state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 4), 0, (4,), (1,))
        for state in {"a": {"b": tensor}, "a.b": tensor}, {1: tensor, "1": tensor}:
            state_dicts.save(path, state, {"0": bytes(16)})
            self.assertIn("two tensors are named ", self.refused(path))
        deep = tensor
        for _ in range(33):
            deep = {"d": deep}
        cycle = {}
        cycle.update(a=cycle, b=cycle)
        for state in deep, cycle:
            state_dicts.save(path, state, {"0": bytes(16)})
            self.assertIn("its dicts are nested deeper than 32", self.refused(path))

    def test_damaged_pickles(self):
        path = self.work / "m.pt"
        for content in b"", b"\x80\x02", b"(lp0\n.", b"\x80\x02}q\0.", b"\x80\x02U\xff.", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f":
            with self.subTest(content):
                state_dicts.save_pickle(path, content, {})
                if content in (b"(lp0\n.", b"\x80\x02}q\0."):
                    self.assertIn("the file has no tensors", self.refused(path))
                else:
                    self.assertIn("data.pkl: the pickle is damaged", self.refused(path))

    def test_files_that_torch_save_did_not_write(self):
        path = self.work / "m.pt"
        for content, expected in ((pickle.dumps({"w": 1}), "it is a pickle, not a file of torch.save"),
                                  (b"", "it is neither a zip archive nor a pickle"), (b"GGUF\3\0\0\0", "it is neither a zip archive"),
                                  (b"PK\3\4", "the archive is damaged: the file ends too early")):
            with self.subTest(content):
                path.write_bytes(content)
                self.assertIn(expected, self.refused(path))
        for names in ("a.txt",), ("data.pkl",), ("a/b/data.pkl",), ("a/data.pkl", "b/data.pkl"):
            with self.subTest(names), zipfile.ZipFile(path, "w") as archive:
                for name in names:
                    archive.writestr(name, pickle.dumps({}))
            self.assertIn("it is a zip archive without data.pkl", self.refused(path))

    def test_data_of_a_big_endian_machine(self):
        path, tensor = self.work / "m.pt", state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 4), 0, (4,), (1,))
        state_dicts.save(path, {"w": tensor}, {"0": bytes(16)})
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {**members, "archive/byteorder": b"big"}.items():
                archive.writestr(name, content)
        self.assertIn("its data is big-endian", self.refused(path))

    def test_binary_word_vectors_are_recognised_by_their_contents(self):
        gensim = "gensim.models."
        write = ".save_word2vec_format('FILE.vec')"
        word2vec = b"4 2\nthe " + struct.pack("<2f", 0.1, 0.2) + b"of " + struct.pack("<2f", 1, 2)
        one = b"1 1\nthe " + struct.pack("<f", 0.1)
        pickled = {name: b"\x80\x04\x95\1\2\0\0\0\0\0\0\x8c\x1agensim.models." + name.replace(".", "\x94\x8c\x0c").encode() + b"\x94\x93\x94)"
                   for name in ("keyedvectors.KeyedVectors", "fasttext.FastTextKeyedVectors", "word2vec.Word2Vec")}
        for content, call in ((word2vec, "KeyedVectors.load_word2vec_format(FILE, binary=True)"), (one, "KeyedVectors.load_word2vec_format(FILE, binary=True)"),
                              (gzip.compress(word2vec), "KeyedVectors.load_word2vec_format(FILE, binary=True)"),
                              (struct.pack("<ii", 793712314, 12) + bytes(90), "fasttext.load_facebook_vectors(FILE)"),
                              (pickled["keyedvectors.KeyedVectors"], "KeyedVectors.load(FILE)"),
                              (pickled["fasttext.FastTextKeyedVectors"], "KeyedVectors.load(FILE)"), (pickled["word2vec.Word2Vec"], "Word2Vec.load(FILE).wv")):
            for name in "m.bin", "m.txt", "m.model", "m.kv", "m.bin.gz", "m.npy":
                with self.subTest(name=name, content=content[:30]):
                    (self.work / name).write_bytes(content)
                    error = self.refused(self.work / name)
                    self.assertTrue(error.startswith(f"{self.work / name}: it is "), error)
                    self.assertTrue(error.endswith(f"; expected word vectors as text. Convert it with {gensim}{call}{write}"), error)

    def test_word_vectors_as_text_are_not_taken_for_binary_ones(self):
        for text in "1 2\nthe 0.1 0.2\n", "1 1\nBelo Pará 1\n", "1 2\né 1 2\n":
            (self.work / "m.txt").write_text(text)
            self.imported(self.work / "m.txt")

    def test_damaged_files_of_pytorch_before_1_6(self):
        path = self.work / "m.pt"
        state_dicts.save_legacy(path, {"w": state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 4), 0, (4,), (1,))}, {"0": bytes(16)})
        content = path.read_bytes()
        self.imported(path)
        for cut in range(0, len(content), 7):
            path.write_bytes(content[:cut])
            self.assertIn(str(path), self.refused(path))
        path.write_bytes(content[:-24] + struct.pack("<Q", 1 << 62) + bytes(16))
        self.assertIn("it ends within storage 0", self.refused(path))
        true = content.index(b"\x88", content.index(b"little_endian"))
        path.write_bytes(content[:true] + b"\x89" + content[true + 1:])
        self.assertIn("its data is big-endian", self.refused(path))

    def test_a_file_of_another_protocol_before_1_6(self):
        path = self.work / "m.pt"
        tensor = state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 4), 0, (4,), (1,))
        with unittest.mock.patch.object(state_dicts, "LEGACY_PROTOCOL", 1002):
            state_dicts.save_legacy(path, {"w": tensor}, {"0": bytes(16)})
        self.assertIn("it is a pickle, but not a file of torch.save", self.refused(path))

    def test_views_beyond_their_storage(self):
        path = self.work / "m.pt"
        for begin, numel in (3, 2), (5, 0), (-1, 2), (True, 1), (0, None):
            with self.subTest(begin=begin, numel=numel):
                view = state_dicts.Storage("FloatStorage", "0", 4, ("1", begin, numel))
                state_dicts.save_legacy(path, {"w": state_dicts.Tensor(view, 0, (0,), (1,))}, {"0": bytes(16)})
                self.assertIn("the description of a storage is invalid", self.refused(path))


class Safetensors(ImportTest):
    def expect(self, expected, content):
        path = self.work / "m.safetensors"
        path.write_bytes(content)
        with self.subTest(expected):
            self.assertIn(expected, self.refused(path))

    def test_damaged_files(self):
        def header(text, data=b""):
            return struct.pack("<Q", len(text)) + text.encode() + data
        self.expect("its header would be longer than the file", b"")
        self.expect("its header would be longer than the file", struct.pack("<Q", 1 << 63))
        self.expect("header: invalid JSON at line 1, column 2", header("{"))
        self.expect("header: its JSON values are nested too deeply", header("[" * 100_000))
        self.expect("header: invalid UTF-8 at byte 2", struct.pack("<Q", 4) + b'{"\xff"')
        self.expect("header: an object has two members 'a'", header('{"a": 1, "a": 2}'))
        self.expect("the header is not an object", header("[]"))
        self.expect("tensor w: it is not described by an object", header('{"w": 1}'))
        for entry in ({"dtype": ["F32"]}, {"shape": [2.0]}, {"shape": [-1]}, {"shape": [True]}, {"shape": [3]},
                      {"data_offsets": [0, 12]}, {"data_offsets": [8]}, {"data_offsets": [8, 0]}, {"shape": [1 << 61, 16]}):
            described = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **entry}
            self.expect("tensor w: ", header(json.dumps({"w": described}), bytes(8)))

    def test_ranges_that_overlap_or_leave_holes(self):
        for ranges, size, expected in (([0, 2], [1, 3]), 3, "tensor b: its data starts at 1, but the preceding tensors end at 2"), \
                (([0, 2], [3, 5]), 5, "tensor b: its data starts at 3"), (([0, 2], [2, 4]), 5, "the tensors end at"), \
                (([0, 2], [2, 4]), 3, "tensor b: bytes 2 to 4 are outside the file"), (([0, 2], [2, 5]), 5, "tensor b: it has 3 bytes, which is not the size of"):
            for dtype in "U8", "F8_E4M3":
                header = json.dumps({name: {"dtype": dtype, "shape": [2], "data_offsets": offsets} for name, offsets in zip("ab", ranges)})
                self.expect(expected, struct.pack("<Q", len(header)) + header.encode() + bytes(size))

    def test_a_bool_of_another_byte_than_0_and_1(self):
        header = '{"w": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}'
        self.expect("tensor w: a bool is the byte 3; expected 0 or 1", struct.pack("<Q", len(header)) + header.encode() + b"\1\3")

    def test_strings_with_wrong_offsets(self):
        for offsets in [0, 1, 3], [1, 1, 2], [0, 2, 1], [0, 3, 2]:
            self.expect("tensor w.keys: .bytes and .offsets are not valid strings", safetensors_bytes({
                "w": ("uint8", [2], b"ab"), "w.keys.bytes": ("uint8", [2], b"xy"), "w.keys.offsets": ("int64", [3], pack("int64", offsets))}))
        good = {"w.keys.bytes": ("uint8", [2], b"xy"), "w.keys.offsets": ("int64", [3], pack("int64", [0, 1, 2]))}
        for part, wrong in (("bytes", ("int8", [2], b"xy")), ("bytes", ("uint8", [1, 2], b"xy")), ("offsets", ("int32", [3], pack("int32", [0, 1, 2]))),
                            ("offsets", ("uint64", [3], pack("uint64", [0, 1, 2]))), ("offsets", ("int64", [1, 3], pack("int64", [0, 1, 2]))),
                            ("offsets", ("int64", [0], b""))):
            self.expect("tensor w.keys: .bytes and .offsets are not valid strings", safetensors_bytes({
                "w": ("uint8", [2], b"ab"), **good, f"w.keys.{part}": wrong}))

    def test_strings_without_offsets(self):
        for part, content in ("w.keys.bytes", ("uint8", [2], b"xy")), ("w.keys.offsets", ("int64", [3], pack("int64", [0, 1, 2]))):
            self.expect(f"tensor w.keys: there is only {part}; string keys need both .bytes and .offsets", safetensors_bytes({
                "w": ("uint8", [2], b"ab"), part: content}))

    def test_folders(self):
        index = self.work / "model.safetensors.index.json"
        self.assertIn("it has no file of tensors; expected .safetensors, .bin", self.refused(self.work, "--name", "m"))
        safetensors.numpy.save_file({"w": np.zeros(2)}, self.work / "a.safetensors")
        for document, expected in (({}, "it has no weight_map"), ({"weight_map": {"w": "../a.safetensors"}}, "is not the name of a file"),
                                   ({"weight_map": {"w": "/etc/passwd"}}, "is not the name of a file"),
                                   ({"weight_map": {"v": "a.safetensors"}}, "a.safetensors has no tensor v"),
                                   ({"weight_map": {"w": "b.safetensors"}}, "No such file")):
            with self.subTest(expected):
                index.write_text(json.dumps(document))
                self.assertIn(expected, self.refused(self.work, "--name", "m"))


class KeyFiles(ImportTest):
    def test_wrong_files(self):
        model = self.work / "m.safetensors"
        safetensors.numpy.save_file({"w": np.zeros((2, 1)), "v": np.zeros((2, 1))}, model)
        for name, content, expected in (
                ("k.txt", b"a\n", "there are 1 keys, but"), ("k.txt", b"a\na\n", "keys 0 and 1 are both \"a\""),
                ("k.txt", b"a\n\xff\n", "line 2: b'\\xff' is not UTF-8"), ("k.json", b"{", "invalid JSON at line 1, column 2"),
                ("k.json", b"[" * 100_000, "its JSON values are nested too deeply"), ("k.json", b"[]", "expected an object"),
                ("k.json", b'{"a": 0, "b": 0}', "key \"b\": row 0 also has the key \"a\""),
                ("k.json", b'{"a": 0, "b": true}', "key \"b\": its row is 'true'; expected an integer from 0"),
                ("k.json", b'{"a": 0, "b": -1}', "its row is '-1'; expected an integer from 0"), ("k.json", b'{"a": "x"}', "its row is '\"x\"'; expected"),
                ("k.json", b'{"a": 0, "\\ud800": 1}', "is not Unicode"), ("k.json", b'{"a": 0, "a": 1}', "an object has two members 'a'"),
                ("k.json", b'{"model": {"vocab": [["a", 0], ["b"]]}}', "element 1 of the vocabulary is not [key, score]"),
                ("k.json", b'{"model": {"vocab": [["a", 0], ["a", 1]]}}', "rows 0 and 1 are both \"a\""),
                ("k.json", b'{"model": {"vocab": [["a", 0]]}, "added_tokens": [{"content": "b", "id": 0}]}', "key \"b\": row 0 also has the key \"a\""),
                ("k.json", b'{"a": 0, "b": 1, "c": 2}', "but the table has 2 rows"), ("k.npy", b"x", "k.npy: "), ("k.xml", b"", "expected a .txt, .json or .npy file of keys")):
            with self.subTest(content):
                (self.work / name).write_bytes(content)
                self.assertIn(expected, self.refused(model, "--tensor", "w", "--keys-from", self.work / name))
        np.save(self.work / "k.npy", np.array([0.5, 1]))
        self.assertIn("keys are of dtype float64", self.refused(model, "--tensor", "w", "--keys-from", self.work / "k.npy"))
        self.assertIn("the keys are for one tensor, but 2 are imported", self.refused(model, "--keys-from", self.work / "k.npy"))


    def test_a_scalar_has_no_keys_and_padding_is_not_all_of_a_table(self):
        np.save(self.work / "m.npy", np.float32(1))
        (self.work / "k.txt").write_text("a\n")
        self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", self.work / "k.txt"),
                         f"{self.work}/k.txt: keys need rows, but {self.work}/m.npy is a scalar")
        np.save(self.work / "m.npy", np.zeros((2, 1)))
        (self.work / "k.txt").write_text("")
        for options in (), ("--drop-padding",):
            self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", self.work / "k.txt", *options),
                             f"{self.work}/k.txt: there are 0 keys, but {self.work}/m.npy has 2 rows")

    def test_rows_of_a_vocabulary_that_have_no_key_are_listed(self):
        np.save(self.work / "m.npy", np.zeros((12, 1), "f4"))
        path = self.work / "k.json"
        for vocabulary, missing, first in (({"a": 0, "b": 2}, "1 of the rows 0 to 2 have no key: 1", 1), ({"b": 3}, "3 of the rows 0 to 3 have no key: 0 to 2", 0),
                                           ({"a": 1, "b": 3, "c": 7, "d": 9, "e": 11}, "7 of the rows 0 to 11 have no key: 0, 2, 4 to 6, …", 0)):
            for document in vocabulary, {"model": {"vocab": vocabulary}}:
                with self.subTest(document):
                    path.write_text(json.dumps(document))
                    self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", path),
                                     f"{path}: {missing}. Each row needs a key. If these rows are not used, add a key for each row to a copy of the "
                                     f'file, such as "unused {first}": {first}')
        path.write_text(json.dumps({"a": 0, "b": 2, "unused 1": 1, "c": 3}))
        self.imported(self.work / "m.npy", "--keys-from", path, "--drop-padding")

    def test_keys_of_rows_that_the_table_does_not_have_are_named(self):
        np.save(self.work / "m.npy", np.zeros((2, 1), "f4"))
        path = self.work / "tokenizer.json"
        added = [{"id": 7 + i, "content": f"<|im_{name}|>"} for i, name in enumerate(("start", "end"))]
        for document, key, row, these in (({"a": 0, "b": 10 ** 30}, "b", 10 ** 30, "this key"), ({"a": 0, "b": 1, "c": 2}, "c", 2, "this key"),
                                          ({"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": added}, "<|im_start|>", 7, "this key and 1 more")):
            with self.subTest(document):
                path.write_text(json.dumps(document))
                self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", path),
                                 f'{path}: key "{key}" is for row {row}, but the table has 2 rows, numbered from 0. If the file belongs to the table, remove {these}, '
                                 "for rows from 2 on, from a copy of the file")
        path.write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 1}}}))
        self.imported(self.work / "m.npy", "--keys-from", path)

    def test_a_vocabulary_that_is_numbered_from_1_is_said_to_be(self):
        np.save(self.work / "m.npy", np.zeros((3, 1), "f4"))
        path = self.work / "k.json"
        for vocabulary in {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 3}:
            path.write_text(json.dumps(vocabulary))
            for options in (), ("--drop-padding",):
                self.assertEqual(self.refused(self.work / "m.npy", "--keys-from", path, *options),
                                 f"{path}: the rows are numbered from 1 to 3; expected numbers from 0. Subtract 1 from each number")
        path.write_text(json.dumps({"a": 0, "b": 1, "c": 2}))
        self.imported(self.work / "m.npy", "--keys-from", path)


class Damaged(ImportTest):
    """Files with bytes changed at random: an import takes them or refuses them, and nothing else."""

    def samples(self):
        """(path, options) of a file of each format"""
        values = np.random.default_rng(1).standard_normal((20, 3)).astype("f4")
        keys = [f"k{i}" for i in range(20)]
        pq.write_table(pa.table({"id": keys, "v": list(values)}), self.work / "m.parquet")
        yield self.work / "m.parquet", ("--keys", "id")
        (self.work / "m.csv").write_text("id,a,b\n" + "".join(f"k{i},{i},{i / 3}\n" for i in range(20)))
        yield self.work / "m.csv", ("--keys", "id")
        (self.work / "m.tsv").write_text("id\ta\n" + "".join(f'k"{i}\t{i / 3}\n' for i in range(20)))
        yield self.work / "m.tsv", ("--keys", "id")
        (self.work / "q.csv").write_text("id,a\n" + "".join(f'"k""{i}",{i / 3}\n' for i in range(20)))
        yield self.work / "q.csv", ("--keys", "id")
        (self.work / "m.jsonl").write_text("".join(json.dumps({"id": i, "v": [i / 3, 1]}) + "\n" for i in range(20)))
        yield self.work / "m.jsonl", ("--keys", "id")
        (self.work / "m.vec").write_text("20 2\n" + "".join(f"k{i} {i / 3} 1\n" for i in range(20)))
        yield self.work / "m.vec", ()
        np.save(self.work / "m.npy", values)
        yield self.work / "m.npy", ()
        pyarrow.feather.write_feather(pa.table({"id": keys, "v": list(values)}), self.work / "m.feather")
        yield self.work / "m.feather", ("--keys", "id")
        np.savez_compressed(self.work / "m.npz", w=values, **{"w.keys": np.array(keys)})
        yield self.work / "m.npz", ("--dtype", "uint8")
        state_dicts.save(self.work / "m.pt", {"w": state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 60), 0, (20, 3), (3, 1))},
                         {"0": values.tobytes()})
        yield self.work / "m.pt", ()
        self.imported(self.work / "m.npz", "--name", "k")
        yield self.data / "k.safetensors", ("--name", "m")

    def test_bytes_changed_at_random(self):
        rng, refused = np.random.default_rng(int(os.environ.get("TD_TEST_SEED", "1"))), 0
        for path, options in self.samples():
            content = np.frombuffer(path.read_bytes(), "u1")
            for trial in range(int(os.environ.get("TD_TEST_TRIALS", "60"))):
                damaged = content.copy()
                damaged[rng.integers(0, len(content), 1 + trial % 4)] = rng.integers(0, 256, 1 + trial % 4)
                path.write_bytes(damaged.tobytes())
                with self.subTest(f"{path.name} {trial}"), unittest.mock.patch.object(os, "posix_fallocate"):
                    status, _, errors = run(path, *options, "--quiet", "--data-dir", self.data)
                    self.assertIn(status, (0, 1), errors)
                    self.assertRegex(errors, r"\A(import: error: .*\n)?\Z")
                    self.assertTrue(status == 0 or str(path) in errors, errors)
                    refused += status
            path.write_bytes(content.tobytes())
        self.assertGreater(refused, 50)

    def test_an_archive_with_a_password(self):
        path = self.work / "m.npz"
        np.savez(path, w=np.zeros(3))
        content = bytearray(path.read_bytes())
        for signature, flags in (b"PK\3\4", 6), (b"PK\1\2", 8):
            content[content.index(signature) + flags] |= 1
        path.write_bytes(content)
        self.assertIn("encrypted", self.refused(path))
