"""Each limit at its value and one above it: the first is accepted, the second refused."""
import gzip
from daemon import *

MAX_BODY, QUOTA, FLOPS = 100000, 10000, 2000
DAY_MS = 86400000
BODY = b'{"params":[1,2],"indices":[1]}'
OP = {"params": [1, 2], "indices": [1]}


def zipped(size):
    return gzip.compress(BODY + b" " * (size - len(BODY)))


# what is limited, the limit, the request at n (method, path, body, headers), the status of a refusal
LIMITS = (
    ("operations of an einsum: a multiplication and an addition for each element", FLOPS // 2,
     lambda n: ("POST", "/v1/einsum", {"equation": "i,i->", "inputs": [tensor("int8", (n,), bytes(n))] * 2}, {}), 422),
    ("operations of a search: two for each row, even if a row has no columns", FLOPS // 2,
     lambda n: ("POST", "/v1/search", {"params": tensor("float32", (n, 0), b""), "queries": tensor("float32", (0,), b""), "k": 1}, {}), 422),
    ("bytes of the resident tensors", QUOTA,
     lambda n: ("POST", "/v1/gather", {"params": tensor("uint8", (1,), b"x"), "indices": tensor("int32", (n,), bytes(4 * n)),
                                       "store": "large"}, {}), 422),
    ("bytes of a body after its expansion", MAX_BODY,
     lambda n: ("POST", "/v1/gather", zipped(n), {"Content-Encoding": "gzip"}), 413),
    ("a deadline in milliseconds", DAY_MS, lambda n: ("POST", "/v1/gather", OP, {"X-Request-Timeout-Ms": str(n)}), 400),
    ("characters of the name of a tensor", 128, lambda n: ("PUT", "/v1/tensors/" + "n" * n, [1], {}), 422),
    ("characters of the name of a stored output", 128, lambda n: ("POST", "/v1/gather", {**OP, "store": "s" * n}, {}), 422),
    ("dimensions of a tensor", 16, lambda n: ("POST", "/v1/cast", {"x": nested(n), "dtype": "int8"}, {}), 422),
    ("tensors of a list", 16384,
     lambda n: ("POST", "/v1/concat", {"inputs": [[0]] * n}, {}), 422),
    ("inputs of an einsum", 16, lambda n: ("POST", "/v1/einsum", {"equation": "," * (n - 1) + "->", "inputs": [1] * n}, {}), 422),
    ("outputs of a partition", 16384,
     lambda n: ("POST", "/v1/dynamic_partition", {"data": [1], "partitions": [0], "num_partitions": n}, {"Accept": SAFETENSORS}), 422),
    ("nesting of JSON", 100, lambda n: ("POST", "/v2/models/gather/infer", deep(n), {}), 400),
)


def nested(rank):
    value = 1
    for _ in range(rank):
        value = [value]
    return value


def deep(depth):
    """a request with a member that the protocol ignores, so many lists and objects deep"""
    inputs = [{"name": name, "datatype": "INT32", "shape": [1], "data": [0]} for name in ("params", "indices")]
    return {"inputs": inputs, "more": nested(depth - 1)}


class Limits(HttpTest):
    options = ("--max-body", str(MAX_BODY), "--tensor-quota", str(QUOTA), "--max-flops", str(FLOPS), "--workers", "2")

    def test_each_at_its_value_and_above(self):
        for what, limit, request, refused in LIMITS:
            with self.subTest(what):
                reply = self.request(*request(limit))
                self.assertIn(reply.status, (200, 201), str(reply))
                reply = self.request(*request(limit + 1))
                self.assertEqual(reply.status, refused, str(reply))
                for name in [t["name"] for t in self.get("/v1/tensors").json()["tensors"]]:
                    self.assertStatus(self.request("DELETE", "/v1/tensors/" + name), 204)

    def test_a_deadline_is_at_least_a_millisecond(self):
        reply = self.post("/v1/gather", OP, {"X-Request-Timeout-Ms": "0"})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST")

    def test_a_request_id_of_128_characters_is_echoed_and_a_longer_one_replaced(self):
        for length in (1, 128, 129):
            given = "i" * length
            self.assertEqual(self.get("/healthz", {"X-Request-Id": given}).headers["X-Request-Id"] == given, length <= 128)

    def test_after_a_refused_body_of_64_kib_the_connection_is_reused(self):
        for length, closes in ((65536, False), (65537, True)):
            with Raw(self.daemon) as raw:
                raw.send(http_request("POST", "/v1/unknown", b" " * length))
                reply = raw.reply()
                self.assertProblem(reply, 404, "UNKNOWN_OP")
                if closes:
                    self.assertEqual(raw.rest(), b"")
                else:
                    raw.send(http_request("POST", "/v1/gather", BODY))
                    self.assertOutput(raw.reply(), "int32", [1], [2])

    def test_a_body_of_a_path_without_one_is_dropped_up_to_the_limit_on_bodies(self):
        for length, answered in ((MAX_BODY, True), (MAX_BODY + 1, False)):
            with Raw(self.daemon) as raw:
                raw.send(http_request("GET", "/healthz", headers=[f"Content-Length: {length}"]) + b" " * length)
                self.assertEqual(raw.reply() is not None, answered)


class Regions(HttpTest):
    options = ("--system-shared-memory",)

    def register(self, name, key):
        return self.post(f"/v2/systemsharedmemory/region/{name}/register", {"key": "/" + key, "byte_size": 16}).status

    def test_a_key_has_up_to_255_bytes_and_a_name_up_to_1023(self):
        key = f"tensord-test-limits-{os.getpid()}-"
        key += "k" * (255 - len(key))
        path = "/dev/shm/" + key
        with open(path, "wb") as file:
            self.addCleanup(os.unlink, path)
            file.write(bytes(16))
        self.assertEqual(self.register("short", key), 200)
        self.assertEqual(self.register("other", key + "k"), 400)
        self.assertEqual(self.register("n" * 1023, key), 200)
        self.assertEqual(self.register("n" * 1024, key), 400)
