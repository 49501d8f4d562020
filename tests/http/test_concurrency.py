"""Replies do not depend on the number of workers and clients."""
import random
from daemon import *

BINARY = {"Content-Type": SAFETENSORS}
WORKERS = ("1", "2", "4", "8")


class FirstBadIndex(HttpTest):
    """parallel checks report the first bad index in row-major order"""
    N = 1_000_000

    def test_of_a_large_gather(self):
        rng = random.Random(SEED)
        for workers in WORKERS:
            daemon = shared("--workers", workers)
            with Client(daemon) as client:
                for _ in range(3):
                    indices = bytearray(4 * self.N)
                    bad = sorted(rng.sample(range(self.N), rng.choice((1, 2, 100))))
                    values = {}
                    for at in bad:
                        values[at] = rng.choice((-1, 5, 1 << 30, -(1 << 31)))
                        struct.pack_into("<i", indices, 4 * at, values[at])
                    body = safetensors({"params": ("uint8", (5, 1), bytes(5)), "indices": ("int32", (1000, self.N // 1000), bytes(indices))})
                    reply = client.post("/v1/gather", body, BINARY)
                    first = bad[0]
                    self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[first // 1000, first % 1000], index=values[first], bound=5,
                                       bad_count=len(bad))

    def test_of_a_large_gather_nd(self):
        rng = random.Random(SEED + 1)
        n = self.N // 2
        for workers in WORKERS:
            with Client(shared("--workers", workers)) as client:
                indices = bytearray(8 * n)
                bad = sorted(rng.sample(range(2 * n), 20))
                for at in bad:
                    struct.pack_into("<i", indices, 4 * at, 7)
                body = safetensors({"params": ("uint8", (3, 4), bytes(12)), "indices": ("int32", (n, 2), bytes(indices))})
                reply = client.post("/v1/gather_nd", body, BINARY)
                self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[bad[0] // 2, bad[0] % 2], index=7, bound=3 + bad[0] % 2)

    def test_of_a_batched_gather(self):
        rng = random.Random(SEED + 2)
        for workers in WORKERS:
            with Client(shared("--workers", workers)) as client:
                indices = bytearray(8 * 200 * 2000)
                bad = sorted(rng.sample(range(200 * 2000), 10))
                for at in bad:
                    struct.pack_into("<q", indices, 8 * at, -3)
                body = safetensors({"params": ("float32", (200, 6), bytes(4 * 1200)), "indices": ("int64", (200, 2000), bytes(indices))})
                reply = client.post("/v1/batch_gather", body, BINARY)
                self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[bad[0] // 2000, bad[0] % 2000], index=-3, bound=6)


class ConcurrentTest(HttpTest):
    def clients(self, daemon, work, n=8):
        """work(client, i) in n threads"""
        def one(i):
            with Client(daemon, timeout=3 * WAIT_LIMIT) as client:
                work(client, i)
        in_threads(n, one)


class SameBytes(ConcurrentTest):
    """eight clients with different large gathers, compared byte for byte"""

    def test_of_rows_of_many_widths(self):
        def work(client, i):
            rng = random.Random(f"{SEED} {i}")
            for width in (1, 2, 3, 4, 8, 12, 16, 100, 512, 4096):
                rows = max(8, 200_000 // width)
                raw = rng.randbytes(rows * width)
                order = [rng.randrange(rows) for _ in range(max(8, 400_000 // width))][:60_000]
                body = safetensors({"params": ("uint8", (rows, width), raw), "indices": ("int32", (len(order),), pack("int32", order))})
                reply = client.post("/v1/gather", body, BINARY)
                self.assertBinary(reply, "uint8", (len(order), width), b"".join([raw[k * width:(k + 1) * width] for k in order]))
        for workers in WORKERS:
            self.clients(shared("--workers", workers), work, 8 if workers == "2" else 2)

    def test_of_columns_and_batches(self):
        def work(client, i):
            rng = random.Random(f"{SEED} columns {i}")
            raw = rng.randbytes(64 * 50 * 8)
            order = [rng.randrange(50) for _ in range(300)]
            body = safetensors({"params": ("float64", (64, 50), raw), "indices": ("int16", (300,), pack("int16", order))})
            expected = b"".join([raw[(r * 50 + k) * 8:(r * 50 + k + 1) * 8] for r in range(64) for k in order])
            self.assertBinary(client.post("/v1/gather?axis=1", body, BINARY), "float64", (64, 300), expected)
            order = [rng.randrange(50) for _ in range(64 * 30)]
            body = safetensors({"params": ("float64", (64, 50), raw), "indices": ("int64", (64, 30), pack("int64", order))})
            expected = b"".join([raw[(r * 50 + k) * 8:(r * 50 + k + 1) * 8] for r in range(64) for k in order[r * 30:(r + 1) * 30]])
            self.assertBinary(client.post("/v1/batch_gather", body, BINARY), "float64", (64, 30), expected)
        for workers in WORKERS:
            self.clients(shared("--workers", workers, "--inline-limit-us", "0"), work)

    def test_of_strings(self):
        def work(client, i):
            rng = random.Random(f"{SEED} strings {i}")
            words = ["".join(chr(rng.choice((97, 233, 8364, 128512))) for _ in range(rng.randrange(30))) for _ in range(500)]
            order = [rng.randrange(500) for _ in range(5000)]
            reply = client.post("/v1/gather", {"params": words, "indices": order})
            self.assertOutput(reply, "string", [5000], [words[k] for k in order])
        self.clients(shared("--workers", "4", "--inline-limit-us", "0"), work)

    def test_of_small_requests_mixed_with_large_ones_and_refusals(self):
        def work(client, i):
            rng = random.Random(f"{SEED} mixed {i}")
            raw = rng.randbytes(100 * 1000)
            for k in range(60):
                kind = rng.randrange(3)
                if kind == 0:
                    self.assertOutput(client.post("/v1/gather", {"params": [i, k], "indices": [1, 0]}), "int32", [2], [k, i])
                elif kind == 1:
                    order = [rng.randrange(100) for _ in range(200)]
                    body = safetensors({"params": ("uint8", (100, 1000), raw), "indices": ("int32", (200,), pack("int32", order))})
                    reply = client.post("/v1/gather", body, BINARY)
                    self.assertBinary(reply, "uint8", (200, 1000), b"".join([raw[r * 1000:(r + 1) * 1000] for r in order]))
                else:
                    reply = client.post("/v1/gather", {"params": [1, 2, 3], "indices": [0, k + 3]})
                    self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[1], index=k + 3, bound=3)
        self.clients(shared("--workers", "2"), work)


class OneVersion(ConcurrentTest):
    """a table is put again and again, each time with its keys in another order: a request finds rows and keys of one version"""
    KEYS = 300

    def put_version(self, client, name, version):
        """the row of key k is [k, version]; then the same keys once more, which is a version of its own"""
        keys = random.Random(version).sample(range(self.KEYS), self.KEYS)
        rows = pack("int64", [value for key in keys for value in (key, version)])
        body = safetensors({"t": ("int64", (self.KEYS, 2), rows), "keys": ("int64", (self.KEYS,), pack("int64", keys))})
        self.assertIn(client.request("PUT", f"/v1/tensors/{name}", body, BINARY).status, (200, 201))
        self.assertStatus(client.request("PUT", f"/v1/tensors/{name}/keys", json.dumps(keys).encode()), 200)

    def test_of_rows_by_keys(self):
        def work(client, i):
            rng = random.Random(f"{SEED} keys {i}")
            for k in range(40):
                if i == 0:
                    self.put_version(client, name, k)
                    continue
                keys = [rng.randrange(self.KEYS) for _ in range(100)]
                if k % 2:
                    reply = client.post("/v1/gather", {"params": {"ref": name}, "indices": {"keys": keys}})
                else:
                    reply = client.post("/v1/lookup", {"params": {"ref": name}, "queries": keys})
                self.assertStatus(reply, 200)
                document = reply.json()
                rows = document.get("outputs", document)["output"]["data"]
                self.assertEqual([row[0] for row in rows], keys)
                self.assertEqual(len({row[1] for row in rows}), 1)
        for options in ((), ("--workers", "4", "--inline-limit-us", "0")):
            daemon, name = shared(*options), self.id().rpartition(".")[2]
            with Client(daemon) as client:
                self.put_version(client, name, 0)
            self.clients(daemon, work)
