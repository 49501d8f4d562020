"""Tests of /v2 with tritonclient.http: the server understands what the client sends, and the client what the server replies.
Expected values are computed with NumPy. The results of the ops are tested in tests/conformance, also in this protocol, and what
the server refuses in tests/api/oip and tests/http."""
import json, os, re, time, unittest, urllib.request

import ml_dtypes
import numpy as np
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, serialize_byte_tensor, triton_to_np_dtype

import daemon

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
with open(os.path.join(ROOT, "kernels", "ops.def"), encoding="ascii") as ops:
    MODELS = re.findall(r"^TD_OP\(\w+, (\w+)\)", ops.read(), re.M)  # every op is a model
NUMBERS = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
           np.float32, np.float64]
HANG_S = 600.0  # until a reply counts as lost
FORMS = [(i, o) for i in (True, False) for o in (True, False)]  # binary input, binary output


def values(dtype, shape, rng):
    """numbers over the whole range of the dtype"""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)


def strings(items):
    return np.array(items, dtype=np.object_)


class Cases:
    """The tests; each class below runs all of them with other options of the daemon."""
    options = ()

    def setUp(self):
        self.daemon = daemon.shared("--system-shared-memory", "--max-body=256M", *self.options)
        self.client = triton.InferenceServerClient(f"{self.daemon.host}:{self.daemon.port}", concurrency=4,
                                                   network_timeout=HANG_S, connection_timeout=HANG_S)
        self.addCleanup(self.client.close)
        self.rng = np.random.default_rng(daemon.SEED)

    # -- helpers
    def input(self, name, array, binary=True):
        array = np.asarray(array)
        return triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)).set_data_from_numpy(
            array, binary_data=binary)

    def required(self, model):
        """the required attributes of an op, each with a small value that its description allows"""
        with urllib.request.urlopen(f"http://{self.daemon.host}:{self.daemon.port}/v1/ops/{model}") as reply:
            attributes = json.load(reply)["attributes"]
        least = {"dtype": lambda a: a["values"][0], "int64": lambda a: max(1, a["minimum"]) if "minimum" in a else 0, "int64[]": lambda a: "-1",
                 "string": lambda a: "a->a"}
        return {a["name"]: least[a["type"]](a) for a in attributes if a["required"]}

    def infer(self, model, inputs, binary=True, binary_out=True, **more):
        """{name: array}; inputs {name: array}"""
        names = more.pop("names", ["output"])
        outputs = [triton.InferRequestedOutput(n, binary_data=binary_out) for n in names]
        result = self.client.infer(model, [self.input(n, a, binary) for n, a in inputs.items()], outputs=outputs, **more)
        return {n: result.as_numpy(n) for n in names}

    def gather(self, params, indices, binary=True, binary_out=True, **more):
        return self.infer("gather", {"params": params, "indices": indices}, binary, binary_out, **more)["output"]

    def same(self, got, want):
        want = np.asarray(want)
        self.assertIsNotNone(got)
        self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
        if want.dtype == np.object_:
            self.assertEqual(got.tolist(), want.tolist())
        else:
            np.testing.assert_array_equal(got, want)

    def refused(self, status, *words, call):
        with self.assertRaises(InferenceServerException) as caught:
            call()
        error = caught.exception
        self.assertEqual(error.status(), str(status), error.message())
        self.assertIsInstance(error.message(), str)
        for word in words:
            self.assertIn(word, error.message())

    # -- metadata
    def test_the_server_and_its_models_are_ready(self):
        self.assertTrue(self.client.is_server_live() and self.client.is_server_ready())
        self.assertEqual(self.client.get_server_metadata()["name"], "tensord")
        self.assertIn("system_shared_memory", self.client.get_server_metadata()["extensions"])
        self.assertEqual([m["name"] for m in self.client.get_model_repository_index()][-len(MODELS):], MODELS)
        for model in MODELS:
            self.assertTrue(self.client.is_model_ready(model) and self.client.is_model_ready(model, "1"))
            metadata, config = self.client.get_model_metadata(model), self.client.get_model_config(model)
            self.assertEqual((metadata["name"], metadata["versions"], config["name"]), (model, ["1"], model))
            self.assertEqual(config["max_batch_size"], 0)
        self.assertFalse(self.client.is_model_ready("nothing") or self.client.is_model_ready("gather", "2"))
        self.refused(404, "nothing", call=lambda: self.client.get_model_metadata("nothing"))

    def test_a_request_made_from_the_metadata_runs(self):
        """as a tool that reads only the metadata would: zeros, with every free dimension 1. Bags and searches need one of
        two inputs, a search needs matrices, and it returns keys only for a table with keys"""
        needed, matrices = ("offsets", "queries"), {"search": ("params", "queries")}
        for model in MODELS:
            inputs = []
            for tensor in self.client.get_model_metadata(model)["inputs"]:
                if tensor["parameters"].get("optional") and tensor["name"] not in needed:
                    continue
                shape = [1, 1] if tensor["name"] in matrices.get(model, ()) else [1 if d < 0 else d for d in tensor["shape"]]
                zeros = np.zeros(shape, triton_to_np_dtype(tensor["datatype"]))
                inputs.append(self.input(tensor["name"], zeros))
            with self.subTest(model):
                result = self.client.infer(model, inputs, parameters=self.required(model))
                for tensor in self.client.get_model_metadata(model)["outputs"]:
                    self.assertEqual(result.as_numpy(tensor["name"]) is None, (model, tensor["name"]) == ("search", "keys"))

    # -- dtypes
    def test_every_dtype_in_every_format(self):
        indices = np.array([4, 0, 2, 4])
        for dtype in NUMBERS:
            params = values(dtype, (5, 3), self.rng)
            for binary, binary_out in FORMS:
                with self.subTest(dtype=np.dtype(dtype).name, binary=binary, binary_out=binary_out):
                    self.same(self.gather(params, indices, binary, binary_out), params[indices])

    def test_bfloat16_is_sent_as_bytes(self):
        params = values(np.float32, (5, 3), self.rng).astype(ml_dtypes.bfloat16)
        got = self.gather(params, np.array([3, 1]))
        self.assertEqual((got.dtype, got.tobytes()), (params.dtype, params[[3, 1]].tobytes()))

    def test_floats_are_returned_bit_for_bit(self):
        for dtype, bits in ((np.float32, np.uint32), (np.float64, np.uint64), (np.float16, np.uint16)):
            params = self.rng.integers(0, np.iinfo(bits).max, 2000, dtype=bits).view(dtype)
            params = np.concatenate([params[~np.isnan(params)], np.array([np.nan, np.inf, -np.inf, -0.0], dtype)])
            for binary, binary_out in FORMS:
                got = self.gather(params, np.arange(len(params)), binary, binary_out)
                self.same(got, params)
                self.assertTrue(np.signbit(got[-1]))

    def test_bytes_may_have_any_content(self):
        params = strings([b"", b"\x00\xff", b"a" * 70000, "h\u00e9llo \u20ac \U0001f600".encode()])
        self.same(self.gather(params, np.array([3, 1, 0, 2])), params[[3, 1, 0, 2]])
        text = strings(["", "a\x00b", "\"\\\n\u20ac", "x" * 5000])
        got = self.gather(text, np.array([3, 2, 1, 0]), False, False)
        self.assertEqual(got.tolist(), text[::-1].tolist())
        self.refused(400, call=lambda: self.gather(params, np.array([1]), True, False))

    # -- ops
    def test_stitching_undoes_partitioning(self):
        data, partitions = values(np.float32, (40, 3), self.rng), self.rng.integers(0, 12, 40).astype(np.int32)
        names = [f"outputs.{k}" for k in range(12)]
        for binary, binary_out in FORMS:
            parts = self.infer("dynamic_partition", {"data": data, "partitions": partitions}, binary, binary_out,
                               names=names, parameters={"num_partitions": 12})
            places = self.infer("dynamic_partition", {"data": np.arange(40, dtype=np.int32), "partitions": partitions},
                                binary, binary_out, names=names, parameters={"num_partitions": 12})
            for k, name in enumerate(names):
                self.same(parts[name], data[partitions == k])
            inputs = {f"indices.{k}": places[n] for k, n in enumerate(names)}
            inputs.update({f"data.{k}": parts[n] for k, n in reversed(list(enumerate(names)))})
            for model in ("dynamic_stitch", "parallel_dynamic_stitch"):
                self.same(self.infer(model, inputs, binary, binary_out)["output"], data)

    def test_empty_tensors(self):
        params = np.zeros((3, 2), np.float32)
        for binary, binary_out in FORMS:
            self.same(self.gather(params, np.zeros(0, np.int64), binary, binary_out), params[:0])
            self.same(self.gather(np.zeros((3, 0), np.float32), np.array([2]), binary, binary_out), np.zeros((1, 0), np.float32))
            self.same(self.gather(params, np.array(1), binary, binary_out), params[1])
        self.same(self.gather(strings([b"x"]), np.zeros(0, np.int64)), strings([]))

    # -- tables as models
    def put(self, name, table):
        data = json.dumps({"dtype": table.dtype.name, "data": table.tolist()}).encode()
        request = urllib.request.Request(f"http://{self.daemon.address}/v1/tensors/{name}", method="PUT", data=data,
                                         headers={"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=HANG_S).close()

    def test_a_table_is_a_model_whose_input_is_indices(self):
        table = values(np.float32, (1000, 16), self.rng)
        self.put("oip-model", table)
        self.assertTrue(self.client.is_model_ready("oip-model") and self.client.is_model_ready("oip-model", "1"))
        self.assertFalse(self.client.is_model_ready("oip-model", "2"))
        self.assertIn("oip-model", [m["name"] for m in self.client.get_model_repository_index()])
        metadata = self.client.get_model_metadata("oip-model")
        self.assertEqual([i["name"] for i in metadata["inputs"]], ["indices"])
        self.assertEqual(metadata["outputs"][0]["shape"], [-1, 16])
        self.assertEqual(self.client.get_model_config("oip-model")["output"][0]["dims"], [-1, 16])
        indices = self.rng.integers(0, 1000, (4, 25))
        for dtype in (np.int32, np.int64):
            for binary, binary_out in FORMS:
                got = self.infer("oip-model", {"indices": indices.astype(dtype)}, binary, binary_out)["output"]
                self.same(got, table[indices])
        result = self.client.infer("oip-model", [self.input("indices", indices)], model_version="1")
        self.assertEqual(result.get_response()["model_name"], "oip-model")
        self.same(result.as_numpy("output"), table[indices])
        self.refused(400, "oip-model", "indices[0]", call=lambda: self.infer("oip-model", {"indices": np.array([1000])}))
        stats = self.client.get_inference_statistics("oip-model")["model_stats"][0]
        self.assertEqual((stats["inference_stats"]["success"]["count"], stats["inference_stats"]["fail"]["count"]), (9, 1))

    def test_a_model_of_a_version(self):
        for version in (1, 2):
            self.put(f"oip-versions@v{version}", np.full((3, 2), version, np.float32))
        for version in (1, 2):
            result = self.client.infer("oip-versions", [self.input("indices", np.array([2]))], model_version=f"v{version}")
            self.same(result.as_numpy("output"), np.full((1, 2), version, np.float32))
        self.refused(404, "v3", call=lambda: self.client.get_model_metadata("oip-versions", "v3"))

    def test_a_table_with_the_name_of_an_op_is_the_model(self):
        address = f"http://{self.daemon.address}/v1/tensors/top_k"
        self.put("top_k", np.float32([[1, 2], [3, 4]]))
        self.addCleanup(lambda: urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).close())
        self.assertEqual([i["name"] for i in self.client.get_model_metadata("top_k", "1")["inputs"]], ["indices"])
        self.same(self.infer("top_k", {"indices": np.array([1])})["output"], np.float32([[3, 4]]))
        self.assertEqual([m["name"] for m in self.client.get_model_repository_index()].count("top_k"), 1)

    def test_a_table_is_looked_up_in_shared_memory(self):
        table = values(np.float32, (1000, 64), self.rng)
        self.put("oip-shared", table)
        indices = self.rng.integers(0, 1000, 300)
        source, region = self.region(indices.nbytes)
        target, outcome = self.region(300 * 64 * 4)
        shm.set_shared_memory_region(source, [indices])
        wanted = triton.InferRequestedOutput("output")
        wanted.set_shared_memory(outcome, 300 * 64 * 4)
        self.client.infer("oip-shared", [self.in_region("indices", indices, region)], outputs=[wanted])
        self.same(np.array(shm.get_contents_as_numpy(target, np.float32, [300, 64])), table[indices])

    # -- requests
    def test_ids_outputs_and_other_members(self):
        params, indices = np.arange(6.0), np.array([5, 1])
        inputs = [self.input("indices", indices), self.input("params", params)]
        result = self.client.infer("gather", inputs, request_id="\u00e9 / 7", model_version="1", priority=3, timeout=60_000_000,
                                   query_params={"q": 1}, headers={"X-Anything": "1"})
        self.same(result.as_numpy("output"), params[indices])
        self.assertEqual(result.get_response()["id"], "\u00e9 / 7")
        self.assertEqual(result.get_response()["model_name"], "gather")
        self.assertIsNone(result.as_numpy("nothing"))

    def test_errors_name_the_input_and_leave_the_client_usable(self):
        for _ in range(20):
            self.refused(400, "indices[1]", "77", call=lambda: self.gather(np.arange(6.0), np.array([0, 77])))
            self.same(self.gather(np.arange(6.0), np.array([2])), np.array([2.0]))

    def test_compression_in_both_directions(self):
        params = np.round(self.rng.standard_normal((500, 40)), 1).astype(np.float32)
        indices = self.rng.permutation(500)
        for request in (None, "gzip", "deflate"):
            for response in (None, "gzip", "deflate"):
                for binary, binary_out in FORMS:
                    self.same(self.gather(params, indices, binary, binary_out, request_compression_algorithm=request,
                                          response_compression_algorithm=response), params[indices])
        self.refused(400, "999", call=lambda: self.gather(params, np.array([999]), request_compression_algorithm="gzip",
                                                          response_compression_algorithm="gzip"))

    def test_many_concurrent_requests(self):
        params = values(np.float32, (200, 50), self.rng)
        waiting = []
        for k in range(60):
            indices = self.rng.integers(0, 200, k * 10)
            waiting.append((indices, self.client.async_infer(
                "gather", [self.input("params", params), self.input("indices", indices)], request_id=str(k))))
        for k, (indices, request) in enumerate(waiting):
            result = request.get_result(timeout=HANG_S)
            self.assertEqual(result.get_response()["id"], str(k))
            self.same(result.as_numpy("output"), params[indices])
        bad = self.client.async_infer("gather", [self.input("params", params), self.input("indices", np.array([200]))])
        self.refused(400, "200", call=lambda: bad.get_result(timeout=HANG_S))

    def test_a_large_tensor_is_returned_unchanged(self):
        params = self.rng.integers(0, 1 << 30, (8192, 1024), dtype=np.int32)  # 32 MB
        self.same(self.gather(params, np.arange(8191, -1, -1)), params[::-1])

    # -- shared memory
    def region(self, size):
        """(handle, name) of a region that is registered until the test ends"""
        name, key = f"cases {time.monotonic_ns()}", f"/tensord_cases_{os.getpid()}_{time.monotonic_ns()}"
        handle = shm.create_shared_memory_region(name, key, size)
        self.addCleanup(shm.destroy_shared_memory_region, handle)
        self.client.register_system_shared_memory(name, key, size)
        self.addCleanup(self.client.unregister_system_shared_memory, name)
        return handle, name

    def in_region(self, tensor, array, name, offset=0):
        item = triton.InferInput(tensor, list(array.shape), np_to_triton_dtype(array.dtype))
        item.set_shared_memory(name, array.nbytes, offset)
        return item

    def test_inputs_and_outputs_in_shared_memory(self):
        params, indices = values(np.float32, (1000, 64), self.rng), self.rng.integers(0, 1000, 300)
        source, source_name = self.region(params.nbytes + indices.nbytes)
        target, target_name = self.region(300 * 64 * 4 + 512)
        shm.set_shared_memory_region(source, [params, indices])
        inputs = [self.in_region("params", params, source_name),
                  self.in_region("indices", indices, source_name, params.nbytes)]
        self.same(self.client.infer("gather", inputs).as_numpy("output"), params[indices])
        output = triton.InferRequestedOutput("output")
        output.set_shared_memory(target_name, 300 * 64 * 4, 512)
        result = self.client.infer("gather", inputs, outputs=[output])
        output = result.get_output("output")
        self.assertEqual((output["shape"], output["datatype"]), ([300, 64], "FP32"))
        self.same(np.array(shm.get_contents_as_numpy(target, np.float32, [300, 64], 512)), params[indices])
        status = self.client.get_system_shared_memory_status(source_name)
        self.assertEqual([s["byte_size"] for s in status], [params.nbytes + indices.nbytes])

    def test_strings_and_unusual_dtypes_in_shared_memory(self):
        text = strings([b"one", b"", b"\xff\x00three"])
        packed = serialize_byte_tensor(text).item()
        handle, name = self.region(4096)
        shm.set_shared_memory_region(handle, [serialize_byte_tensor(text)])
        item = triton.InferInput("params", [3], "BYTES")
        item.set_shared_memory(name, len(packed))
        self.same(self.client.infer("gather", [item, self.input("indices", np.array([2, 0]))]).as_numpy("output"), text[[2, 0]])
        for dtype in (np.bool_, np.float16, np.int8):
            params = values(dtype, (7, 3), self.rng)
            shm.set_shared_memory_region(handle, [params], offset=1)  # not aligned
            got = self.client.infer("gather", [self.in_region("params", params, name, 1),
                                               self.input("indices", np.array([6, 2]))]).as_numpy("output")
            self.same(got, params[[6, 2]])

    def test_einsum_reads_unaligned_shared_memory(self):
        matrix = self.rng.standard_normal((5, 5)).astype(np.float64)
        handle, name = self.region(4096)
        shm.set_shared_memory_region(handle, [matrix], offset=3)
        got = self.client.infer("einsum", [self.in_region("inputs.0", matrix, name, 3)], parameters={"equation": "ij->i"})
        np.testing.assert_allclose(got.as_numpy("output"), matrix.sum(1))


class Inline(Cases, unittest.TestCase):
    """small requests run on the I/O thread"""


class Queued(Cases, unittest.TestCase):
    """every request is queued"""
    options = ("--inline-limit-us=0",)
