#!/usr/bin/env python3
"""Random requests of all ops, valid and invalid, over every transport; each answer is compared with NumPy's.
Random tables with keys are put, looked up by key, read, and lose them.

    random_requests.py [--binary PATH] [--rounds N] [--seed N]

The transports: JSON with nested, flat and base64 data, safetensors, the Open Inference Protocol with JSON and with binary
tensors; inputs may be resident tensors, and outputs may be stored. NumPy and ml_dtypes come from the virtual environment of
tests/oip/run.py; exit status 77 where it cannot be made.
"""
import importlib.util, itertools, os, sys

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("oip_run", os.path.join(HERE, "..", "oip", "run.py"))
oip_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oip_run)
oip_run.enter_venv(os.path.abspath(sys.argv[0]))

import urllib.parse

import ml_dtypes
import numpy as np

from trial import *

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
ALL = ["bool", *INTS, *FLOATS, *COMPLEX, "string"]
INDEX = ["int16", "int32", "int64"]
DATATYPES = {"bool": "BOOL", "float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64", "string": "BYTES",
             **{name: name.upper() for name in INTS}}
FROM_DATATYPE = {v: k for k, v in DATATYPES.items()}
TEXTS = [b"", b"a", "\u00e9\U0001f600".encode(), b"\0", b'"\\\n', b"longer than the others"]


class Resident:
    """an input that is a resident tensor"""

    def __init__(self, name, array):
        self.name, self.array = name, array


def np_dtype(name):
    return np.dtype(object) if name == "string" else np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def name_of(array):
    array = array.array if isinstance(array, Resident) else array
    return "string" if array.dtype == object else array.dtype.name


def array(rng, dtype, shape):
    """random finite numbers, or strings"""
    n = int(np.prod(shape, dtype=np.int64))
    if dtype == "string":
        out = np.empty(n, object)
        out[:] = [rng.choice(TEXTS) for _ in range(n)]
        return out.reshape(shape)
    if dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(n)], bool).reshape(shape)
    if dtype in INTS:
        return np.frombuffer(rng.randbytes(n * np_dtype(dtype).itemsize), dtype).reshape(shape)
    values = np.array([rng.gauss(0, 10.0 ** rng.randint(-3, 4)) for _ in range(2 * n)])
    if dtype in COMPLEX:
        return (values[:n] + 1j * values[n:]).astype(dtype).reshape(shape)
    return values[:n].astype(np_dtype(dtype)).reshape(shape)


def raw(a):
    return daemon.raw_strings(list(a.reshape(-1))) if a.dtype == object else np.ascontiguousarray(a).tobytes()


def from_raw(dtype, shape, data):
    if dtype != "string":
        return np.frombuffer(bytes(data), np_dtype(dtype)).reshape(shape)
    out, at = [], 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        out.append(bytes(data[at + 4:at + 4 + size]))
        at += 4 + size
    a = np.empty(len(out), object)
    a[:] = out
    return a.reshape(shape)


def same(a, b, bits=True):
    """without bits, 0 and -0 are the same"""
    return name_of(a) == name_of(b) and a.shape == b.shape and (raw(a) == raw(b) if bits else bool((a == b).all()))


# ---------------------------------------------------------------- JSON
def scalar(dtype, v):
    if dtype == "string":
        return v.decode()
    if dtype in COMPLEX:
        return [float(v.real), float(v.imag)]
    return bool(v) if dtype == "bool" else int(v) if dtype in INTS else float(v)


def nested(dtype, a):
    if not isinstance(a, np.ndarray) or a.ndim == 0:
        return scalar(dtype, a[()] if isinstance(a, np.ndarray) else a)
    return [nested(dtype, part) for part in a]


def to_json(rng, a):
    dtype, shape, form = name_of(a), list(a.shape), rng.randrange(3)
    if form == 0:
        return daemon.tensor(dtype, shape, raw(a))
    return {"dtype": dtype, "shape": shape, "data": nested(dtype, a if form == 1 else a.reshape(-1))}


def leaves(dtype, data):
    """the elements of nested or flat data; those of a complex dtype are pairs"""
    if isinstance(data, list) and not (dtype in COMPLEX and len(data) == 2 and not isinstance(data[0], list)):
        for part in data:
            yield from leaves(dtype, part)
    else:
        yield data


def from_numbers(dtype, shape, data):
    data = list(leaves(dtype, data))
    if dtype == "string":
        out = np.empty(len(data), object)
        out[:] = [v.encode() for v in data]
        return out.reshape(shape)
    if dtype in COMPLEX:
        return np.array([complex(*map(float, pair)) for pair in data], dtype).reshape(shape)
    if dtype in FLOATS:
        return np.array([float(v) for v in data], "float64").astype(np_dtype(dtype)).reshape(shape)
    return np.array(data, dtype).reshape(shape)


def from_json(document):
    dtype, shape = document["dtype"], document["shape"]
    if "base64" in document:
        return from_raw(dtype, shape, base64.b64decode(document["base64"]))
    return from_numbers(dtype, shape, document["data"])


# ---------------------------------------------------------------- transports
class Refused(Exception):
    """the problem document"""


def flat_inputs(inputs, resident=False):
    """those that are in the request, or the resident ones"""
    for name, value in inputs.items():
        for i, a in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(a, Resident) == resident:
                yield (f"{name}.{i}" if isinstance(value, list) else name), a


def names_of_resident(inputs):
    """as attributes"""
    return {name + ".ref": tensor.name for name, tensor in flat_inputs(inputs, resident=True)}


def has_dtype_of(dtypes, inputs):
    return any(name_of(a) in dtypes for resident in (False, True) for _, a in flat_inputs(inputs, resident))


def checked(reply):
    if reply.status != 200:
        problem = reply.json()
        assert 400 <= reply.status < 500 and problem.get("code"), str(reply)
        raise Refused(problem)
    return reply


class Transports:
    def __init__(self, client, rng):
        self.client, self.rng, self.resident = client, rng, 0
        self.all = [self.json, self.json, self.safetensors, self.oip_json, self.oip_binary]

    def maybe_ref(self, a, chance=0.15):
        """the name under which the tensor is resident, or None"""
        if self.rng.random() >= chance:
            return None
        self.resident += 1
        name = f"r{self.resident % 32}"  # more than the inputs of any request
        body, content_type = Value(name_of(a), a.shape, raw(a)).body(self.rng)
        reply = self.client.request("PUT", "/v1/tensors/" + name, body, {"Content-Type": content_type})
        assert reply.status in (200, 201), str(reply)
        return name

    def outputs(self, documents, read):
        """by name: the outputs of a list are 0, 1, ..."""
        if isinstance(documents, list):
            return {i: read(d) for i, d in enumerate(documents)}
        return {name: read(d) for name, d in documents.items()}

    def read_stored(self, document):
        value = read_value(self.client, document["name"])
        assert isinstance(value, Value), str(value)
        return from_raw(value.dtype, value.shape, value.raw)

    def json(self, op, inputs, attrs):
        def encode(a):
            name = a.name if isinstance(a, Resident) else self.maybe_ref(a)
            return {"ref": name} if name else to_json(self.rng, a)

        body = {name: [encode(a) for a in value] if isinstance(value, list) else encode(value) for name, value in inputs.items()}
        if "indices.keys" in body:
            body["indices"] = {"keys": body.pop("indices.keys")}
        body.update(attrs)
        stored = self.rng.random() < 0.1
        body.update({"store": "out"} if stored else {"response": self.rng.choice(("nested", "flat", "base64"))})
        document = checked(self.client.post(f"/v1/{op}", body, {"Accept-Encoding": "identity"})).json()
        documents = document["outputs"] if "outputs" in document else {"output": document["output"]}
        return self.outputs(documents, self.read_stored if stored else from_json)

    def safetensors(self, op, inputs, attrs):
        if has_dtype_of(("string", "complex128"), inputs):
            return self.json(op, inputs, attrs)
        resident = names_of_resident(inputs)
        texts = {k: ",".join(map(str, v)) if isinstance(v, list) else json.dumps(v).strip('"') for k, v in attrs.items()}
        tensors = {name: (name_of(a), list(a.shape), raw(a)) for name, a in flat_inputs(inputs)}
        query = "?" + urllib.parse.urlencode(texts) if self.rng.random() < 0.5 else ""
        reply = checked(self.client.request("POST", f"/v1/{op}{query}", daemon.safetensors(tensors, {**resident, **({} if query else texts)}),
                                            {"Content-Type": SAFETENSORS, "Accept": f"{SAFETENSORS}, application/json;q=0.1"}))
        if reply.type == daemon.JSON:  # a dtype that safetensors lacks
            document = reply.json()
            return self.outputs(document["outputs"] if "outputs" in document else {"output": document["output"]}, from_json)
        found, _ = daemon.read_safetensors(reply.body)
        return {int(k.split(".")[1]) if k.startswith("outputs.") else k: from_raw(*v) for k, v in found.items()}

    def oip(self, op, inputs, attrs, binary):
        if has_dtype_of(COMPLEX, inputs) or attrs.get("dtype") in COMPLEX:
            return self.json(op, inputs, attrs)
        document, data = {"parameters": {**attrs, **names_of_resident(inputs)}, "inputs": []}, b""
        for name, a in flat_inputs(inputs):
            one = {"name": name, "datatype": DATATYPES[name_of(a)], "shape": list(a.shape)}
            if binary or name_of(a) == "bfloat16":
                one["parameters"] = {"binary_data_size": len(raw(a))}
                data += raw(a)
            else:
                one["data"] = nested(name_of(a), a.reshape(-1))
            document["inputs"].append(one)
        document["parameters"]["binary_data_output"] = binary or self.rng.random() < 0.3
        text = json.dumps(document).encode()
        reply = checked(self.client.request("POST", f"/v2/models/{op}/infer", text + data, {"Inference-Header-Content-Length": str(len(text))}))
        header = int(reply.headers.get("Inference-Header-Content-Length") or len(reply.body))
        out, at = {}, header
        for one in json.loads(reply.body[:header])["outputs"]:
            dtype, size = FROM_DATATYPE[one["datatype"]], one.get("parameters", {}).get("binary_data_size")
            key = int(one["name"].split(".")[1]) if one["name"].startswith("outputs.") else one["name"]
            if size is not None:
                out[key], at = from_raw(dtype, one["shape"], reply.body[at:at + size]), at + size
            else:
                out[key] = from_numbers(dtype, one["shape"], one["data"])
        return out

    def oip_json(self, op, inputs, attrs):
        return self.oip(op, inputs, attrs, False)

    def oip_binary(self, op, inputs, attrs):
        return self.oip(op, inputs, attrs, True)


# ---------------------------------------------------------------- the ops, in NumPy
def dims(rng, least=0, most=4):
    return [rng.choice((1, 1, 2, 3, 5, 0 if rng.random() < 0.1 else 4)) for _ in range(rng.randint(least, most))]


def indices_in(rng, bound, shape, valid):
    """indices in [0, bound), or around it"""
    low, high = (0, bound - 1) if valid else (-2, bound + 1)
    n = int(np.prod(shape, dtype=np.int64))
    if valid and bound == 0:
        shape, n = [0], 0
    return np.array([rng.randint(low, high) for _ in range(n)], rng.choice(INDEX)).reshape(shape)


def resolve(index, bound, policy):
    """valid indices and which rows are zero; None where there is none"""
    bad = (index < 0) | (index >= bound)
    index = index.astype("int64")
    if not bad.any():
        return index, bad
    if policy == "error" or bound == 0 and policy in ("clip", "wrap"):
        return None
    if policy == "zero":
        return np.where(bad, 0, index), bad
    return (np.clip(index, 0, bound - 1) if policy == "clip" else index % bound), np.zeros_like(bad)


def zero_of(a):
    return b"" if a.dtype == object else np.zeros((), a.dtype)


def take(params, index, zero):
    """rows of the first axis"""
    out = np.empty(index.shape + params.shape[1:], params.dtype)
    for at in np.ndindex(*index.shape):
        out[at] = zero_of(params) if zero[at] else params[index[at]]
    return out


def gather_reference(params, indices, axis, batch_dims, policy):
    resolved = resolve(indices, params.shape[axis], policy)
    if resolved is None:
        return None
    batch = params.shape[:batch_dims]
    out = np.empty(params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:], params.dtype)
    for at in np.ndindex(*batch):
        moved = np.moveaxis(params[at], axis - batch_dims, 0)
        rows = take(moved, resolved[0][at], resolved[1][at])
        for i in range(axis - batch_dims):  # the index dimensions to the place of the axis
            rows = np.moveaxis(rows, indices.ndim - batch_dims + i, i)
        out[at] = rows if rows.ndim else rows[()]  # as an object, not as an array of one
    return out


def gather(rng):
    params = array(rng, rng.choice(ALL), dims(rng, 1))
    batch_dims = rng.randint(0, min(1, params.ndim - 1))
    axis = rng.randint(batch_dims, params.ndim - 1)
    policy, valid = rng.choice(("error", "zero", "clip", "wrap")), rng.random() < 0.7
    indices = indices_in(rng, params.shape[axis], list(params.shape[:batch_dims]) + dims(rng, 0, 2), valid)
    if indices.shape[:batch_dims] != params.shape[:batch_dims]:
        return gather(rng)
    attrs = {"axis": rng.choice((axis, axis - params.ndim)), "batch_dims": batch_dims, "bounds": policy}
    want = gather_reference(params, indices, axis, batch_dims, policy)
    if params.dtype.kind in "iu" and params.itemsize > 1 and rng.random() < 0.3:  # as in cast, below
        attrs["dtype"] = rng.choice(INTS)
        want = None if want is None else want.astype(attrs["dtype"])
    return "gather", {"params": params, "indices": indices}, attrs, None if want is None else {"output": want}


def gather_nd(rng):
    params = array(rng, rng.choice(ALL), dims(rng, 1))
    depth = rng.randint(0, params.ndim)
    shape = dims(rng, 0, 2)
    columns = [indices_in(rng, params.shape[i], shape, True) for i in range(depth)]
    if any(c.shape != tuple(shape) for c in columns):
        return gather_nd(rng)
    indices = np.stack(columns, -1).astype("int32") if columns else np.zeros(shape + [0], "int32")
    out = params[tuple(c.astype("int64") for c in columns)] if columns else np.broadcast_to(params, tuple(shape) + params.shape)
    if not isinstance(out, np.ndarray) or out.dtype != params.dtype:
        cell = np.empty((), params.dtype)
        cell[()] = out
        out = cell
    return "gather_nd", {"params": params, "indices": indices}, {}, {"output": np.ascontiguousarray(out).reshape(tuple(shape) + params.shape[depth:])}


def dynamic_partition(rng):
    shape, count = dims(rng, 1, 2), rng.randint(1, 5)
    data = array(rng, rng.choice(ALL), shape + dims(rng, 0, 2))
    partitions = np.array([rng.randrange(count) for _ in range(int(np.prod(shape)))], "int32").reshape(shape)
    bad = rng.random() < 0.15 and partitions.size
    if bad:
        partitions.reshape(-1)[rng.randrange(partitions.size)] = rng.choice((-1, count))
    want = None if bad else {i: data[partitions == i] for i in range(count)}
    return "dynamic_partition", {"data": data, "partitions": partitions}, {"num_partitions": count}, want


def dynamic_stitch(rng):
    dtype, rest, n = rng.choice(ALL), dims(rng, 0, 2), rng.randint(1, 4)
    indices = [np.array([rng.randrange(8) for _ in range(rng.randint(0, 5))], "int32") for _ in range(n)]
    data = [array(rng, dtype, [len(i), *rest]) for i in indices]
    rows = max((int(i.max()) + 1 for i in indices if i.size), default=0)
    out = np.empty([rows, *rest], np_dtype(dtype))
    out[...] = zero_of(out)
    for index, part in zip(indices, data):
        for i, row in zip(index, part):
            out[i] = row
    return "dynamic_stitch", {"indices": indices, "data": data}, {}, {"output": out}


def concat(rng):
    dtype, shape = rng.choice(ALL), dims(rng, 1)
    axis = rng.randrange(len(shape))
    parts = [array(rng, dtype, shape[:axis] + [rng.randint(0, 3)] + shape[axis + 1:]) for _ in range(rng.randint(1, 4))]
    return "concat", {"inputs": parts}, {"axis": rng.choice((axis, axis - len(shape)))}, {"output": np.concatenate(parts, axis)}


def cast(rng):
    """conversions that NumPy and the op define alike: between integers, and from integers of 16 bits to floats"""
    source = rng.choice(INTS)
    x = array(rng, source, dims(rng))
    target = rng.choice(INTS if np_dtype(source).itemsize > 1 else INTS + FLOATS + COMPLEX)
    return "cast", {"x": x}, {"dtype": target}, {"output": x.astype(np_dtype(target))}


def top_k(rng):
    x = array(rng, rng.choice(INTS + ["float32", "float64", "float16"]), dims(rng, 1))
    if rng.random() < 0.5 and x.dtype.kind in "iu":
        x = x % 3  # equal elements
    k, largest = rng.randint(0, x.shape[-1] + (rng.random() < 0.1)), rng.random() < 0.5
    if k > x.shape[-1]:
        return "top_k", {"x": x}, {"k": k, "largest": largest}, None
    if largest:  # stable, from the greatest
        order = x.shape[-1] - 1 - np.flip(np.argsort(np.flip(x, -1), -1, kind="stable"), -1)
    else:
        order = np.argsort(x, -1, kind="stable")
    order = order[..., :k]
    return "top_k", {"x": x}, {"k": k, "largest": largest}, {"values": np.take_along_axis(x, order, -1), "indices": order.astype("int32")}


def some_keys(rng):
    """distinct keys, a few of them in ascending order"""
    n, dtype = rng.choice((0, 1, 2, 5, 40)), rng.choice(("int64", "uint64", "string"))
    if dtype == "string":
        keys = [rng.choice(TEXTS) + (b"%d" % i if i else b"") for i in range(n)]
    else:
        low, high = (-2 ** 63, 2 ** 63) if dtype == "int64" else (0, 2 ** 64)
        keys = rng.sample(sorted({*range(low, low + n), *range(n), *range(high - n, high)}), n)
    return np.array(sorted(keys) if rng.random() < 0.3 else keys, np_dtype(dtype))


def some_queries(rng, keys):
    """queries, and the row of each, or -1"""
    shape, rows = dims(rng), {key: i for i, key in enumerate(keys.tolist())}
    others = [b"no", b"\0", b""] if keys.dtype == object else [1, 2 ** 63 - 1, 50]
    queries = np.array([rng.choice(list(rows) if rows and rng.random() < 0.9 else others)
                        for _ in range(int(np.prod(shape)))], keys.dtype)
    return queries.reshape(shape), np.array([rows.get(query, -1) for query in queries.tolist()], "int64").reshape(shape)


def find(rng):
    keys = some_keys(rng)
    queries, rows = some_queries(rng, keys)
    if len(keys) > 1 and rng.random() < 0.1:
        keys[-1] = keys[0]
        return "find", {"keys": keys, "queries": queries}, {}, None
    return "find", {"keys": keys, "queries": queries}, {}, {"output": rows}


def lookup(rng):
    keys = some_keys(rng)
    queries, rows = some_queries(rng, keys)
    params, missing = array(rng, rng.choice(ALL), [len(keys)] + dims(rng)), rng.choice(("error", "zero", "default"))
    inputs, row = {"params": params, "keys": keys, "queries": queries}, zero_of(params)
    if missing == "default":
        inputs["default"] = array(rng, name_of(params), rng.choice(([], list(params.shape[1:]))))
        row = inputs["default"][()]
    if missing == "error" and -1 in rows:
        return "lookup", inputs, {"missing": missing}, None
    return "lookup", inputs, {"missing": missing}, {"output": pick(params, rows, row), "found": rows >= 0}


def pick(params, rows, row):
    """`row` in place of -1"""
    output = np.empty(rows.shape + params.shape[1:], params.dtype)
    for at in np.ndindex(rows.shape):
        output[at] = params[rows[at]] if rows[at] >= 0 else row
    return output


def small_numbers(rng, dtype, shape):
    """so that sums are exact"""
    n = int(np.prod(shape))
    return np.array([rng.randint(0 if dtype[0] == "u" else -2, 2) for _ in range(n)]).astype(np_dtype(dtype)).reshape(shape)


def embedding_bag(rng):
    dtype, lengths = rng.choice(FLOATS + ["int8", "uint8"]), [rng.randint(0, 4) for _ in range(rng.randint(0, 5))]
    params = small_numbers(rng, dtype, [rng.randint(1, 5)] + dims(rng, 0, 2))
    bags = [np.array([rng.randrange(len(params)) for _ in range(n)], rng.choice(INDEX)) for n in lengths]
    mode, used = rng.choice(("sum", "max")), rng.choice(INDEX)
    indices = np.array([i for bag in bags for i in bag], rng.choice(INDEX))
    inputs, attrs = {"params": params, "indices": indices}, {"mode": mode}
    begins = [0, *itertools.accumulate(lengths)]
    if rng.random() < 0.5:
        inputs["offsets"] = np.array(begins[:-1], used)
    else:
        inputs["segment_ids"] = np.array([bag for bag, n in enumerate(lengths) for _ in range(n)], used)
        attrs["num_segments"] = len(lengths)
    if rng.random() < 0.1:
        inputs["offsets" if "segment_ids" in inputs else "segment_ids"] = indices
        return "embedding_bag", inputs, attrs, None
    rows = params.astype("float64")
    if dtype in ("int8", "uint8"):
        inputs["scale"], inputs["offset"] = (small_numbers(rng, "float32", [len(params)]) for _ in range(2))
        of_row = [-1] + [1] * (params.ndim - 1)
        rows = rows * inputs["scale"].reshape(of_row) + inputs["offset"].reshape(of_row)
    weights = np.ones(len(indices))
    if mode == "sum" and rng.random() < 0.5:
        inputs["weights"] = small_numbers(rng, dtype if dtype in FLOATS else "float32", [len(indices)])
        weights = inputs["weights"].astype("float64")
    picked = rows[indices] * weights.reshape([-1] + [1] * (params.ndim - 1))
    output = np.zeros([len(bags)] + list(params.shape[1:]), np_dtype(dtype if dtype in FLOATS else "float32"))
    for bag, n in enumerate(lengths):
        if n > 0:
            of_bag = picked[begins[bag]:begins[bag] + n]
            output[bag] = of_bag.sum(0) if mode == "sum" else of_bag.max(0)
    return "embedding_bag", inputs, attrs, {"output": output}


def dequantize(rng):
    params = array(rng, rng.choice(("int8", "uint8")), dims(rng, 1))
    scale, offset = (small_numbers(rng, "float32", rng.choice(([], [len(params)]))) for _ in range(2))
    target, of_row = rng.choice(("float32", "float64")), [-1] + [1] * (params.ndim - 1)
    inputs, attrs = {"params": params, "scale": scale, "offset": offset}, {"dtype": target}
    if rng.random() < 0.1:
        inputs["scale"] = small_numbers(rng, "float32", [len(params) + 1])
        return "dequantize", inputs, attrs, None
    scale, offset = (a.reshape(of_row) if a.ndim else a for a in (scale, offset))
    return "dequantize", inputs, attrs, {"output": (params.astype("float64") * scale + offset).astype(target)}


def einsum(rng):
    """integers, and floats with small integer values, whose sums are exact"""
    dtype = rng.choice(INTS + ["float32", "float64", *COMPLEX])
    extent = {label: rng.choice((1, 2, 3, 4)) for label in "abcde"}
    terms = ["".join(rng.choice("abcde") for _ in range(rng.randint(0, 3))) for _ in range(rng.randint(1, 4))]
    used = sorted(set("".join(terms)))
    output = "".join(rng.sample(used, rng.randint(0, len(used))))
    parts = []
    for term in terms:
        shape = [extent[label] for label in term]
        n = int(np.prod(shape))
        parts.append(np.array([rng.randint(0 if dtype[0] == "u" else -2, 2) for _ in range(n)]).astype(dtype).reshape(shape))
    equation = ",".join(terms) + "->" + output
    if rng.random() < 0.1 and used:  # one extent is wrong
        i = rng.choice([i for i, term in enumerate(terms) if term])
        if "".join(terms).count(terms[i][0]) > 1:
            parts[i] = np.zeros([9] + list(parts[i].shape[1:]), dtype)
            return "einsum", {"inputs": parts}, {"equation": equation}, None
    with np.errstate(over="ignore"):
        return "einsum", {"inputs": parts}, {"equation": equation}, {"output": np.einsum(equation, *parts, dtype=dtype).astype(dtype)}


def scores_of(rows, queries, metric):
    if metric == "l2":
        return -np.sqrt(((queries[:, None] - rows[None]) ** 2).sum(-1))
    return queries @ rows.T


def search(rng):
    """rows and queries of small numbers, whose sums are exact"""
    dtype, n, width = rng.choice(FLOATS + ["int8", "uint8"]), rng.randint(1, 30), rng.randint(0, 20)
    params, metric = small_numbers(rng, dtype, [n, width]), rng.choice(("dot", "l2"))
    inputs, attrs, rows = {"params": params}, {"metric": metric, "k": rng.randint(1, 12)}, params.astype("float64")
    if dtype not in FLOATS:
        scale, offset = (small_numbers(rng, "float32", rng.choice(([], [n]))) for _ in range(2))
        inputs |= {"scale": scale, "offset": offset}
        rows = rows * scale.reshape([-1, 1]) + offset.reshape([-1, 1])
    allowed = np.ones([1, n], bool)
    for name in ("candidates", "exclude"):
        if rng.random() < 0.3:
            given = np.array([rng.randrange(n) for _ in range(rng.randint(0, 6))], rng.choice(INDEX))
            inputs[name], among = given, np.isin(np.arange(n), given)
            allowed = allowed & (among if name == "candidates" else ~among)
    if rng.random() < 0.5:
        queries = small_numbers(rng, rng.choice(FLOATS), rng.choice(([width], [rng.randint(0, 4), width])))
        inputs["queries"], single, values = queries, queries.ndim == 1, queries.reshape([-1, width] if queries.ndim == 1 and width else [1 if queries.ndim == 1 else len(queries), width]).astype("float64")
    else:
        chosen = np.array([rng.randrange(n) for _ in range(rng.randint(1, 4))], rng.choice(INDEX))
        single = rng.random() < 0.3
        inputs["rows"], values = chosen[0] if single else chosen, rows[chosen[:1] if single else chosen]
        inputs["rows"] = np.array(inputs["rows"])
        allowed = allowed & (np.arange(n)[None] != chosen[:len(values), None])
    if rng.random() < 0.1:
        inputs["exclude"] = np.array([n], "int64")
        return "search", inputs, attrs, None
    wide = dtype == "float64" or name_of(inputs.get("queries", np.zeros(0, "float32"))) == "float64"
    scores = np.where(allowed, scores_of(rows, values, metric), np.nan).astype("float64" if wide else "float32")
    places = min(attrs["k"], n, len(inputs.get("candidates", rows)))
    order = np.argsort(-scores, -1, kind="stable")[:, :places]
    best = np.take_along_axis(scores, order, -1)
    indices = np.where(np.isnan(best), -1, order).astype("int64")
    best = np.where(np.isnan(best), -np.inf, best).astype(scores.dtype)
    outputs = {"scores": 0 - best if metric == "l2" else best, "indices": indices}
    return "search", inputs, attrs, {name: a[0] if single else a for name, a in outputs.items()}


OPS = [gather, gather_nd, dynamic_partition, dynamic_stitch, concat, cast, top_k, find, lookup, embedding_bag, dequantize, search, einsum]


# ---------------------------------------------------------------- tables with keys
def put_table(client, rng, name, params, keys):
    """at once, or the rows and then the keys"""
    table, vector = (Value(name_of(a), a.shape, raw(a)) for a in (params, keys))
    path, form = "/v1/tensors/" + name, rng.randrange(3)
    if form == 0:
        both = {part: daemon.tensor(v.dtype, v.shape, v.raw) for part, v in (("tensor", table), ("keys", vector))}
        return client.request("PUT", path, json.dumps(both).encode(), {"Content-Type": daemon.JSON})
    if form == 1 and table.dtype in SAFETENSORS_NAMES and vector.dtype in SAFETENSORS_NAMES:
        both = {part: (v.dtype, v.shape, v.raw) for part, v in (("any", table), ("keys", vector))}
        return client.request("PUT", path, daemon.safetensors(both), {"Content-Type": SAFETENSORS})
    body, content_type = table.body(rng)
    reply = client.request("PUT", path, body, {"Content-Type": content_type})
    assert reply.status in (200, 201), str(reply)
    body, content_type = vector.body(rng)
    return client.request("PUT", path + "/keys", body, {"Content-Type": content_type})


def refused_keys(client, rng, params, keys):
    """keys that are equal, or not as many as rows; the table keeps its own"""
    bad = keys[:-1] if rng.random() < 0.5 else np.concatenate([keys[:-1], keys[:1]])
    code = "CONFLICT" if len(bad) < len(keys) else "INVALID_ARGUMENT"
    body, content_type = Value(name_of(bad), bad.shape, raw(bad)).body(rng)
    reply = client.request("PUT", "/v1/tensors/keyed/keys", body, {"Content-Type": content_type})
    assert reply.json().get("code") == code, f"{code} expected, of {keys} with {bad}: {reply}"
    if code == "INVALID_ARGUMENT":
        assert reply.json()["positions"] == [[0], [len(keys) - 1]], str(reply)


def by_key(rng, params, keys):
    """a request of an op on the table "keyed", as a function of OPS returns it"""
    queries, rows = some_queries(rng, keys)
    table, missing = Resident("keyed", params), -1 in rows
    op = rng.choice(("lookup", "gather", "find"))
    if op == "find":
        return op, {"keys": Resident("keyed.keys", keys), "queries": queries}, {}, {"output": rows}
    if op == "gather":
        bounds = rng.choice(("error", "zero", "zero", "clip"))
        want = None if bounds == "clip" or missing and bounds == "error" else {"output": pick(params, rows, zero_of(params))}
        return op, {"params": table, "indices.keys": queries}, {"bounds": bounds}, want
    policy = rng.choice(("error", "zero"))
    want = None if missing and policy == "error" else {"output": pick(params, rows, zero_of(params)), "found": rows >= 0}
    return op, {"params": table, "queries": queries}, {"missing": policy}, want


def keyed_table(transports, rng):
    """a table is put with keys, looked up by them, read, and loses them; how many requests were valid, and how many not"""
    client, keys = transports.client, some_keys(rng)
    params = array(rng, rng.choice(ALL), [len(keys)] + dims(rng, 0, 3))
    reply, counts = put_table(client, rng, "keyed", params, keys), [0, 0]
    assert reply.status in (200, 201) and reply.json()["keys"] == name_of(keys), f"{params.shape} {keys}: {reply}"
    if len(keys) > 1:
        refused_keys(client, rng, params, keys)
    for _ in range(4):
        counts[not compare_request(transports, rng, *by_key(rng, params, keys))] += 1
    value = read_value(client, "keyed/keys")
    assert value == Value(name_of(keys), keys.shape, raw(keys)), f"{value} instead of {keys}"
    reply = client.request("DELETE", "/v1/tensors/keyed/keys")
    assert reply.status == 204, str(reply)
    reply = client.request("GET", "/v1/tensors/keyed/keys")
    assert reply.status == 404, str(reply)
    return counts


# ---------------------------------------------------------------- the trial
def describe(op, inputs, attrs):
    shapes = {name: [f"{name_of(a)}{list((a.array if isinstance(a, Resident) else a).shape)}" for a in (value if isinstance(value, list) else [value])] for name, value in inputs.items()}
    return f"{op} {shapes} {attrs}"


def compare(transports, rng):
    """how many requests were valid, and how many not"""
    choice = rng.choice(OPS + [keyed_table])
    if choice == keyed_table:
        return keyed_table(transports, rng)
    valid = compare_request(transports, rng, *choice(rng))
    return int(valid), int(not valid)


def compare_request(transports, rng, op, inputs, attrs, want):
    """whether the request was valid"""
    transport = rng.choice(transports.all)
    what = f"{describe(op, inputs, attrs)} over {transport.__name__}"
    try:
        got = transport(op, inputs, attrs)
    except Refused as e:
        assert want is None, f"{what}: refused: {e}"
        return False
    assert want is not None, f"{what}: accepted"
    assert set(got) == set(want), f"{what}: outputs {set(got)}"
    for name, a in want.items():
        assert same(got[name], a, bits=op not in ("einsum", "embedding_bag", "dequantize", "search")), f"{what}: output {name} is {name_of(got[name])}{got[name].shape}\n{got[name]}\ninstead of {name_of(a)}{a.shape}\n{a}"
    return True


def trial(rounds, rng):
    valid, invalid = 0, 0
    with Daemon() as few, Daemon("--inline-limit-us", "0", "--io-threads", "1") as queued:
        with Client(few) as one, Client(queued) as other:
            all_transports = [Transports(one, rng), Transports(other, rng)]
            for number in range(rounds):
                counts = compare(all_transports[number % 2], rng)
                valid, invalid = valid + counts[0], invalid + counts[1]
    assert valid, f"no request of {invalid} was valid: this compares nothing"
    return f"{valid} results, {invalid} refusals"


if __name__ == "__main__":
    run(trial, __doc__, rounds=1500)
