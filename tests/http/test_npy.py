""".npy files as bodies and replies of ops."""
import gzip
from daemon import *

BINARY_HEADERS = {"Content-Type": SAFETENSORS}
NPY = "application/x-npy"
SENT, ASKED = {"Content-Type": NPY, "Accept": "*/*"}, {"Accept": NPY}
VALUES = {"bool": [True, False], "int8": [-128, 127], "int16": [-2, 9], "int32": [-2**31, 7], "int64": [-2**63, 7], "uint8": [0, 255], "uint16": [1, 2**16 - 1],
          "uint32": [1, 2**32 - 1], "uint64": [1, 2**64 - 1], "float16": [1.5, -0.25], "float32": [1.5, -0.25], "float64": [0.1, -1e300]}


class NpyTest(HttpTest):
    def setUp(self):
        super().setUp()
        self.assertIn(self.request("PUT", "/v1/tensors/words", {"dtype": "float32", "data": [[0.5, 1], [2, 3], [4, 5]]}).status, (200, 201))

    def assertFile(self, reply, dtype, shape, values):
        self.assertStatus(reply, 200)
        self.assertEqual(reply.type, NPY)
        self.assertEqual(reply.body, npy("|b1" if dtype == "bool" else "|" + NPY_NAMES[dtype][1:] if NPY_NAMES[dtype].endswith("1") else dtype, shape, pack(dtype, values)))


class Replies(NpyTest):
    def test_one_output_of_every_dtype(self):
        for dtype, values in VALUES.items():
            with self.subTest(dtype):
                body = safetensors({"params": (dtype, (2, 1), pack(dtype, values)), "indices": ("int32", (2,), pack("int32", [1, 0]))})
                self.assertFile(self.post("/v1/gather", body, {**BINARY_HEADERS, **ASKED}), dtype, (2, 1), values[::-1])
        reply = self.post("/v1/gather", {"params": {"dtype": "complex64", "shape": [1], "data": [[1, 2]]}, "indices": [0]}, ASKED)
        self.assertEqual(reply.body, npy("complex64", (1,), pack("float32", [1, 2])))

    def test_scalars_and_large_outputs(self):
        self.assertFile(self.post("/v1/einsum", {"equation": "i->", "inputs": [[1.5, 2]]}, ASKED), "float32", (), [3.5])
        self.assertFile(self.post("/v1/gather", {"params": [7], "indices": [0] * 50000}, ASKED), "int32", (50000,), [7] * 50000)

    def test_output_dtype_applies(self):
        reply = self.post("/v1/tensors/words/gather?output_dtype=float16", {"indices": [0]}, {"Content-Type": JSON, **ASKED})
        self.assertFile(reply, "float16", (1, 2), [0.5, 1])

    def test_one_of_several_outputs_can_be_selected(self):
        self.assertFile(self.post("/v1/top_k", {"x": [3, 1, 2], "k": 2, "outputs": ["indices"]}, ASKED), "int32", (2,), [0, 2])

    def test_a_list_of_one_output(self):
        self.assertFile(self.post("/v1/dynamic_partition", {"data": [5], "partitions": [0], "num_partitions": 1}, ASKED), "int32", (1,), [5])

    def test_outputs_that_a_file_cannot_hold_are_not_acceptable(self):
        both, json_only = f"Accept must allow {JSON} or {SAFETENSORS}", f"Accept must allow {JSON}"
        for op, body, detail in (
                ("top_k", {"x": [1], "k": 1}, f"a .npy file holds one tensor, but top_k returns 2 here; {both}; the member outputs selects one of values, indices"),
                ("dynamic_partition", {"data": [1], "partitions": [0], "num_partitions": 2}, f"a .npy file holds one tensor, but dynamic_partition returns 2 here; {both}"),
                ("gather", {"params": ["a"], "indices": [0]}, f".npy has no type for string; {json_only}"),
                ("gather", {"params": [0.5], "indices": [0], "output_dtype": "bfloat16"}, f".npy has no type for bfloat16; {both}")):
            with self.subTest(op):
                problem = self.assertProblem(self.post(f"/v1/{op}", body, ASKED), 406, "NOT_ACCEPTABLE", attribute="Accept")
                self.assertEqual(problem["detail"], detail)
        problem = self.assertProblem(self.post("/v1/gather", {"params": {"dtype": "complex128", "shape": [1], "data": [[1, 2]]}, "indices": [0]}, {"Accept": SAFETENSORS}), 406, "NOT_ACCEPTABLE")
        self.assertEqual(problem["detail"], f"safetensors has no dtype for complex128; Accept must allow {JSON} or {NPY}")

    def test_other_accepted_formats_are_used_instead(self):
        body = {"x": [2], "k": 1}
        for accept, kind in ((f"{NPY}, {JSON};q=0.1", JSON), (f"{NPY}, {SAFETENSORS};q=0.1", SAFETENSORS), (f"{NPY}, */*;q=0.1", JSON)):
            with self.subTest(accept):
                reply = self.post("/v1/top_k", body, {"Accept": accept})
                self.assertEqual((reply.status, reply.type), (200, kind))

    def test_an_unknown_type_lists_all_formats(self):
        problem = self.assertProblem(self.post("/v1/gather", {"params": [1], "indices": [0]}, {"Accept": "text/html"}), 406, "NOT_ACCEPTABLE", attribute="Accept")
        self.assertEqual(problem["detail"], f'Accept is "text/html"; it must allow {JSON}, {SAFETENSORS} or {NPY}')


class Bodies(NpyTest):
    def test_the_body_picks_rows_of_the_table_in_the_path(self):
        for dtype in ("int16", "int32", "int64"):
            self.assertFile(self.post("/v1/tensors/words/gather", npy(dtype, (2,), pack(dtype, [2, 0])), SENT), "float32", (2, 2), [4, 5, 0.5, 1])
        reply = self.post("/v1/tensors/words/gather", npy("int32", (1,), pack("int32", [1])), {**SENT, "Accept": JSON})
        self.assertOutput(reply, "float32", (1, 2), [[2.0, 3.0]])

    def test_attributes_and_common_members_are_in_the_query(self):
        ids = npy("int64", (3,), pack("int64", [0, 1, 9]))
        self.assertFile(self.post("/v1/tensors/words/gather?bounds=zero&output_dtype=float64", ids, SENT), "float64", (3, 2), [0.5, 1, 2, 3, 0, 0])
        self.assertProblem(self.post("/v1/tensors/words/gather", ids, SENT), 422, "INDEX_OUT_OF_BOUNDS", input="indices", position=[2])
        reply = self.post("/v1/tensors/words/gather?bounds=zero&store=picked", ids, SENT)
        self.assertEqual((reply.json()["output"]["name"], reply.json()["output"]["shape"]), ("picked", [3, 2]))
        self.assertStatus(self.request("DELETE", "/v1/tensors/picked"), 204)

    def test_the_body_is_the_keys_to_look_up(self):
        self.assertIn(self.request("PUT", "/v1/tensors/keyed", {"tensor": [[1, 2], [3, 4]], "keys": [70, 80]}).status, (200, 201))
        queries = npy("int64", (2,), pack("int64", [80, 70]))
        self.assertFile(self.post("/v1/tensors/keyed/lookup?outputs=output", queries, SENT), "int32", (2, 2), [3, 4, 1, 2])
        self.assertFile(self.post("/v1/tensors/keyed/find", queries, SENT), "int64", (2,), [1, 0])
        self.assertEqual(self.post("/v1/tensors/keyed/lookup", queries, SENT).type, JSON)  # two outputs
        problem = self.assertProblem(self.post("/v1/tensors/words/lookup", queries, SENT), 422, "INVALID_ARGUMENT")
        self.assertIn("'words' has no keys to find rows by", problem["detail"])

    def test_without_a_table_the_body_is_the_first_input(self):
        self.assertFile(self.post("/v1/top_k?k=2&outputs=values", npy("float32", (3,), pack("float32", [1, 3, 2])), SENT), "float32", (2,), [3, 2])
        self.assertFile(self.post("/v1/einsum?equation=ij->j", npy("int32", (2, 2), pack("int32", [1, 2, 3, 4])), SENT), "int32", (2,), [4, 6])
        problem = self.assertProblem(self.post("/v1/gather", npy("int32", (1,), pack("int32", [0])), SENT), 422, "INVALID_ARGUMENT", input="indices")
        self.assertIn(f"a .npy body is one input; send several inputs as {SAFETENSORS} or {JSON}, or use the path /v1/tensors/TABLE/gather", problem["detail"])
        problem = self.assertProblem(self.post("/v1/dynamic_stitch", npy("int32", (1,), pack("int32", [0])), SENT), 422, "INVALID_ARGUMENT", input="data")
        self.assertTrue(problem["detail"].endswith(f"a .npy body is one input; send several inputs as {SAFETENSORS} or {JSON}"), problem["detail"])

    def test_byte_order_and_fortran_order(self):
        self.assertFile(self.post("/v1/tensors/words/gather", npy(">i4", (2,), struct.pack(">2i", 2, 1)), SENT), "float32", (2, 2), [4, 5, 2, 3])
        body = npy("int64", (2, 2), pack("int64", [0, 2, 1, 0]), fortran=True, version=2)  # [[0, 1], [2, 0]]
        self.assertFile(self.post("/v1/tensors/words/gather", body, SENT), "float32", (2, 2, 2), [0.5, 1, 2, 3, 4, 5, 0.5, 1])

    def test_data_at_an_odd_address(self):
        body = npy("int64", (2,), pack("int64", [2, 1]))
        text = b"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n"
        odd = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + body[-16:]
        self.assertNotEqual((len(odd) - 16) % 8, 0)
        self.assertFile(self.post("/v1/tensors/words/gather", odd, SENT), "float32", (2, 2), [4, 5, 2, 3])

    def test_a_compressed_body(self):
        reply = self.post("/v1/tensors/words/gather", gzip.compress(npy("int32", (1,), pack("int32", [1]))), {**SENT, "Content-Encoding": "gzip"})
        self.assertFile(reply, "float32", (1, 2), [2, 3])

    def test_a_dtype_that_the_input_does_not_accept(self):
        self.assertProblem(self.post("/v1/tensors/words/gather", npy("float32", (1,), pack("float32", [1])), SENT), 422, "UNSUPPORTED_DTYPE", input="indices")

    def test_bad_files_name_the_input(self):
        good = npy("int32", (2,), pack("int32", [0, 1]))
        for body, part in ((b"", "not a .npy file"), (good[:20], "ends inside its header"), (good[:-1], "has 7 bytes of data, but int32 of shape [2] takes 8"),
                           (good + b"x", "has 9 bytes of data"), (npy("|O", (1,), bytes(8)), "Python objects"), (npy("<U1", (1,), bytes(4)), "text"),
                           (npy("int32", (2**62, 2**62), b""), "array"), (good.replace(b"(2,)", b"(-2,"), "dimension")):
            with self.subTest(part):
                reply = self.post("/v1/tensors/words/gather", body, SENT)
                self.assertIn(reply.status, (400, 422))
                problem = self.assertAnyProblem(reply)
                self.assertIn(part, problem["detail"])
                self.assertEqual(problem["input"], "indices")
        problem = self.assertProblem(self.post("/v1/tensors/words/gather", b'{"indices": [0]}', SENT), 400, "MALFORMED_REQUEST")
        self.assertEqual(problem["detail"], "the body is JSON; send it as application/json")
        problem = self.assertProblem(self.post("/v1/tensors/words/gather", good, {"Content-Type": JSON}), 400, "MALFORMED_REQUEST")
        self.assertEqual(problem["detail"], "the body is a .npy file; send it with PUT, or to an op, as application/x-npy")

    def test_an_unknown_type_lists_all_formats(self):
        problem = self.assertProblem(self.post("/v1/tensors/words/gather", b"x", {"Content-Type": "text/csv"}), 415, "UNSUPPORTED_MEDIA_TYPE", attribute="Content-Type")
        self.assertEqual(problem["detail"], f'Content-Type is "text/csv"; expected {JSON}, {SAFETENSORS} or {NPY}')

    def test_row_updates_and_plans_need_other_formats(self):
        for path in ("/v1/tensors/words/scatter", "/v1/einsum/plan"):
            self.assertProblem(self.post(path, npy("int32", (1,), bytes(4)), SENT), 415, "UNSUPPORTED_MEDIA_TYPE", attribute="Content-Type")
