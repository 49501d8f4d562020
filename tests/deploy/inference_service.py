#!/usr/bin/env python3
"""Checks deploy/kserve without a cluster, with KServe's Python package.

    inference_service.py [--binary PATH]

Each member of each object is one of KServe's model of its kind, and of its type. Then the daemon runs with the options of the runtime, answers its probes, and KServe's client looks rows of tables
up, whose requests have `indices`, or `keys`, alone. Exit status 77, with the reason, if the package, of 450 MB, cannot be installed.
"""
import argparse, asyncio, os, re, struct, subprocess, sys, tempfile, urllib.request

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
FOLDER = os.path.join(ROOT, "deploy", "kserve")
import packages

sys.path.remove(HERE)  # kubernetes.py is not the package of that name
sys.path.append(os.path.join(HERE, "..", "http"))
from daemon import WAIT_LIMIT, eventually, free_ports

MODELS_FOLDER = "/mnt/models"


def enter_venv():
    try:
        python = packages.program("kserve", "python")
    except packages.Unavailable as e:
        print(f"skipped: {e}")
        sys.exit(77)
    if os.path.dirname(sys.executable) != os.path.dirname(python):
        os.execv(python, [python, "-B", os.path.abspath(__file__), *sys.argv[1:]])


def read(file):
    import yaml
    with open(os.path.join(FOLDER, file), encoding="utf-8") as source:
        return yaml.safe_load(source)


def check_member(place, value, kind):
    """of the type that a model gives it: "str", "list[V1Container]", "dict(str, str)", the name of another model"""
    import kserve
    import kubernetes.client
    plain = {"str": str, "int": int, "bool": bool, "object": object}
    of_list = re.fullmatch(r"list\[(.+)\]", kind, re.IGNORECASE)
    of_map = re.fullmatch(r"dict[(\[]str, (.+)[)\]]", kind, re.IGNORECASE)
    if of_list:
        assert isinstance(value, list), f"{place} is no list"
        for i, element in enumerate(value):
            check_member(f"{place}[{i}]", element, of_list[1])
    elif of_map:
        assert isinstance(value, dict), f"{place} is no object"
        for name, element in value.items():
            check_member(f"{place}.{name}", element, of_map[1])
    elif kind in plain:
        assert isinstance(value, plain[kind]), f"{place} is {value!r}; {kind} is expected"
    else:
        model = getattr(kserve, kind, None) or getattr(kubernetes.client, kind)
        check_model(place, value, model)


def check_model(place, value, model):
    """each member is one that the model knows, and of its type; members that it needs are there"""
    if not hasattr(model, "attribute_map"):  # a text, as IntOrString
        return
    attributes = {member: attribute for attribute, member in model.attribute_map.items()}
    for member, element in value.items():
        assert member in attributes, f"{place}.{member}: {model.__name__} has no such member"
        check_member(f"{place}.{member}", element, model.openapi_types[attributes[member]])


def check_objects(runtime, service):
    import kserve
    check_model("runtime", runtime, kserve.V1alpha1ServingRuntime)
    check_model("service", service, kserve.V1beta1InferenceService)
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert model["modelFormat"]["name"] in [known["name"] for known in runtime["spec"]["supportedModelFormats"]]
    assert runtime["spec"]["containers"][0]["name"] == "kserve-container", "KServe looks for this name"


# ---------------------------------------------------------------- the daemon
def write_tables(folder):
    import numpy
    numpy.save(os.path.join(folder, "movies.npy"), numpy.arange(10, dtype=numpy.float32).reshape(5, 2))
    rows, keys = struct.pack("<4f", 1, 2, 3, 4), b"DuneAlien"
    header = ('{"words":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},'
              '"words.keys.offsets":{"dtype":"I64","shape":[3],"data_offsets":[16,40]},'
              '"words.keys.bytes":{"dtype":"U8","shape":[9],"data_offsets":[40,49]}}').encode()
    header += b" " * (-len(header) % 8)
    with open(os.path.join(folder, "table.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + rows + struct.pack("<3q", 0, 4, 9) + keys)


def start(binary, container, folder):
    port = free_ports(1)[0]
    own = {MODELS_FOLDER: folder, "0.0.0.0:8080": f"127.0.0.1:{port}", "10000": "0"}
    arguments = [own.get(argument, argument) for argument in container["args"]]
    assert MODELS_FOLDER in container["args"], "the runtime does not serve KServe's folder"
    process = subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, f"http://127.0.0.1:{port}"


def check_probes(container, url):
    for name in ("readinessProbe", "livenessProbe"):
        path = container[name]["httpGet"]["path"]

        def is_answered():
            try:
                return urllib.request.urlopen(url + path, timeout=WAIT_LIMIT).status == 200
            except OSError:
                return False
        eventually(is_answered, f"that {path} is answered")


async def look_up(url):
    import numpy
    from kserve import InferInput, InferRequest, InferenceRESTClient
    from kserve.inference_client import RESTConfig
    client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=WAIT_LIMIT))
    assert await client.is_server_ready(url) and await client.is_model_ready(url, "movies")
    for binary in (False, True):
        indices = InferInput("indices", [2], "INT64")
        indices.set_data_from_numpy(numpy.array([3, 0]), binary_data=binary)
        reply = await client.infer(url, InferRequest("movies", [indices]), model_name="movies")
        assert reply.outputs[0].as_numpy().tolist() == [[6, 7], [0, 1]], reply
    keys = InferInput("keys", [2], "BYTES", data=["Alien", "Dune"])
    reply = await client.infer(url, InferRequest("table:words", [keys]), model_name="table:words")
    assert reply.outputs[0].as_numpy().tolist() == [[3, 4], [1, 2]], reply
    await client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "tensord"))
    binary = os.path.abspath(parser.parse_args().binary)
    enter_venv()
    runtime, service = read("runtime.yaml"), read("inference-service.yaml")
    check_objects(runtime, service)
    container = runtime["spec"]["containers"][0]
    with tempfile.TemporaryDirectory(prefix="tensord-kserve-") as folder:
        write_tables(folder)
        process, url = start(binary, container, folder)
        try:
            check_probes(container, url)
            asyncio.run(look_up(url))
        finally:
            process.terminate()
            process.wait(2 * WAIT_LIMIT)
    print("2 objects, 2 probes, 3 lookups by KServe's client: 1 passed, 0 failed")


if __name__ == "__main__":
    main()
