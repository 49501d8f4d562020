"""A client of the Open Inference Protocol in plain Python, for the tests of /v2."""
import os, re, struct
from daemon import *

SIZES_OIP = {"BOOL": 1, "INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "FP16": 2, "BF16": 2, "INT32": 4, "UINT32": 4,
             "FP32": 4, "INT64": 8, "UINT64": 8, "FP64": 8}
OCTETS = "application/octet-stream"
HEADER = "Inference-Header-Content-Length"
with open(os.path.join(HERE, "..", "..", "kernels", "ops.def"), encoding="ascii") as ops_def:
    OPS = re.findall(r"^TD_OP\(\w+, (\w+)\)", ops_def.read(), re.M)  # every op is a model


def oip_input(name, datatype, shape, data, **parameters):
    """an input: bytes are sent after the JSON text, other values within it; None: no data"""
    item = {"name": name, "datatype": datatype, "shape": list(shape)}
    if parameters:
        item["parameters"] = dict(parameters)
    if isinstance(data, bytes):
        item.setdefault("parameters", {})["binary_data_size"] = len(data)
        item["blob"] = data
    elif data is not None:
        item["data"] = data
    return item


def wanted(name, **parameters):
    return {"name": name, "parameters": parameters} if parameters else {"name": name}


def envelope(inputs, outputs=None, parameters=None, **members):
    """(body, headers) of an inference request"""
    blobs = [item["blob"] for item in inputs if "blob" in item]
    document = {**members, "inputs": [{k: v for k, v in item.items() if k != "blob"} for item in inputs]}
    if outputs is not None:
        document["outputs"] = outputs
    if parameters is not None:
        document["parameters"] = parameters
    text = json.dumps(document).encode()
    return text + b"".join(blobs), ({HEADER: str(len(text))} if blobs else {})


def read_reply(reply):
    """(document, {name: (datatype, shape, data)}); data is bytes if it was sent in binary"""
    length = reply.headers.get(HEADER)
    text, rest = (reply.body, b"") if length is None else (reply.body[:int(length)], reply.body[int(length):])
    document = json.loads(text.decode("utf-8"))
    out = {}
    for item in document["outputs"]:
        size = (item.get("parameters") or {}).get("binary_data_size")
        if size is None:
            data = item.get("data")
        else:
            assert "data" not in item and len(rest) >= size, f"{item}: {len(rest)} bytes are left"
            data, rest = rest[:size], rest[size:]
        out[item["name"]] = (item["datatype"], item["shape"], data)
    assert not rest, f"{len(rest)} bytes belong to no output"
    return document, out


class OipTest(HttpTest):
    PARAMS = [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]

    def gather_inputs(self, params=None, indices=(1, 0), binary=False):
        params = params or self.PARAMS
        indices = list(indices)
        return [oip_input("params", "FP32", [3, 2], pack("float32", params) if binary else params),
                oip_input("indices", "INT64", [len(indices)], pack("int64", indices) if binary else indices)]

    def infer(self, model, inputs, outputs=None, parameters=None, headers=None, path="/infer", **members):
        body, own = envelope(inputs, outputs, parameters, **members)
        return self.request("POST", f"/v2/models/{model}{path}", body, {**own, **(headers or {})})

    def outputs(self, reply):
        self.assertEqual(reply.status, 200, str(reply))
        return read_reply(reply)[1]

    def assertGathered(self, reply, data=(3.5, 4.5, 1.5, 2.5)):
        """checks the reply to gather_inputs, in JSON or binary"""
        datatype, shape, got = self.outputs(reply)["output"]
        self.assertEqual((datatype, shape), ("FP32", [len(data) // 2, 2]))
        self.assertEqual(list(struct.unpack(f"<{len(data)}f", got)) if isinstance(got, bytes) else got, list(data))

    def assertError(self, reply, status, *words, code=None):
        """checks for an error of the protocol whose message contains all words, and returns the document"""
        self.assertEqual(reply.status, status, str(reply))
        self.assertEqual(reply.headers.get("Content-Type"), JSON)
        self.assertIsNone(reply.headers.get("Content-Encoding"))
        document = reply.json()
        self.assertIsInstance(document.get("error"), str, str(reply))
        self.assertGreater(len(document["error"]), 8)
        for word in words:
            self.assertIn(word.lower(), document["error"].lower())
        if code:
            self.assertEqual(document["code"], code, str(reply))
        return document
