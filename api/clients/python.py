#!/usr/bin/env python3
"""Uses tensord from Python with only the standard library.

    api/clients/python.py [http://host:port]

The example stores a table, looks up rows in JSON and in binary, multiplies, updates, reads an error and deletes the table.
With NumPy, replace the two safetensors functions with safetensors.numpy.save and safetensors.numpy.load.
"""
import array, json, struct, sys, urllib.error, urllib.request

SERVER = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
SAFETENSORS = "application/vnd.safetensors"


class ServerError(Exception):
    """An error reply. `problem` is the problem document, with `code`, `detail` and other members."""

    def __init__(self, problem):
        super().__init__(problem["detail"])
        self.problem = problem


def send_request(method, path, body=None, content_type="application/json", accept="application/json"):
    """Sends a request. Returns the body of the reply: parsed if it is JSON, otherwise as bytes."""
    if content_type == "application/json" and body is not None:
        body = json.dumps(body).encode()
    headers = {"Content-Type": content_type, "Accept": accept}
    request = urllib.request.Request(SERVER + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            data = reply.read()
            return json.loads(data) if reply.headers.get_content_type() == "application/json" else data
    except urllib.error.HTTPError as e:
        raise ServerError(json.load(e)) from None


def to_safetensors(tensors, metadata=None):
    """Converts {name: (dtype, shape, array)} to a file: the length of the header, the header as JSON, the data of the tensors."""
    header, data = {"__metadata__": metadata or {}}, b""
    for name, (dtype, shape, values) in tensors.items():
        begin, data = len(data), data + values.tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def float32_of(file, name):
    """Returns the values of a float32 tensor in a safetensors file."""
    data_at = 8 + struct.unpack_from("<Q", file)[0]
    entry = json.loads(file[8:data_at])[name]
    assert entry["dtype"] == "F32"
    begin, end = entry["data_offsets"]
    return array.array("f", file[data_at + begin:data_at + end])


# Store a file with one tensor as the table "python-example". The tensor can have any name in the file.
table = array.array("f", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
about = send_request("PUT", "/v1/tensors/python-example", to_safetensors({"table": ("F32", [3, 2], table)}), SAFETENSORS)
print("table:", about["dtype"], about["shape"])

# Read rows 2 and 0. The request refers to the table and contains only the indices.
reply = send_request("POST", "/v1/gather", {"params": {"ref": "python-example"}, "indices": [2, 0]})
print("json:", reply["output"]["data"])

# Send the same request in binary. Tensors have the names of the op's inputs; references and attributes are metadata.
request = to_safetensors({"indices": ("I32", [2], array.array("i", [2, 0]))}, {"params.ref": "python-example"})
print("binary:", *float32_of(send_request("POST", "/v1/gather", request, SAFETENSORS, SAFETENSORS), "output"))

# Compute the dot product of every row with [1, 2].
reply = send_request("POST", "/v1/einsum", {"equation": "ij,j->i", "inputs": [{"ref": "python-example"}, [1.0, 2.0]]})
print("einsum:", reply["output"]["data"])

# Replace row 1 in place. Each index is a list of coordinates. With "mode": "add", scatter adds instead.
send_request("POST", "/v1/tensors/python-example/scatter", {"indices": [[1]], "updates": [[7.5, 8.5]]})
reply = send_request("POST", "/v1/gather", {"params": {"ref": "python-example"}, "indices": 1})
print("scatter:", reply["output"]["data"])

# Row 7 does not exist, so this request fails.
try:
    send_request("POST", "/v1/gather", {"params": {"ref": "python-example"}, "indices": [0, 7]})
except ServerError as e:
    p = e.problem
    print(f"error: {p['code']}: {p['input']}{p['position']} is {p['index']}, the bound {p['bound']}")

send_request("DELETE", "/v1/tensors/python-example")
print("deleted")
