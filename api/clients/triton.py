#!/usr/bin/env python3
"""Uses tensord from Python with tritonclient, the client library of the Open Inference Protocol.

    pip install 'tritonclient[http]' numpy
    api/clients/triton.py [host:port]

Every op is a model. The example looks up rows in JSON and in binary, multiplies and reads an error with /v2. The
protocol has no resident tensors, so the example stores, updates and deletes the table with /v1.
"""
import io, json, sys, urllib.request

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

SERVER = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8080").removeprefix("http://")
TABLE = f"http://{SERVER}/v1/tensors/triton-example"


def send_request(method, url, body=None, content_type="application/json"):
    """Sends a /v1 request and returns the body of the reply."""
    request = urllib.request.Request(url, body, {"Content-Type": content_type}, method=method)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.read()


def infer(client, op, parameters=None, binary=True, **arrays):
    """Runs an op and returns its output as an array. Each array is passed under the name of an input of the op."""
    inputs = []
    for name, array in arrays.items():
        tensor = triton.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, binary_data=binary)
        inputs.append(tensor)
    output = triton.InferRequestedOutput("output", binary_data=binary)
    return client.infer(op, inputs, outputs=[output], parameters=parameters).as_numpy("output")


# Store a file in the format of numpy.save as the table "triton-example".
file = io.BytesIO()
np.save(file, np.array([[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]], np.float32))
about = json.loads(send_request("PUT", TABLE, file.getvalue(), "application/x-npy"))
print("table:", about["dtype"], about["shape"])

with triton.InferenceServerClient(SERVER) as client:
    # Read rows 2 and 0. A parameter refers to the table, and the request contains only the indices.
    table, rows = {"params.ref": "triton-example"}, np.array([2, 0], np.int32)
    print("json:", infer(client, "gather", table, binary=False, indices=rows).tolist())
    print("binary:", *infer(client, "gather", table, indices=rows).ravel())

    # Compute the dot product of every row with [1, 2]. The inputs of einsum are a list: inputs.0 is the table.
    parameters = {"equation": "ij,j->i", "inputs.0.ref": "triton-example"}
    print("einsum:", infer(client, "einsum", parameters, **{"inputs.1": np.array([1, 2], np.float32)}).tolist())

    # Replace row 1 in place. Each index is a list of coordinates.
    send_request("POST", TABLE + "/scatter", json.dumps({"indices": [[1]], "updates": [[7.5, 8.5]]}).encode())
    print("scatter:", infer(client, "gather", table, indices=np.array(1, np.int32)).tolist())

    # Row 7 does not exist, so this request fails. tritonclient returns the message and the status of an error, but
    # not the other members of the reply.
    try:
        infer(client, "gather", table, indices=np.array([0, 7], np.int32))
    except InferenceServerException as e:
        print(f"error: {e.status()}: {e.message()}")

send_request("DELETE", TABLE)
print("deleted")
