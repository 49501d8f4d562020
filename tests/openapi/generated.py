"""A client that openapi-python-client generates from GET /openapi.json calls the daemon."""
import importlib, os, subprocess, sys

LIMIT_S = 600  # only ends a hang


def generate(document, folder, name="generated_client", *options):
    """the package of the client, made in a folder"""
    generator = os.path.join(os.path.dirname(sys.executable), "openapi-python-client")
    command = [generator, "generate", "--path", document, "--meta", "none", "--output-path", os.path.join(folder, name), *options]
    made = subprocess.run(command, timeout=LIMIT_S, check=False, capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"openapi-python-client ended with {made.returncode}:\n{made.stdout}{made.stderr}")
    sys.path.insert(0, folder)
    return importlib.import_module(name)


def check_literals(url, document, folder):
    """With literal_enums, values of a fixed set are strings."""
    config = os.path.join(folder, "literals.yml")
    with open(config, "w", encoding="utf-8") as file:
        file.write("literal_enums: true\n")
    client = generate(document, folder, "generated_literals", "--config", config).Client(url)
    models = importlib.import_module("generated_literals.models")
    indices = models.TypedTensor(dtype="int64", data=[1, 7])
    body = models.GatherRequest(params=[[1, 2], [3, 4]], indices=indices, bounds="zero")
    reply = importlib.import_module("generated_literals.api.ops.gather").sync(client=client, body=body)
    assert (reply.output.dtype, reply.output.data) == ("int32", [[3, 4], [0, 0]]), reply


class Calls:
    """What a user of the generated client writes."""

    def __init__(self, client):
        from generated_client.api import open_inference_protocol, ops, resident_tensors
        from generated_client import models
        self.client, self.ops, self.tensors, self.oip, self.models = client, ops, resident_tensors, open_inference_protocol, models

    def gather(self, indices, **query):
        body = self.models.GatherRequest(params=[[1, 2], [3, 4]], indices=indices)
        return importlib.import_module(".gather", self.ops.__name__).sync_detailed(client=self.client, body=body, **query)

    def subtract(self, x, y):
        body = self.models.AddRequest(x=x, y=y)  # add has the same inputs
        return importlib.import_module(".subtract", self.ops.__name__).sync_detailed(client=self.client, body=body)

    def gather_of_enums(self):
        indices = self.models.TypedTensor(dtype=self.models.Dtype.INT64, data=[1, 7])
        body = self.models.GatherRequest(params=[[1, 2], [3, 4]], indices=indices, bounds=self.models.GatherBounds.ZERO)
        return importlib.import_module(".gather", self.ops.__name__).sync_detailed(client=self.client, body=body)

    def put(self, name, value):
        return importlib.import_module(".put_tensor", self.tensors.__name__).sync_detailed(name, client=self.client, body=value)

    def put_with_keys(self, name, value, keys):
        return self.put(name, self.models.TableAndKeys(tensor=value, keys=keys))

    def gather_in_table(self, table, indices=None, keys=None):
        body = self.models.GatherInTableRequest(keys=keys) if indices is None else self.models.GatherInTableRequest(indices=indices)
        return importlib.import_module(".gather_in_table", self.tensors.__name__).sync_detailed(table, client=self.client, body=body)

    def infer(self, model, indices):
        inputs = [self.models.InferenceInputsItem(name="indices", datatype="INT64", shape=[len(indices)], data=indices)]
        body = self.models.Inference(inputs=inputs, outputs=[self.models.InferenceOutputsItem(name="output")])
        return importlib.import_module(".infer", self.oip.__name__).sync_detailed(model, client=self.client, body=body)

    def list_models(self, **body):
        return importlib.import_module(".list_models", self.oip.__name__).sync_detailed(client=self.client, **body)

    def register(self, name, body):
        return importlib.import_module(".register_shared_memory", self.oip.__name__).sync_detailed(name, client=self.client, body=body)

    def scatter(self, name, mode):
        body = self.models.ScatterInTableRequest(indices=[[0]], updates=[[5, 5]], mode=mode)
        return importlib.import_module(".scatter_in_table", self.tensors.__name__).sync_detailed(name, client=self.client, body=body)

    def aliases(self):
        return importlib.import_module(".list_aliases", self.tensors.__name__).sync_detailed(client=self.client)


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
    # The body has no defaults that contradict the query string.
    succeeds(calls.gather([7, 1], bounds=models.GatherBounds.ZERO, response=models.Layout.NESTED, timing=True), [[0, 0], [3, 4]])
    succeeds(calls.gather_of_enums(), [[3, 4], [0, 0]])
    succeeds(calls.subtract([5, 7], 2), [3, 5])
    check_literals(url, document, folder)
    fails(calls.gather([7]), models.Code.INDEX_OUT_OF_BOUNDS)
    stored = calls.put("of-a-generated-client", [[1, 2], [3, 4]])
    assert stored.status_code == 201 and isinstance(stored.parsed, models.Description), stored
    succeeds(calls.gather_in_table("of-a-generated-client", models.TypedTensor(dtype=models.Dtype.INT64, data=[1])), [[3, 4]])
    fails(calls.gather_in_table("of-a-generated-client", [7]), models.Code.INDEX_OUT_OF_BOUNDS)
    keyed = calls.put_with_keys("keyed-of-a-generated-client", [[1, 2], [3, 4]], ["a", "b"])
    assert keyed.status_code == 201 and keyed.parsed.keys == models.Dtype.STRING, keyed
    succeeds(calls.gather_in_table("keyed-of-a-generated-client", keys=["b"]), [[3, 4]])
    inferred = calls.infer("of-a-generated-client", [1])
    assert inferred.status_code == 200 and inferred.parsed["outputs"][0]["data"] == [3, 4], inferred
    refused = calls.infer("of-a-generated-client", [7])
    assert refused.status_code == 400 and isinstance(refused.parsed, models.OipError), refused
    assert (refused.parsed.input_, refused.parsed.position, refused.parsed.index, refused.parsed.bound) == ("indices", [0], 7, 2), refused.parsed
    scattered = calls.scatter("of-a-generated-client", models.ScatterMode.MUL)
    assert scattered.status_code == 200 and isinstance(scattered.parsed, models.Description), scattered
    succeeds(calls.gather_in_table("of-a-generated-client", [0]), [[5, 10]])
    listed = calls.aliases()
    assert listed.status_code == 200 and (listed.parsed.aliases.to_dict(), listed.parsed.problems) == ({}, []), listed
    for body in ({}, {"body": models.Index()}, {"body": models.Index(ready=True)}):  # the body is optional
        listed = calls.list_models(**body)
        assert listed.status_code == 200 and "gather" in [model["name"] for model in listed.parsed], listed
    registered = calls.register("region", models.Region(key="key", byte_size=1))
    assert registered.status_code == 501 and isinstance(registered.parsed, models.OipError), registered  # without --system-shared-memory
    return 21
