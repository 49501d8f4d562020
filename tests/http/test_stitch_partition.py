"""What HTTP and the store add to dynamic_stitch, parallel_dynamic_stitch and dynamic_partition. Results and refusals are tested in
process: tests/conformance/test_cases.c, tests/kernels/test_dynamic_stitch.c and test_dynamic_partition.c."""
import os, random
from daemon import *

TABLES = temporary_folder()
BINARY = {"Content-Type": SAFETENSORS}
STITCHES = ("dynamic_stitch", "parallel_dynamic_stitch")
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


class Limits(StitchTest):
    def test_an_output_above_the_limit_is_refused(self):
        for index in (2**31 - 1, 1 << 40):
            reply = self.post("/v1/dynamic_stitch", {"indices": [{"dtype": "int64" if index > 2**31 else "int32", "data": [index]}],
                                                      "data": [[[1.5] * 8]]})
            self.assertProblem(reply, 422, "RESOURCE_LIMIT", resource="output_bytes", needed=32 * (index + 1))


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
        daemon = shared("--workers", "4")

        def work(i):
            rng = random.Random(f"{SEED} {i}")
            with Client(daemon, timeout=3 * WAIT_LIMIT) as client:
                for _ in range(30):
                    n = rng.choice((5, 500, 50000))
                    order = rng.sample(range(n), n)
                    raw = pack("int32", order)
                    body = safetensors({"indices.0": ("int32", (n,), raw), "data.0": ("int32", (n,), raw)})
                    op = rng.choice(STITCHES)
                    self.assertBinary(client.post("/v1/" + op, body, BINARY), "int32", (n,), pack("int32", range(n)))
        in_threads(8, work)
