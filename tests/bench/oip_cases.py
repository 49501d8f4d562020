"""Measures the Open Inference Protocol: bodies as tritonclient sends them, and tensors in shared memory."""
import json, os
from turns import Broken, DropServer, report, take_turns, upload_turn, wrk_turn
import daemon
from daemon import JSON, SAFETENSORS
from inputs import LOOKUP_IDS, TABLE_WIDTH, Request, send, check_binary, floats, ints, rows_of_range

ROWS, WIDTH = 65536, 256  # 64 MB of float32
HEADER = "Inference-Header-Content-Length"


def oip_request(inputs, parameters=(), outputs=None):
    """Returns a gather request with a binary reply, in tritonclient's format. inputs: {name: (datatype, shape, bytes or
    shared memory parameters)}"""
    listed, blobs = [], b""
    for name, (datatype, shape, data) in inputs.items():
        where = {"binary_data_size": len(data)} if isinstance(data, bytes) else data
        listed.append({"name": name, "shape": shape, "datatype": datatype, "parameters": where})
        blobs += data if isinstance(data, bytes) else b""
    document = {"inputs": listed}
    if outputs:
        document["outputs"] = outputs
    parameters = dict(parameters) if outputs else {"binary_data_output": True, **dict(parameters)}
    if parameters:
        document["parameters"] = parameters
    text = json.dumps(document, separators=(",", ":")).encode()
    return Request("/v2/models/gather/infer", text + blobs, more=((HEADER, str(len(text))),))


def check_oip(server, request, shape, raw):
    reply = send(server, request)
    length = int(reply.headers.get(HEADER) or 0)
    if reply.status != 200 or not length:
        raise Broken(f"wrong reply: {reply}")
    output, = json.loads(reply.body[:length])["outputs"]
    if (output["datatype"], output["shape"]) != ("FP32", shape) or reply.body[length:] != raw:
        raise Broken(f"wrong reply: {reply}")


class Target:
    """A server and its request, for comparing two requests in turns."""

    def __init__(self, server, request, path):
        self.server, self.process, self.request, self.path = server, server.process, request, path
        with open(path, "wb") as f:
            f.write(request.body)


class Shared:
    """Shared memory that is registered with a server as `name`."""

    def __init__(self, server, name, content):
        self.server, self.name, self.size = server, name, len(content)
        self.key = f"tensord-bench-{os.getpid()}-{name}"
        with open(self.path(), "xb") as f:
            f.write(content)

    def path(self):
        return "/dev/shm/" + self.key

    def where(self):
        return {"shared_memory_region": self.name, "shared_memory_byte_size": self.size}

    def read(self):
        with open(self.path(), "rb") as f:
            return f.read()

    def __enter__(self):
        try:
            body = json.dumps({"key": "/" + self.key, "byte_size": self.size}).encode()
            reply = send(self.server, Request(f"/v2/systemsharedmemory/region/{self.name}/register", body, JSON))
            if reply.status != 200:
                raise Broken(f"no shared memory: {reply}")
        except BaseException:
            os.unlink(self.path())
            raise
        return self

    def __exit__(self, *_):
        os.unlink(self.path())


class OipCases:
    def oip_lookup(self):
        ids, raw = ints(LOOKUP_IDS).tobytes(), rows_of_range(LOOKUP_IDS, TABLE_WIDTH)
        shape = [len(LOOKUP_IDS), TABLE_WIDTH]
        oip = oip_request({"indices": ("INT32", [len(LOOKUP_IDS)], ids)}, {"params.ref": "table"})
        native = Request("/v1/gather", daemon.safetensors({"indices": ("int32", [len(LOOKUP_IDS)], ids)},
                                                          {"params.ref": "table"}), SAFETENSORS)
        with self.tensord() as tensord:
            check_oip(tensord, oip, shape, raw)
            check_binary(tensord, native, shape, raw)
            pairs = take_turns(lambda t: wrk_turn(t.server, t.request, t.path, self.args.seconds),
                               Target(tensord, oip, self.file("oip")), Target(tensord, native, self.file("native")),
                               self.args.rounds)
        report("oip lookup", pairs, "req/s", 1, "at least 0.95")

    def large(self, indices):
        """Returns (params as bytes, indices as an input, expected rows)."""
        return (floats(range(ROWS * WIDTH)).tobytes(), ("INT32", [len(indices)], ints(indices).tobytes()),
                rows_of_range(indices, WIDTH))

    def oip_round_trip(self):
        """Sends 64 MB and receives 64 MB."""
        params, indices, raw = self.large([7919 * i % ROWS for i in range(ROWS)])
        request = oip_request({"params": ("FP32", [ROWS, WIDTH], params), "indices": indices})
        file, uploads = self.file("body"), 15 * self.args.seconds
        with self.tensord() as tensord, DropServer(self.tools, len(raw)) as drop:
            check_oip(tensord, request, [ROWS, WIDTH], raw)
            pairs = take_turns(lambda t: upload_turn(t.server, t.request, t.path, uploads, self.tools),
                               Target(tensord, request, file), Target(drop, request, file), self.args.rounds)
        report("oip round trip", pairs, "GB/s", (len(request.body) + len(raw)) / 1e9, "at least 0.7")

    def shared_memory(self):
        """Compares params in shared memory with params over the socket, then also with the output in shared memory."""
        params, indices, raw = self.large([7919 * i % ROWS for i in range(1000)])
        with self.tensord("--system-shared-memory") as tensord, Shared(tensord, "params", params) as region:
            sent = oip_request({"params": ("FP32", [ROWS, WIDTH], params), "indices": indices})
            shared = oip_request({"params": ("FP32", [ROWS, WIDTH], region.where()), "indices": indices})
            check_oip(tensord, sent, [1000, WIDTH], raw)
            check_oip(tensord, shared, [1000, WIDTH], raw)
            self.shared_turns("shm input", tensord, shared, sent, "at least 5")

            params, indices, raw = self.large([7919 * i % ROWS for i in range(ROWS)])
            with Shared(tensord, "output", bytes(len(raw))) as output:
                sent = oip_request({"params": ("FP32", [ROWS, WIDTH], params), "indices": indices})
                shared = oip_request({"params": ("FP32", [ROWS, WIDTH], region.where()), "indices": indices},
                                     outputs=[{"name": "output", "parameters": output.where()}])
                reply = send(tensord, shared)
                if reply.status != 200 or output.read() != raw:
                    raise Broken(f"wrong reply: {reply}")
                self.shared_turns("shm in and out", tensord, shared, sent, "")

    def shared_turns(self, name, tensord, shared, sent, target):
        def one_turn(t):
            return upload_turn(t.server, t.request, t.path, 15 * self.args.seconds * (1 if t.request is sent else 4),
                               self.tools)
        pairs = take_turns(one_turn, Target(tensord, shared, self.file("shared")),
                           Target(tensord, sent, self.file("sent")), self.args.rounds)
        report(name, pairs, "GB/s", 4 * ROWS * WIDTH / 1e9, target)
