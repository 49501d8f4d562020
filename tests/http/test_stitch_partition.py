"""dynamic_stitch, parallel_dynamic_stitch and dynamic_partition over HTTP, alone and combined."""
import os, random, threading
from daemon import *

TABLES = temporary_folder()
BINARY = {"Content-Type": SAFETENSORS}
STITCHES = ("dynamic_stitch", "parallel_dynamic_stitch")
# tf.dynamic_stitch in the TensorFlow API reference
MERGE = {"indices": [6, [4, 1], [[5, 2], [0, 3]]],
         "data": [[61, 62], [[41, 42], [11, 12]], [[[51, 52], [21, 22]], [[1, 2], [31, 32]]]]}
MERGED = [[1, 2], [11, 12], [21, 22], [31, 32], [41, 42], [51, 52], [61, 62]]
ROWS = 2_000_000


def setUpModule():
    with open(os.path.join(TABLES, "rows.npy"), "wb") as f:
        f.write(npy("float32", (3, 2), pack("float32", [1, 2, 3, 4, 5, 6])))
    with open(os.path.join(TABLES, "places.npy"), "wb") as f:
        f.write(npy("int32", (3,), pack("int32", [2, 0, 1])))
    with open(os.path.join(TABLES, "many.npy"), "wb") as f:  # many values, so that reading them takes time
        f.write(npy("int32", (ROWS,), b""))
        f.truncate(f.tell() + 4 * ROWS)
    with open(os.path.join(TABLES, "wide.npy"), "wb") as f:
        f.write(npy("uint8", (ROWS,), b""))
        f.truncate(f.tell() + ROWS)


class StitchTest(HttpTest):
    def assertOutputs(self, reply, *tensors):
        """checks for {"outputs": [T, ...]} with exactly these (dtype, shape, data)"""
        self.assertStatus(reply, 200)
        self.assertEqual(list(reply.json()), ["outputs"])
        self.assertEqual([(t["dtype"], tuple(t["shape"]), t["data"]) for t in reply.json()["outputs"]], list(tensors))

    def assertBinaryOutputs(self, reply, *tensors):
        self.assertEqual((reply.status, reply.type), (200, SAFETENSORS), str(reply))
        got, _ = read_safetensors(reply.body)
        self.assertEqual(sorted(got, key=lambda name: int(name.split(".")[1])), [f"outputs.{i}" for i in range(len(tensors))])
        for i, (dtype, shape, raw) in enumerate(tensors):
            self.assertEqual(got[f"outputs.{i}"], (dtype, list(shape), raw), f"outputs.{i}")


class Stitch(StitchTest):
    def test_the_example_of_the_documentation(self):
        for op in STITCHES:
            self.assertOutput(self.post("/v1/" + op, MERGE), "int32", [7, 2], MERGED)

    def test_the_example_of_the_description_runs(self):
        for op in (*STITCHES, "dynamic_partition"):
            example = self.get("/v1/ops/" + op).json()["example"]
            self.assertEqual(example["endpoint"], "POST /v1/" + op)
            self.assertStatus(self.post("/v1/" + op, example["request"]), 200)

    def test_the_later_of_equal_indices_is_stored(self):
        reply = self.post("/v1/dynamic_stitch", {"indices": [[0, 1, 0], [1]], "data": [[1, 2, 3], [4]]})
        self.assertOutput(reply, "int32", [2], [3, 4])

    def test_rows_without_an_index_are_zero(self):
        reply = self.post("/v1/dynamic_stitch", {"indices": [[3]], "data": [[[1.5, 2.5]]]})
        self.assertOutput(reply, "float32", [4, 2], [[0, 0], [0, 0], [0, 0], [1.5, 2.5]])
        reply = self.post("/v1/dynamic_stitch", {"indices": [[2, 0]], "data": [["b", "a"]]})
        self.assertOutput(reply, "string", [3], ["a", "", "b"])

    def test_no_index_gives_no_rows(self):
        empty = {"dtype": "float32", "shape": [0, 3], "data": []}
        self.assertOutput(self.post("/v1/dynamic_stitch", {"indices": [[]], "data": [empty]}), "float32", [0, 3], [])

    def test_lists_are_numbered_in_binary(self):
        body = safetensors({"indices.0": ("int32", (2,), pack("int32", [2, 0])), "indices.1": ("int32", (), pack("int32", [1])),
                            "data.0": ("int16", (2, 2), pack("int16", [5, 6, 1, 2])), "data.1": ("int16", (2,), pack("int16", [3, 4]))})
        for op in STITCHES:
            self.assertBinary(self.post("/v1/" + op, body, BINARY), "int16", (3, 2), pack("int16", [1, 2, 3, 4, 5, 6]))

    def test_a_negative_index_is_reported_with_its_position(self):
        body = {"indices": [[0, 3], [[1, -2]]], "data": [[1, 2], [[3, 4]]]}
        for op in STITCHES:
            problem = self.assertProblem(self.post("/v1/" + op, body), 422, "INDEX_OUT_OF_BOUNDS", op=op, input="indices[1]",
                                         position=[0, 1], index=-2)
            self.assertNotIn("bound", problem)

    def test_invalid_lists_are_reported(self):
        for body, code in (({"indices": [], "data": []}, "INVALID_ARGUMENT"),
                           ({"indices": [[0]], "data": [[1], [2]]}, "INVALID_ARGUMENT"),
                           ({"indices": [[0], [1]], "data": [{"dtype": "int32", "data": [1]},
                                                             {"dtype": "float32", "data": [2.5]}]}, "INVALID_ARGUMENT"),
                           ({"indices": [[0], [1]], "data": [[[1, 2]], [[1, 2, 3]]]}, "SHAPE_MISMATCH"),
                           ({"indices": [[0, 1]], "data": [[1]]}, "SHAPE_MISMATCH"),
                           ({"indices": [[0.5]], "data": [[1]]}, "UNSUPPORTED_DTYPE")):
            with self.subTest(body=body):
                self.assertProblem(self.post("/v1/dynamic_stitch", body), 422, code, op="dynamic_stitch")

    def test_an_output_above_the_limit_is_refused(self):
        for index in (2**31 - 1, 1 << 40):
            reply = self.post("/v1/dynamic_stitch", {"indices": [{"dtype": "int64" if index > 2**31 else "int32", "data": [index]}],
                                                      "data": [[[1.5] * 8]]})
            self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="output_bytes", needed=32 * (index + 1))


class Partition(StitchTest):
    def test_rows_go_to_their_partition_in_order(self):
        reply = self.post("/v1/dynamic_partition", {"data": [10, 20, 30, 40, 50], "partitions": [0, 0, 1, 1, 0], "num_partitions": 2})
        self.assertOutputs(reply, ("int32", (3,), [10, 20, 50]), ("int32", (2,), [30, 40]))

    def test_partitions_may_be_empty(self):
        reply = self.post("/v1/dynamic_partition", {"data": [[1, 2], [3, 4]], "partitions": [2, 2], "num_partitions": 4})
        self.assertOutputs(reply, ("int32", (0, 2), []), ("int32", (0, 2), []), ("int32", (2, 2), [[1, 2], [3, 4]]), ("int32", (0, 2), []))

    def test_a_scalar_partition_receives_everything(self):
        reply = self.post("/v1/dynamic_partition", {"data": [1, 2], "partitions": 1, "num_partitions": 2})
        self.assertOutputs(reply, ("int32", (0, 2), []), ("int32", (1, 2), [[1, 2]]))

    def test_strings_and_other_layouts(self):
        body = {"data": ["a", "b", "é"], "partitions": [1, 0, 1], "num_partitions": 2}
        self.assertOutputs(self.post("/v1/dynamic_partition", body), ("string", (1,), ["b"]), ("string", (2,), ["a", "é"]))
        reply = self.post("/v1/dynamic_partition", {**body, "response": "base64"})
        self.assertEqual(base64.b64decode(reply.json()["outputs"][1]["base64"]), raw_strings(["a".encode(), "é".encode()]))

    def test_outputs_are_numbered_in_binary(self):
        body = safetensors({"data": ("int16", (3,), pack("int16", [1, 2, 3])), "partitions": ("int32", (3,), pack("int32", [1, 0, 1]))},
                           {"num_partitions": "2"})
        reply = self.post("/v1/dynamic_partition", body, BINARY)
        self.assertBinaryOutputs(reply, ("int16", (1,), pack("int16", [2])), ("int16", (2,), pack("int16", [1, 3])))
        body = safetensors({"data": ("int16", (0,), b""), "partitions": ("int32", (0,), b"")})
        reply = self.post("/v1/dynamic_partition?num_partitions=12", body, BINARY)
        self.assertBinaryOutputs(reply, *[("int16", (0,), b"")] * 12)

    def test_a_partition_out_of_range_is_reported_with_its_position(self):
        reply = self.post("/v1/dynamic_partition", {"data": [[1, 2, 3]], "partitions": [[1, -1, 3]], "num_partitions": 3})
        self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", op="dynamic_partition", input="partitions", position=[0, 1], index=-1, bound=3)

    def test_invalid_arguments_are_reported(self):
        for extra, code in (({}, "INVALID_ARGUMENT"), ({"num_partitions": 0}, "INVALID_ARGUMENT"), ({"num_partitions": -1}, "INVALID_ARGUMENT"),
                            ({"num_partitions": 2, "partitions": [0]}, "SHAPE_MISMATCH"),
                            ({"num_partitions": 2, "partitions": [0.5, 1.5]}, "UNSUPPORTED_DTYPE")):
            with self.subTest(extra=extra):
                body = {"data": [1, 2], "partitions": [0, 1], **extra}
                self.assertProblem(self.post("/v1/dynamic_partition", body), 422, code)
        for value in ("2", 2.0, None, [2], 2**63):
            reply = self.post("/v1/dynamic_partition", {"data": [1], "partitions": [0], "num_partitions": value})
            self.assertProblem(reply, 400, "MALFORMED_REQUEST", pointer="/num_partitions")

    def test_more_partitions_than_memory_allows_are_refused(self):
        for n in (10**9, 2**62, 2**63 - 1):
            reply = self.post("/v1/dynamic_partition", {"data": [1], "partitions": [0], "num_partitions": n})
            self.assertProblem(reply, 422, "RESOURCE_LIMIT", attribute="num_partitions", resource="outputs", needed=n, limit=16384)
        self.assertServes()


class Description(StitchTest):
    def test_lists_are_distinguished_from_single_tensors(self):
        for op, lists, outputs in (("dynamic_stitch", {"indices": True, "data": True}, "output"),
                                   ("parallel_dynamic_stitch", {"indices": True, "data": True}, "output"),
                                   ("dynamic_partition", {"data": False, "partitions": False}, "outputs"),
                                   ("einsum", {"inputs": True}, "output")):
            description = self.get("/v1/ops/" + op).json()
            self.assertEqual({i["name"]: i["list"] for i in description["inputs"]}, lists)
            self.assertEqual(description["output"], outputs)
        attributes = self.get("/v1/ops/dynamic_partition").json()["attributes"]
        self.assertEqual([(a["name"], a["required"]) for a in attributes], [("num_partitions", True)])

    def test_all_of_them_are_listed(self):
        names = [op["name"] for op in self.get("/v1/ops").json()["ops"]]
        for name in ("gather", "batch_gather", "gather_nd", *STITCHES, "dynamic_partition", "einsum"):
            self.assertIn(name, names)


class Chain(StitchTest):
    """the example of tf.dynamic_stitch in the TensorFlow API reference: changes some elements and merges all"""
    X = [0.1, -1., 5.2, 4.3, -1., 7.4]
    WANT = [1.1, -1., 6.2, 5.3, -1., 8.4]

    def test_partition_add_stitch_in_json(self):
        condition = [int(x != -1.) for x in self.X]
        partitioned = self.post("/v1/dynamic_partition", {"data": self.X, "partitions": condition, "num_partitions": 2}).json()["outputs"]
        self.assertEqual([t["shape"] for t in partitioned], [[2], [4]])
        partitioned[1]["data"] = [x + 1.0 for x in partitioned[1]["data"]]
        places = self.post("/v1/dynamic_partition", {"data": list(range(6)), "partitions": condition, "num_partitions": 2}).json()["outputs"]
        self.assertEqual([t["data"] for t in places], [[1, 4], [0, 2, 3, 5]])
        for op in STITCHES:
            reply = self.post("/v1/" + op, {"indices": places, "data": partitioned})  # tensors as received
            output = reply.json()["output"]
            self.assertEqual((output["dtype"], output["shape"]), ("float32", [6]))
            for got, want in zip(output["data"], self.WANT):
                self.assertAlmostEqual(got, want, places=6)

    def test_partition_add_stitch_in_binary(self):
        condition = ("int32", (6,), pack("int32", [int(x != -1.) for x in self.X]))
        with Client(self.daemon) as client:
            def partition(dtype, raw):
                body = safetensors({"data": (dtype, (6,), raw), "partitions": condition}, {"num_partitions": "2"})
                return read_safetensors(client.post("/v1/dynamic_partition", body, BINARY).body)[0]
            values, places = partition("float32", pack("float32", self.X)), partition("int32", pack("int32", range(6)))
            dtype, shape, raw = values["outputs.1"]
            values["outputs.1"] = (dtype, shape, pack(dtype, [x + 1.0 for x in struct.unpack(f"<{shape[0]}f", raw)]))
            tensors = {f"{name}.{i}": part[f"outputs.{i}"] for name, part in (("data", values), ("indices", places)) for i in range(2)}
            reply = client.post("/v1/dynamic_stitch", safetensors(tensors), BINARY)
        output, _ = read_safetensors(reply.body)
        self.assertEqual(output["output"][:2], ("float32", [6]))
        for got, want in zip(struct.unpack("<6f", output["output"][2]), self.WANT):
            self.assertAlmostEqual(got, want, places=6)

    def test_stitching_the_partitions_restores_the_input(self):
        rng = random.Random(SEED)
        with Client(self.daemon) as client:
            for _ in range(20):
                n, parts, width = rng.randrange(0, 3000), rng.randrange(1, 40), rng.choice((1, 3, 8, 100))
                raw = rng.randbytes(n * width)
                partitions = ("int32", (n,), pack("int32", [rng.randrange(parts) for _ in range(n)]))
                query = f"/v1/dynamic_partition?num_partitions={parts}"
                rows = client.post(query, safetensors({"data": ("uint8", (n, width), raw), "partitions": partitions}), BINARY)
                order = client.post(query, safetensors({"data": ("int32", (n,), pack("int32", range(n))), "partitions": partitions}), BINARY)
                rows, order = read_safetensors(rows.body)[0], read_safetensors(order.body)[0]
                tensors = {f"data.{i}": rows[f"outputs.{i}"] for i in range(parts)}
                tensors.update({f"indices.{i}": order[f"outputs.{i}"] for i in range(parts)})
                for op in STITCHES:
                    self.assertBinary(client.post("/v1/" + op, safetensors(tensors), BINARY), "uint8", (n, width), raw)


class Refs(StitchTest):
    options = ("--data-dir", TABLES)

    def test_resident_tensors_are_data_and_indices(self):
        for op in STITCHES:
            reply = self.post("/v1/" + op, {"indices": [{"ref": "places"}, [3]], "data": [{"ref": "rows"}, [[7.5, 8.0]]]})
            self.assertOutput(reply, "float32", [4, 2], [[3, 4], [5, 6], [1, 2], [7.5, 8]])
        body = safetensors({"indices.0": ("int32", (3,), pack("int32", [1, 2, 0]))}, {"data.0.ref": "rows"})
        self.assertBinary(self.post("/v1/dynamic_stitch", body, BINARY), "float32", (3, 2), pack("float32", [5, 6, 1, 2, 3, 4]))
        reply = self.post("/v1/dynamic_partition", {"data": {"ref": "rows"}, "partitions": [1, 0, 1], "num_partitions": 2})
        self.assertOutputs(reply, ("float32", (1, 2), [[3, 4]]), ("float32", (2, 2), [[1, 2], [5, 6]]))

    def test_a_small_request_over_many_values_is_queued(self):
        for path, body in (("/v1/dynamic_stitch?timing=1", {"indices": [{"ref": "many"}], "data": [{"ref": "wide"}]}),
                           ("/v1/dynamic_partition?timing=1", {"data": {"ref": "wide"}, "partitions": {"ref": "many"}, "num_partitions": 1,
                                                               "response": "base64"})):
            reply = self.post(path, body)
            self.assertStatus(reply, 200)
            times = dict(part.strip().split(";dur=") for part in reply.headers["Server-Timing"].split(","))
            self.assertGreater(float(times["queue"]), 0, reply.headers["Server-Timing"])


class SameBytes(StitchTest):
    def test_at_every_number_of_workers(self):
        rng = random.Random(SEED)
        n, parts = 300_000, 64
        raw = rng.randbytes(n * 16)
        partitions = [rng.randrange(parts) for _ in range(n)]
        want = [bytearray() for _ in range(parts)]
        for i, p in enumerate(partitions):
            want[p] += raw[16 * i:16 * i + 16]
        body = safetensors({"data": ("uint8", (n, 16), raw), "partitions": ("int32", (n,), pack("int32", partitions))}, {"num_partitions": str(parts)})
        targets = [rng.randrange(n // 2) for _ in range(n)]  # each index occurs about twice; the last one is stored
        last = [bytes(16)] * (max(targets) + 1)
        for i, t in enumerate(targets):
            last[t] = raw[16 * i:16 * i + 16]
        half = n // 2
        stitch = safetensors({"indices.0": ("int32", (half,), pack("int32", targets[:half])), "indices.1": ("int32", (half,), pack("int32", targets[half:])),
                              "data.0": ("uint8", (half, 16), raw[:16 * half]), "data.1": ("uint8", (half, 16), raw[16 * half:])})
        for workers in ("1", "2", "4"):
            with Client(shared("--workers", workers)) as client:
                reply = client.post("/v1/dynamic_partition", body, BINARY)
                self.assertBinaryOutputs(reply, *[("uint8", (len(w) // 16, 16), bytes(w)) for w in want])
                self.assertBinary(client.post("/v1/dynamic_stitch", stitch, BINARY), "uint8", (len(last), 16), b"".join(last))

    def test_with_many_concurrent_clients(self):
        daemon, failures = shared("--workers", "4"), []

        def work(i):
            rng = random.Random(f"{SEED} {i}")
            try:
                with Client(daemon, timeout=3 * WAIT_LIMIT) as client:
                    for _ in range(30):
                        n = rng.choice((5, 500, 50000))
                        order = rng.sample(range(n), n)
                        raw = pack("int32", order)
                        body = safetensors({"indices.0": ("int32", (n,), raw), "data.0": ("int32", (n,), raw)})
                        op = rng.choice(STITCHES)
                        self.assertBinary(client.post("/v1/" + op, body, BINARY), "int32", (n,), pack("int32", range(n)))
            except Exception as e:  # raised again below
                failures.append(e)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
