"""The benchmarks' requests and their expected replies."""
import array, collections, json, os, random
from turns import Broken  # must come first, because it makes daemon importable
import daemon
from daemon import JSON, SAFETENSORS, Client


class Request(collections.namedtuple("Request", "path body type accept more", defaults=(None, None, ()))):
    """type and accept can be None; more: other headers, as pairs"""

    def headers(self):
        own = [("Content-Type", self.type), ("Accept", self.accept)]
        return {name: value for name, value in [*own, *self.more] if value is not None}


def floats(values):
    return array.array("f", values)


def ints(values):
    return array.array("i", values)


SMALL_PARAMS = [[round(random.Random(100 * i + j).uniform(1, 9.999), 3) for j in range(8)] for i in range(16)]
SMALL_INDICES = [3, 0, 15, 7]
SMALL_JSON = Request("/v1/gather", json.dumps({"params": SMALL_PARAMS, "indices": SMALL_INDICES},
                                              separators=(",", ":")).encode(), JSON)
SMALL_BINARY = Request("/v1/gather", daemon.safetensors({
    "params": ("float32", [16, 8], floats(v for r in SMALL_PARAMS for v in r).tobytes()),
    "indices": ("int32", [4], ints(SMALL_INDICES).tobytes())}), SAFETENSORS)

TABLE_ROWS, TABLE_WIDTH = 100_000, 64
LOOKUP_IDS = [random.Random(1).randrange(TABLE_ROWS) for _ in range(32)]
LOOKUP = Request("/v1/gather", json.dumps({"params": {"ref": "table"}, "indices": LOOKUP_IDS}).encode(), JSON,
                 SAFETENSORS)


def write_table(folder):
    """Writes table.npy. Row i holds i * 64, i * 64 + 1, ..., all exact in float32."""
    with open(os.path.join(folder, "table.npy"), "wb") as f:
        f.write(daemon.npy("float32", [TABLE_ROWS, TABLE_WIDTH], floats(range(TABLE_ROWS * TABLE_WIDTH)).tobytes()))


def rows_of_range(indices, width):
    return floats(v for i in indices for v in range(i * width, (i + 1) * width)).tobytes()


def large_binary(rows, width, n_indices):
    """Returns (request, bytes of its output). At most 2^24 elements, so all values are exact."""
    indices = [7919 * i % rows for i in range(n_indices)]
    body = daemon.safetensors({"params": ("float32", [rows, width], floats(range(rows * width)).tobytes()),
                               "indices": ("int32", [n_indices], ints(indices).tobytes())})
    return Request("/v1/gather", body, SAFETENSORS), rows_of_range(indices, width)


def post(client, request):
    return client.post(request.path, request.body, request.headers())


def send(server, request):
    with Client(server) as client:
        return post(client, request)


def check_json(server, request, rows):
    reply = send(server, request)
    wanted = {"output": {"dtype": "float32", "shape": [len(rows), len(rows[0])], "data": rows}}
    if reply.status != 200 or reply.json() != wanted:
        raise Broken(f"wrong reply: {reply}")


def check_binary(server, request, shape, raw, **others):
    """others: the other outputs, {name: (dtype, shape, bytes)}"""
    reply = send(server, request)
    if reply.status != 200 or daemon.read_safetensors(reply.body)[0] != {"output": ("float32", shape, raw), **others}:
        raise Broken(f"wrong reply: {reply}")
