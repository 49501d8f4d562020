"""A client that openapi-python-client generates from GET /openapi.json calls the daemon."""
import importlib, os, subprocess, sys

LIMIT_S = 600  # only ends a hang


def generate(document, folder):
    """the package of the client, made in a folder"""
    generator = os.path.join(os.path.dirname(sys.executable), "openapi-python-client")
    command = [generator, "generate", "--path", document, "--meta", "none", "--output-path", os.path.join(folder, "generated_client")]
    made = subprocess.run(command, timeout=LIMIT_S, check=False, capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"openapi-python-client ended with {made.returncode}:\n{made.stdout}{made.stderr}")
    sys.path.insert(0, folder)
    return importlib.import_module("generated_client")


class Calls:
    """What a user of the generated client writes."""

    def __init__(self, client):
        from generated_client.api import ops, resident_tensors
        from generated_client import models
        self.client, self.ops, self.tensors, self.models = client, ops, resident_tensors, models

    def gather(self, indices, **query):
        body = self.models.GatherJsonBody(params=[[1, 2], [3, 4]], indices=indices)
        return importlib.import_module(".gather", self.ops.__name__).sync_detailed(client=self.client, body=body, **query)

    def put(self, name, value):
        return importlib.import_module(".put_tensor", self.tensors.__name__).sync_detailed(name, client=self.client, body=value)

    def gather_in_table(self, table, indices):
        body = self.models.GatherInTableJsonBody(indices=indices)
        return importlib.import_module(".gather_in_table", self.tensors.__name__).sync_detailed(table, client=self.client, body=body)


def check(url, document, folder):
    """the number of calls that were checked; AssertionError if one failed"""
    package = generate(document, folder)
    calls = Calls(package.Client(url))
    models = calls.models

    def succeeds(reply, data):
        assert reply.status_code == 200 and isinstance(reply.parsed.output, models.TypedTensor), reply
        assert (reply.parsed.output.dtype, reply.parsed.output.data) == (models.Dtype.INT32, data), reply.parsed

    def fails(reply, code):
        assert reply.status_code == 422 and isinstance(reply.parsed, models.Problem), reply
        assert (reply.parsed.code, reply.parsed.index, reply.parsed.bound) == (code, 7, 2), reply.parsed

    succeeds(calls.gather([1, 0]), [[3, 4], [1, 2]])
    succeeds(calls.gather([1, 0], axis=1), [[2, 1], [4, 3]])
    fails(calls.gather([7]), models.Code.INDEX_OUT_OF_BOUNDS)
    stored = calls.put("of-a-generated-client", [[1, 2], [3, 4]])
    assert stored.status_code == 201 and isinstance(stored.parsed, models.Description), stored
    succeeds(calls.gather_in_table("of-a-generated-client", models.TypedTensor(dtype=models.Dtype.INT64, data=[1])), [[3, 4]])
    fails(calls.gather_in_table("of-a-generated-client", [7]), models.Code.INDEX_OUT_OF_BOUNDS)
    return 6
