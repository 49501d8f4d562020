"""What each format of input becomes: the dtype, the shape, the bytes and the keys of every tensor."""
import argparse, collections, datetime, gzip, json, pathlib, struct, unittest

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy

import state_dicts
from daemon import pack
from importing import ImportTest, numbers, run, strings

ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
FLAT = pack("float32", [1, 2, 3, 4, 5, 6])


def vectors(kind=None):
    return pa.array(ROWS, kind or pa.list_(pa.float32()))


class Parquet(ImportTest):
    def write(self, name="movies.parquet", **columns):
        path = self.work / name
        pq.write_table(pa.table(columns), path)
        return path

    def test_a_column_of_lists_becomes_a_table_with_integer_keys(self):
        out = self.imported(self.write(id=pa.array([30, 10, 20]), embedding=vectors()), "--keys", "id")
        self.assertEqual(self.tensors("movies.safetensors"),
                         {"embedding": ("float32", [3, 2], FLAT), "embedding.keys": ("int64", [3], pack("int64", [30, 10, 20]))})
        self.assertIn("movies:embedding: float32 [3, 2], keys int64", out)

    def test_lists_of_fixed_and_of_large_size_are_lists(self):
        for kind in pa.list_(pa.float32(), 2), pa.large_list(pa.float32()):
            with self.subTest(str(kind)):
                self.imported(self.write(embedding=vectors(kind)))
                self.assertEqual(self.tensors("movies.safetensors"), {"embedding": ("float32", [3, 2], FLAT)})

    def test_strings_are_keys_however_they_are_stored(self):
        words = ["b", "", "naïve 北\0"]
        for kind in pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()):
            with self.subTest(str(kind)):
                column = pa.array([w.encode() for w in words], kind) if kind == pa.binary() else pa.array(words).cast(kind)
                self.imported(self.write(word=column, embedding=vectors()), "--keys", "word")
                tensors = self.tensors("movies.safetensors")
                self.assertEqual(strings(tensors, "embedding.keys"), words)
                self.assertEqual(tensors["embedding.keys.offsets"][:2], ("int64", [4]))

    def test_integer_keys_are_int64_unless_they_are_uint64(self):
        for kind, expected in (pa.int8(), "int64"), (pa.uint32(), "int64"), (pa.uint64(), "uint64"):
            with self.subTest(str(kind)):
                self.imported(self.write(id=pa.array([1, 2, 3], kind), embedding=vectors()), "--keys", "id")
                self.assertEqual(self.tensors("movies.safetensors")["embedding.keys"], (expected, [3], pack(expected, [1, 2, 3])))

    def test_columns_of_numbers_become_rows(self):
        path = self.write(id=["a", "b"], x=pa.array([1, 2], pa.int16()), y=pa.array([3, 4], pa.int16()))
        self.imported(path, "--keys", "id")
        self.assertEqual(self.tensors("movies.safetensors")["rows"], ("int16", [2, 2], pack("int16", [1, 3, 2, 4])))
        self.imported(path, "--rows", "y")
        self.assertEqual(self.tensors("movies.safetensors"), {"y": ("int16", [2], pack("int16", [3, 4]))})

    def test_a_folder_of_parts_is_one_table(self):
        (self.work / "parts").mkdir()
        for i in (1, 0):
            self.write(f"parts/part-{i}.parquet", id=pa.array([2 * i, 2 * i + 1]), embedding=[[2.0 * i], [2.0 * i + 1]])
        self.imported(self.work / "parts", "--keys", "id")
        tensors = self.tensors("parts.safetensors")
        self.assertEqual((numbers(tensors, "embedding"), numbers(tensors, "embedding.keys")), ([0, 1, 2, 3], [0, 1, 2, 3]))

    def test_row_groups_and_batches_are_joined(self):
        rows = np.arange(300_000 * 8, dtype="f4").reshape(-1, 8)
        path = self.work / "large.parquet"
        pq.write_table(pa.table({"id": [f"k{i}" for i in range(len(rows))], "v": list(rows)}), path, row_group_size=70_000)
        self.imported(path, "--keys", "id")
        tensors = self.tensors("large.safetensors")
        self.assertEqual(tensors["v"], ("float32", [300_000, 8], rows.tobytes()))
        self.assertEqual(strings(tensors, "v.keys"), [f"k{i}" for i in range(len(rows))])

    def test_a_table_without_rows(self):
        self.imported(self.write(id=pa.array([], pa.int64()), v=pa.array([], pa.list_(pa.float32(), 3))), "--keys", "id")
        self.assertEqual(self.tensors("movies.safetensors")["v"], ("float32", [0, 3], b""))

    def test_a_tensor_gets_another_name(self):
        self.imported(self.write(embedding=vectors()), "--name", "films", "--tensor", "embedding=vectors")
        self.assertEqual(list(self.tensors("films.safetensors")), ["vectors"])


class Csv(ImportTest):
    def write(self, text, name="m.csv"):
        path = self.work / name
        path.write_text(text)
        return path

    def test_numbers_are_float32_and_keys_strings(self):
        self.imported(self.write("id,a,b\n007,0.5,1\nx,-2,1e3\n"), "--keys", "id")
        tensors = self.tensors("m.safetensors")
        self.assertEqual(tensors["rows"], ("float32", [2, 2], pack("float32", [0.5, 1, -2, 1000])))
        self.assertEqual(strings(tensors, "rows.keys"), ["007", "x"])

    def test_keys_are_integers_if_asked(self):
        self.imported(self.write("a,id\n1,-7\n2,8\n"), "--keys", "id", "--key-dtype", "int64", "--dtype", "float64")
        tensors = self.tensors("m.safetensors")
        self.assertEqual((tensors["a"], numbers(tensors, "a.keys")), (("float64", [2], pack("float64", [1, 2])), [-7, 8]))

    def test_tabs_and_compression(self):
        path = self.work / "m.tsv.gz"
        path.write_bytes(gzip.compress(b"id\ta\n\"x\ty\"\t1\n"))
        self.imported(path, "--keys", "id", "--quote")
        self.assertEqual(strings(self.tensors("m.safetensors"), "a.keys"), ["x\ty"])
        (self.work / "N.TSV").write_bytes(b"id\ta\nx\t1\n")
        self.imported(self.work / "N.TSV", "--keys", "id")
        self.assertEqual(strings(self.tensors("N.safetensors"), "a.keys"), ["x"])


class Npz(ImportTest):
    def test_arrays_become_tensors_with_the_keys_beside_them(self):
        a = np.arange(6, dtype="<f4").reshape(3, 2)
        np.savez(self.work / "m.npz", a=a, f=np.asfortranarray(a), big=a.astype(">f4"), s=np.int8(7),
                 **{"a.keys": np.array(["x", "yy", "é"]), "f.keys": np.array([5, 6, 7], "i4")})
        self.imported(self.work / "m.npz")
        tensors = self.tensors("m.safetensors")
        for name in "a", "f", "big":
            self.assertEqual(tensors[name], ("float32", [3, 2], a.tobytes()), name)
        self.assertEqual((strings(tensors, "a.keys"), numbers(tensors, "f.keys")), (["x", "yy", "é"], [5, 6, 7]))
        self.assertEqual(tensors["s"], ("int8", [], b"\7"))

    def test_compressed_arrays_and_keys_of_another_name(self):
        np.savez_compressed(self.work / "m.npz", w=np.zeros((3, 4), "f2"), ids=np.array([3, 2, 1], "u8"))
        self.imported(self.work / "m.npz", "--keys", "ids")
        self.assertEqual(self.tensors("m.safetensors"), {
            "w": ("float16", [3, 4], bytes(24)), "w.keys": ("uint64", [3], pack("uint64", [3, 2, 1]))})


class PyTorch(ImportTest):
    def test_a_state_dict_becomes_tensors(self):
        storage = state_dicts.Storage("FloatStorage", "0", 7)
        half = state_dicts.Storage("BFloat16Storage", "1", 2)
        state_dicts.save(self.work / "m.pt", collections.OrderedDict(
            w=state_dicts.Tensor(storage, 1, (3, 2), (2, 1)), t=state_dicts.Tensor(storage, 1, (2, 3), (1, 2)),
            inner={"h": state_dicts.Tensor(half, 0, (2,), (1,))}, epoch=3),
            {"0": pack("float32", [9, 1, 2, 3, 4, 5, 6]), "1": b"\x80\x3f\0\x40"}, ("FloatStorage", "BFloat16Storage"))
        self.imported(self.work / "m.pt")
        self.assertEqual(self.tensors("m.safetensors"), {
            "w": ("float32", [3, 2], FLAT), "t": ("float32", [2, 3], pack("float32", [1, 3, 5, 2, 4, 6])),
            "inner.h": ("bfloat16", [2], b"\x80\x3f\0\x40")})

    def test_a_tensor_alone_is_named_tensor(self):
        state_dicts.save(self.work / "m.pt", state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 6), 0, (3, 2), (2, 1)), {"0": FLAT})
        self.imported(self.work / "m.pt")
        self.assertEqual(self.tensors("m.safetensors"), {"tensor": ("float32", [3, 2], FLAT)})

    def test_a_tensor_without_elements_can_begin_at_the_end_of_its_storage(self):
        storage = state_dicts.Storage("FloatStorage", "0", 6)
        state_dicts.save(self.work / "m.pt", {"empty": state_dicts.Tensor(storage, 6, (0, 3), (1, 1)), "w": state_dicts.Tensor(storage, 0, (3, 2), (2, 1))},
                         {"0": FLAT})
        self.imported(self.work / "m.pt")
        self.assertEqual(self.tensors("m.safetensors"), {"empty": ("float32", [0, 3], b""), "w": ("float32", [3, 2], FLAT)})

    def test_dicts_are_nested_up_to_32_deep(self):
        state = state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 6), 0, (3, 2), (2, 1))
        for _ in range(32):
            state = {"d": state}
        state_dicts.save(self.work / "m.pt", state, {"0": FLAT})
        self.imported(self.work / "m.pt")
        self.assertEqual(self.tensors("m.safetensors"), {".".join("d" * 32): ("float32", [3, 2], FLAT)})

    def test_a_file_of_pytorch_before_1_6(self):
        storage = state_dicts.Storage("FloatStorage", "93824", 7)
        view = state_dicts.Storage("FloatStorage", "93824", 7, ("5", 3, 4))
        state_dicts.save_legacy(self.work / "m.bin", {
            "w": state_dicts.Tensor(storage, 1, (3, 2), (2, 1)), "t": state_dicts.Tensor(storage, 1, (2, 3), (1, 2)),
            "v": state_dicts.Tensor(view, 1, (2,), (1,)), "other": state_dicts.Tensor(state_dicts.Storage("FloatStorage", "1", 1), 0, (), ())},
            {"93824": pack("float32", [9, 1, 2, 3, 4, 5, 6]), "1": pack("float32", [7])})
        self.imported(self.work / "m.bin")
        self.assertEqual(self.tensors("m.safetensors"), {
            "w": ("float32", [3, 2], FLAT), "t": ("float32", [2, 3], pack("float32", [1, 3, 5, 2, 4, 6])),
            "v": ("float32", [2], pack("float32", [4, 5])), "other": ("float32", [], pack("float32", [7]))})

    def test_settings_and_scalars_beside_the_tensors_are_not_kept(self):
        w = state_dicts.Tensor(state_dicts.Storage("FloatStorage", "0", 6), 0, (3, 2), (2, 1))
        for protocol in 2, 4:
            state_dicts.save(self.work / "m.pt", {
                "args": argparse.Namespace(lr=0.1, path=pathlib.PurePosixPath("a"), inner=argparse.Namespace(x={1, 2})),
                "best": np.float64(0.5), "step": np.int32(3), "seen": collections.defaultdict(list, a=[1]), "counts": collections.Counter("aab"),
                "when": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), "model": {"w": w},
                "device": state_dicts.Named("torch", "device", "cpu"), "size": state_dicts.Named("torch", "Size", (1, 2))},
                {"0": FLAT}, protocol=protocol, others=("torch.device", "torch.Size"))
            self.imported(self.work / "m.pt")
            self.assertEqual(self.tensors("m.safetensors"), {"model.w": ("float32", [3, 2], FLAT)})

    def test_tensors_of_later_versions_of_pytorch(self):
        utils, storage = "torch._utils", state_dicts.Storage("UntypedStorage", "0", 24)
        names = [state_dicts.Global(module, name) for module, name in (
            ("torch", "uint16"), ("torch", "float8_e4m3fn"), ("torch.nn.parameter", "Parameter"), (utils, "_rebuild_tensor_v2"))]
        uint16, float8, parameter, rebuild = names

        def typed(dtype):
            return state_dicts.Named(utils, "_rebuild_tensor_v3", storage, 2, (2, 2), (2, 1), False, {}, dtype, {})
        plain = state_dicts.Tensor(state_dicts.Storage("FloatStorage", "1", 6), 0, (3, 2), (2, 1))
        state_dicts.save(self.work / "m.pt", {
            "u": typed(uint16), "q": typed(float8), "list": [state_dicts.Named(utils, "_rebuild_parameter", plain, True, {})],
            "a": state_dicts.Named("torch._tensor", "_rebuild_from_type_v2", rebuild, parameter, plain.arguments, {"note": "x"}),
            "sparse": state_dicts.Named(utils, "_rebuild_sparse_tensor", 1, (2,)), "array": np.arange(3),
            "quantized": state_dicts.Named(utils, "_rebuild_qtensor", 1, (2,))},
            {"0": FLAT, "1": FLAT}, ("FloatStorage", "UntypedStorage"), others=(
                "torch._tensor._rebuild_from_type_v2", *names,
                *(f"{utils}.{name}" for name in ("_rebuild_tensor_v3", "_rebuild_parameter", "_rebuild_sparse_tensor", "_rebuild_qtensor"))))
        status, _, errors = run(self.work / "m.pt", "--data-dir", self.data)
        self.assertEqual(status, 0, errors)
        self.assertEqual(self.tensors("m.safetensors"), {
            "u": ("uint16", [2, 2], FLAT[4:12]), "list.0": ("float32", [3, 2], FLAT), "a": ("float32", [3, 2], FLAT)})
        for name, what in (("q", "of dtype float8_e4m3fn; expected one of bool, int8"), ("sparse", "a sparse tensor; convert it with x.to_dense(). It is"),
                           ("quantized", "a quantized tensor; convert it to floats with x.dequantize(). It is"),
                           ("array", "a NumPy array, not a tensor; convert it with torch.from_numpy(x). It is")):
            self.assertIn(f"import: note: {self.work / 'm.pt'}, tensor {name}: it is {what}", errors)
        self.assertTrue(self.refused(self.work / "m.pt", "--tensor", "quantized").endswith("it is a quantized tensor; convert it to floats with x.dequantize()"))


class LeftOut(ImportTest):
    """A tensor that has no equivalent in tensord is left out with a note; one that is asked for is an error."""

    def write(self, path, **tensors):
        """a safetensors file of {name: dtype}, of eight bytes each"""
        header = {name: {"dtype": dtype, "shape": [8 // width], "data_offsets": [8 * i, 8 * i + 8]}
                  for i, (name, (dtype, width)) in enumerate(tensors.items())}
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8 * len(tensors)))

    def expect(self, path, *options, name="m"):
        status, _, errors = run(path, *options, "--name", name, "--data-dir", self.data)
        self.assertEqual(status, 0, errors)
        return sorted(self.tensors(f"{name}.safetensors")), [line for line in errors.splitlines() if "note" in line]

    def test_a_dtype_that_tensord_lacks(self):
        path = self.work / "m.safetensors"
        self.write(path, w=("F32", 4), q=("F8_E4M3", 1), v=("I64", 8))
        names, notes = self.expect(path)
        self.assertEqual(names, ["v", "w"])
        self.assertEqual(len(notes), 1)
        self.assertTrue(notes[0].startswith(f"import: note: {path}, tensor q: the dtype is F8_E4M3; expected one of BOOL, I8"), notes)
        self.assertTrue(notes[0].endswith(". It is left out"), notes)
        self.assertEqual(self.expect(path, "--tensor", "w"), (["w"], []))
        self.assertIn("tensor q: the dtype is F8_E4M3", self.refused(path, "--tensor", "q"))
        self.write(path, q=("F8_E4M3", 1))
        self.assertIn("tensor q: the dtype is F8_E4M3", self.refused(path))

    def test_in_another_file_of_an_index(self):
        self.write(self.work / "a.safetensors", w=("F32", 4))
        self.write(self.work / "b.safetensors", q=("F8_E5M2", 1), v=("F16", 2))
        index = self.work / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"w": "a.safetensors", "q": "b.safetensors", "v": "b.safetensors"}}))
        self.assertEqual(self.expect(self.work, "--tensor", "w"), (["w"], []))
        names, notes = self.expect(index)
        self.assertEqual(names, ["v", "w"])
        self.assertIn("b.safetensors, tensor q: the dtype is F8_E5M2", notes[0])

    def test_arrays_of_numpy(self):
        np.savez(self.work / "m.npz", w=np.zeros(2), names=np.array(["a", "b"]), objects=np.array([{}], dtype=object),
                 deep=np.zeros((1,) * 17))
        names, notes = self.expect(self.work / "m.npz")
        self.assertEqual(names, ["w"])
        self.assertEqual(len(notes), 3)
        self.assertIn("array deep: it has 17 dimensions; expected at most 16", "".join(notes))


class HuggingFace(ImportTest):
    def test_a_folder_of_one_file(self):
        a = np.arange(4, dtype="f4").reshape(2, 2)
        safetensors.numpy.save_file({"wte.weight": a, "b": np.ones(3, "i8")}, self.work / "model.safetensors")
        self.imported(self.work, "--name", "gpt")
        self.assertEqual(self.tensors("gpt.safetensors"), {
            "wte.weight": ("float32", [2, 2], a.tobytes()), "b": ("int64", [3], pack("int64", [1, 1, 1]))})

    def test_a_folder_of_several_files(self):
        for i in (1, 2):
            safetensors.numpy.save_file({f"w{i}": np.full(2, i, "u1")}, self.work / f"model-{i}.safetensors")
        (self.work / "model.safetensors.index.json").write_text(json.dumps(
            {"weight_map": {f"w{i}": f"model-{i}.safetensors" for i in (1, 2)}}))
        self.imported(self.work, "--name", "m", "--tensor", "w2", "--tensor", "w1=first")
        self.assertEqual(self.tensors("m.safetensors"), {"w2": ("uint8", [2], b"\2\2"), "first": ("uint8", [2], b"\1\1")})

    def test_a_folder_of_state_dicts(self):
        for i in (1, 2):
            tensor = state_dicts.Tensor(state_dicts.Storage("ByteStorage", "0", 2), 0, (2,), (1,))
            state_dicts.save(self.work / f"pytorch_model-{i}.bin", {f"w{i}": tensor}, {"0": bytes([i, i])}, ("ByteStorage",))
        index = self.work / "pytorch_model.bin.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 4}, "weight_map": {f"w{i}": f"pytorch_model-{i}.bin" for i in (1, 2)}}))
        (self.work / "training_args.bin").write_bytes(b"x")
        for path in self.work, index:
            self.imported(path, "--name", "m")
            self.assertEqual(self.tensors("m.safetensors"), {"w1": ("uint8", [2], b"\1\1"), "w2": ("uint8", [2], b"\2\2")})
        index.unlink()
        self.assertIn("pytorch_model-1.bin, pytorch_model-2.bin, training_args.bin; expected one of these files", self.refused(self.work, "--name", "m"))
        (self.work / "pytorch_model-1.bin").rename(self.work / "pytorch_model.bin")
        self.imported(self.work, "--name", "m")
        self.assertEqual(list(self.tensors("m.safetensors")), ["w1"])

    def test_keys_of_a_vocabulary(self):
        model = self.work / "model.safetensors"
        safetensors.numpy.save_file({"w": np.zeros((3, 1), "f4")}, model)
        (self.work / "ids.json").write_text('{"9": 1, "7": 0, "8": 2}')
        np.save(self.work / "ids.npy", np.zeros((3, 1)))
        self.imported(self.work / "ids.npy", "--keys-from", self.work / "ids.json")
        self.assertEqual(numbers(self.tensors("ids.safetensors"), "rows.keys"), [7, 9, 8])
        for name, text in (("vocab.txt", "[PAD]\nking\nqueen\n"), ("vocab.json", '{"king": 1, "[PAD]": 0, "queen": 2}'),
                           ("tokenizer.json", '{"model": {"vocab": {"king": 1, "queen": 2}}, "added_tokens": '
                            '[{"id": 0, "content": "[PAD]"}]}')):
            with self.subTest(name):
                (self.work / name).write_text(text)
                self.imported(model, "--keys-from", self.work / name)
                self.assertEqual(strings(self.tensors("model.safetensors"), "w.keys"), ["[PAD]", "king", "queen"])

    def test_keys_of_a_unigram_tokenizer(self):
        """XLM-R, T5 and bge-m3: a list of [key, score], whose places are the rows; special tokens are in both lists"""
        model = self.work / "model.safetensors"
        safetensors.numpy.save_file({"w": np.zeros((5, 1), "f4")}, model)
        tokenizer = {"model": {"type": "Unigram", "unk_id": 1, "vocab": [["<s>", 0.0], ["<unk>", 0.0], ["\u2581k\u00f6nig", -3.5], ["n", -9]]},
                     "added_tokens": [{"id": 0, "content": "<s>"}, {"id": 4, "content": "<mask>", "special": True}]}
        (self.work / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.imported(model, "--keys-from", self.work / "tokenizer.json")
        self.assertEqual(strings(self.tensors("model.safetensors"), "w.keys"), ["<s>", "<unk>", "\u2581k\u00f6nig", "n", "<mask>"])

    def test_a_table_that_is_padded_is_cut_to_its_vocabulary_if_asked(self):
        rows = np.arange(3_000_000, dtype="f4").reshape(-1, 1000)  # three batches
        safetensors.numpy.save_file({"w": rows}, self.work / "m.safetensors")
        (self.work / "vocab.json").write_text(json.dumps({f"k{i}": i for i in range(2800)}))
        options = "--keys-from", self.work / "vocab.json"
        self.assertIn("there are 2800 keys, but", self.refused(self.work / "m.safetensors", *options))
        self.assertIn("rows. If the last 200 are padding, --drop-padding leaves them out", self.refused(self.work / "m.safetensors", *options))
        status, _, errors = run(self.work / "m.safetensors", *options, "--drop-padding", "--data-dir", self.data)
        self.assertEqual(status, 0, errors)
        self.assertIn("m.safetensors, tensor w: the last 200 rows, which have no keys, are left out", errors)
        tensors = self.tensors("m.safetensors")
        self.assertEqual(tensors["w"], ("float32", [2800, 1000], rows[:2800].tobytes()))
        self.assertEqual(strings(tensors, "w.keys")[-1], "k2799")
        (self.work / "vocab.txt").write_text("a\n" * 1)
        self.imported(self.work / "m.safetensors", "--keys-from", self.work / "vocab.txt", "--drop-padding", "--dtype", "uint8")
        self.assertEqual(self.tensors("m.safetensors")["w.scale"][1], [1])

    def test_what_the_import_wrote_can_be_imported_with_its_keys(self):
        for keys in np.array(["a", "bb"]), np.array([4, 2]):
            np.savez(self.work / "m.npz", w=np.eye(2, dtype="f4"), **{"w.keys": keys})
            self.imported(self.work / "m.npz")
            first = self.tensors("m.safetensors")
            self.imported(self.data / "m.safetensors", "--name", "again")
            self.assertEqual(self.tensors("again.safetensors"), first)


class Layout(ImportTest):
    def test_the_reference_implementation_reads_the_file(self):
        np.savez(self.work / "m.npz", w=np.ones((3, 3), "u1"), d=np.ones(3, "f8"), **{"w.keys": np.array(["a", "b", "c"])})
        self.imported(self.work / "m.npz")
        with safetensors.safe_open(self.data / "m.safetensors", "np") as file:
            self.assertEqual(sorted(file.keys()), ["d", "w", "w.keys.bytes", "w.keys.offsets"])
            self.assertEqual(file.get_tensor("w.keys.bytes").tobytes(), b"abc")

    def test_tensors_are_aligned_and_the_rows_begin_at_a_cache_line(self):
        for n in range(1, 70, 7):
            np.savez(self.work / "m.npz", w=np.ones((n, 16), "f4"), odd=np.ones(3, "u1"), **{"w.keys": np.arange(n)})
            self.imported(self.work / "m.npz")
            content = (self.data / "m.safetensors").read_bytes()
            data = 8 + struct.unpack_from("<Q", content)[0]
            header = json.loads(content[8:data])
            self.assertEqual((data + header["w"]["data_offsets"][0]) % 64, 0)
            self.assertEqual((data + header["w.keys"]["data_offsets"][0]) % 8, 0)


