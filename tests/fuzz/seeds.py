#!/usr/bin/env python3
"""Writes the first inputs of the fuzz targets, FOLDER/TARGET/NUMBER, from the conformance cases and from the texts below.

    seeds.py FOLDER [TARGET...]

The formats of the inputs are described at the top of each fuzz_TARGET.c.
"""
import base64, glob, itertools, json, os, re, struct, sys, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "http"))
import daemon

with open(os.path.join(ROOT, "kernels", "ops.def"), encoding="ascii") as ops:
    OPS = re.findall(r"^TD_OP\(\w+, (\w+)\)", ops.read(), re.M)
OP = {name: number for number, name in enumerate(OPS)}
LIST_OP, PAIR_OP = len(OPS), len(OPS) + 1  # fuzz_op
LARGEST, CASES_PER_OP = 1500, 40


def cases():
    """of every op some conformance cases, the small ones"""
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "conformance", "cases", "*.jsonl"))):
        with open(path, encoding="utf-8") as lines:
            small = [line for line in lines if len(line) < LARGEST and '"body"' not in line]
        for line in small[::max(1, len(small) // CASES_PER_OP)]:
            yield json.loads(line)


def numel(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def raw(tensor):
    """the bytes of a tensor of numbers or strings; None for those that need rounding"""
    if "base64" in tensor:
        return base64.b64decode(tensor["base64"])
    dtype, data = tensor["dtype"], tensor["data"]
    if dtype == "string":
        return daemon.raw_strings([v.encode("utf-8", "surrogatepass") for v in data])
    if dtype not in daemon.FORMATS or any(isinstance(v, str) for v in data):
        return None
    try:
        return daemon.pack(dtype, data)
    except (struct.error, OverflowError):
        return None


def flat(inputs):
    """the inputs of a case with one name per tensor: indices.0, indices.1, ..."""
    for name, value in inputs.items():
        for i, tensor in enumerate(value if isinstance(value, list) else [value]):
            yield (f"{name}.{i}" if isinstance(value, list) else name), tensor


def attribute_text(value):
    return ",".join(map(str, value)) if isinstance(value, list) else json.dumps(value).strip('"')


# ---------------------------------------------------------------- JSON
TEXTS = [
    (LIST_OP, '{"lists":[[1.5],[]],"ints":[[1],2],"count":-3,"bounds":"wrap","equation":"a","size":"huge","axes":[0,-1],'
              '"epsilon":1e-9,"keep":false,"dtype":"int64"}'),
    (LIST_OP, '{"lists":{"ref":"s"},"equation":"\\u00e9\\ud83d\\ude00","response":"flat","device":"cpu","timing":true}'),
    (PAIR_OP, '{"x":{"dtype":"complex64","shape":[2],"data":[[1,2],["NaN",-0.0]]},"more":[{"ref":"t"}],"keys":["a"],'
              '"condition":[true,false]}'),
    (0, '{"params":{"ref":"t"},"indices":[0,3],"axis":0,"bounds":"clip","response":"base64"}'),
    (0, '{"params":{"data":[[1e400,"Infinity"]],"dtype":"float64","shape":[1,2]},"indices":[[]]}'),
    (0, '{"params":{"ref":"t"},"indices":{"keys":[7,10,-9223372036854775808,3]},"bounds":"zero"}'),
    (0, '{"indices":{"keys":["k","k\\u0000"]},"params":{"ref":"s"}}'),
    (0, '{"params":{"ref":"t"},"indices":{"keys":{"dtype":"uint64","data":[7]}}}'),
    (OP["lookup"], '{"params":{"ref":"t"},"queries":[7,8],"missing":"zero"}'),
    (OP["lookup"], '{"params":[-2.5,-3.5],"queries":[7]}'),
    (0, '{"params":["a\\u0000b","\\n"],"indices":1,"store":"x"}'),
    (0, '{"params":{"dtype":"string","shape":[2],"base64":"AQAAAGEAAAAA"},"indices":{"dtype":"int16","shape":[1],"base64":"AQA="}}'),
    (0, "[" * 40), (0, '{"params":' + "[" * 17 + "]" * 17 + ',"indices":[0]}'), (0, ""), (0, " {} "),
]


def json_seeds():
    for number, text in TEXTS:
        yield bytes([number]) + text.encode()
    for case in cases():
        body = {**case["inputs"], **case["attrs"]}
        yield bytes([OP[case["op"]]]) + json.dumps(body, separators=(",", ":")).encode()


# ---------------------------------------------------------------- safetensors
def safetensors_seeds():
    for case in cases():
        tensors = {name: (t["dtype"], t["shape"], raw(t)) for name, t in flat(case["inputs"])}
        if all(data is not None and dtype in daemon.SAFETENSORS_NAMES for dtype, _, data in tensors.values()):
            metadata = {name: attribute_text(value) for name, value in case["attrs"].items()}
            yield bytes([OP[case["op"]]]) + daemon.safetensors(tensors, metadata)
    yield bytes([0]) + daemon.safetensors({"indices": ("int32", [1], bytes(4))}, {"params.ref": "t", "bounds": "zero"})
    yield bytes([0]) + daemon.safetensors({"indices.keys": ("int64", [2], struct.pack("<2q", 7, 8))}, {"params.ref": "t", "bounds": "zero"})
    for dtype in daemon.SAFETENSORS_NAMES:
        yield bytes([LIST_OP]) + daemon.safetensors({"a": (dtype, [2], bytes(2 * daemon.SIZES[dtype])), "b": (dtype, [0, 3], b"")})
    for header in ("{}", "", '{"a":{"dtype":"I8","shape":[18446744073709551615],"data_offsets":[0,1]}}',
                   '{"a":{"data_offsets":[1,0],"shape":[],"dtype":"F64"},"a":{}}', '{"__metadata__":{"a":"\\u0000"}}',
                   '{"__metadata__":null,"a":{"dtype":"F8_E4M3","shape":[1],"x":[{"y":null},1e5],"data_offsets":[0,1]}}'):
        yield bytes([0]) + daemon.safetensors_file(header, b"\1")


# ---------------------------------------------------------------- npy
def npy_seeds():
    for descr in list(daemon.NPY_NAMES.values()) + [">i4", ">f8", ">c16", "=u2", "|V2", "|S3", "<M8[s]", "|O", "<U2"]:
        size = int(re.search(r"\d+", descr + "1").group())
        for shape, fortran, version in (([2, 3], False, 1), ([2, 3], True, 1), ([3], True, 2), ([], False, 3)):
            yield daemon.npy(descr, shape, bytes(i % 2 for i in range(numel(shape) * size)), fortran, version)
    yield daemon.npy("<i4", [0, 5], b"", True)
    yield daemon.npy("<i4", [1] * 17, bytes(4))


# ---------------------------------------------------------------- the Open Inference Protocol
DATATYPES = {"bool": "BOOL", "float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64", "string": "BYTES",
             **{name: name.upper() for name in daemon.FORMATS if "int" in name}}


def oip_input(name, tensor, binary):
    """an input, and its bytes after the JSON; None without a datatype"""
    data = raw(tensor)
    if tensor["dtype"] not in DATATYPES or data is None:
        return None
    one = {"name": name, "datatype": DATATYPES[tensor["dtype"]], "shape": tensor["shape"]}
    if binary:
        return {**one, "parameters": {"binary_data_size": len(data)}}, data
    return ({**one, "data": tensor["data"]}, b"") if "data" in tensor else None


def oip(number, document, data=b"", header=True):
    text = document.encode() if isinstance(document, str) else json.dumps(document, separators=(",", ":")).encode()
    return struct.pack("<BH", number, len(text) if header else 0xFFFF) + text + data


def oip_seeds():
    for i, case in enumerate(cases()):
        inputs = [oip_input(name, tensor, i % 2) for name, tensor in flat(case["inputs"])]
        if None in inputs:
            continue
        parameters = {k: attribute_text(v) if isinstance(v, list) else v for k, v in case["attrs"].items()}
        document = {"id": str(i), "parameters": {**parameters, "binary_data_output": i % 4 == 1}, "inputs": [one for one, _ in inputs]}
        yield oip(OP[case["op"]], document, b"".join(data for _, data in inputs), header=i % 2 == 1)
    region = '"parameters":{"shared_memory_region":"%s","shared_memory_offset":%d,"shared_memory_byte_size":%d}'
    yield oip(0, '{"inputs":[{"name":"params","datatype":"INT32","shape":[4],%s},{"name":"indices","datatype":"INT32","shape":[1],'
                 '"data":[2]}],"outputs":[{"name":"output",%s}]}' % (region % ("r", 8, 16), region % ("q", 0, 64)), header=False)
    yield oip(0, '{"parameters":{"params.ref":"t","timeout":5000,"complex":true},"inputs":[{"name":"indices","datatype":"INT64",'
                 '"shape":[2],"data":[1,0]}],"outputs":[{"name":"output","parameters":{"binary_data":true}}]}', header=False)
    yield oip(0, '{"parameters":{"params.ref":"s"},"inputs":[{"name":"indices.keys","datatype":"BYTES","shape":[2],"data":["k",""]}]}', header=False)
    yield oip(0, '{"inputs":[{"name":"params","datatype":"FP32","shape":[2,2],"parameters":{"classification":1},"data":[[1,2],[3,4]]}]}')
    for number, text in ((0xF0, '{"ready":true}'), (0xF1, '{"parameters":{"config":"{}"}}'),
                         (0xF2, '{"parameters":{"unload_dependents":true}}'), (0xF3, '{"key":"/k","offset":0,"byte_size":64}')):
        yield oip(number, text)


# ---------------------------------------------------------------- einsum
EQUATIONS = ["float32 23,34\nij,jk->ik", "int64 22\nii->i", "float64 3\ni->ii", "int8 222,22\n...ij,jk->...ik", "complex64 234\n...->",
             "uint16 23\nij->ji", "int32 \n->", "float16 2,3,4\na,b,c->cba", "float32 22,22,22,22\nab,bc,cd,de->ae",
             "int32 23,23\nij, ij -> i", "complex128 212,21\nb...j,...j->b", "bfloat16 99,99\nik,jk->ij", "int32 00\nij->",
             "float64 33,33\n\u00e9x,x\U0001f600->\u00e9\U0001f600", "int16 2222\niijj->ij", "int64 23,34,42\nij,jk,ki"]


def einsum_seeds():
    yield from (text.encode() for text in EQUATIONS)
    for case in cases():
        if case["op"] == "einsum":
            tensors = case["inputs"]["inputs"]
            if all(d < 10 for t in tensors for d in t["shape"]):
                shapes = ",".join("".join(map(str, t["shape"])) for t in tensors)
                yield f"{tensors[0]['dtype']} {shapes}\n{case['attrs']['equation']}".encode()


# ---------------------------------------------------------------- keys and their index
def keys_seeds():
    """few and many keys, some equal, and damage to the header and to a block"""
    for dtype, n, step, damage in itertools.product(range(3), (0, 1, 14, 99, 100, 101, 255), (0, 1, 7), (b"", b"\x40\0\1\x50\0\xff", b"\x28\0\3")):
        keys = b"".join(b"\2" * (dtype == 2) + struct.pack(">H", i * step) for i in range(n))
        queries = b"".join(b"\2" * (dtype == 2) + struct.pack(">H", i) for i in range(5))
        yield bytes([dtype, step, n, 5]) + keys + queries + damage


# ---------------------------------------------------------------- files of tokens
TOKENS = ["read 0123456789abcdef\n", "# who\nwrite AAAAAAAAAAAAAAAAAAAAAA== shop/ news/\r\n\nadmin \tabcdefghijklmnop-._~+/\n",
          "\ufeffadmin 0123456789abcdef", "read 0123456789abcdef\nread 0123456789abcdef\n", "root 0123456789abcdef\n", "read short\n", "read\n",
          "read 0123456789abcdef \u00e9\n", "read 0123456789abcdef e\u0301\n", "read 0123456789abcdef " + "p" * 129 + "\n", "read " + "x" * 513 + "\n", "\0", "",
          "# only a comment\n", "admin " + "=" * 20 + "\n", "read 0123456789abcdef x x x\n",
          "read 0123456789abcdef name=shop@example.com x\nread 0123456789abcdeF x name=a\n", "read 0123456789abcdef name=\n"]


def tokens_seeds():
    yield from (text.encode() for text in TOKENS)


# ---------------------------------------------------------------- manifests and aliases
FILE = '{"size":1168,"sha256":"' + "9f86d081" * 8 + '"}'
MANIFESTS = ['{"files":{"m.npy":' + FILE + '},"aliases":{"x":"m@v1","y":"other@2"}}', '{"files":{"m.safetensors":' + FILE + ',"t.tensord":' + FILE + "}}",
             '{"files":{"../m.npy":' + FILE + "}}", '{"files":{"a/m.npy":' + FILE + "}}", '{"files":{"m.npy":' + FILE + ',"m.npy":' + FILE + "}}", '{"files":{}}',
             '{"files":{"m.npy":{"size":-1,"sha256":""}}}', '{"files":{"\\u002e.npy":' + FILE + '},"aliases":null}',
             '{"files":{"\u6620\u753b.npy":' + FILE + '},"aliases":{"cin\u00e9":"\u6620\u753b@v1"}}', '{"files":{"e\u0301.npy":' + FILE + "}}"]
ALIASES = ['{"aliases":{"movies":"movies@20261122","m:w":"m:w@v"},\n', '{"aliases":{"x":"x@1"},"taken":{"v1":"' + "9f86d081" * 8 + '"},',
           "{", '{"aliases":{"x":"x"},', '{"aliases":{"x.keys":"x@1"},', '{"taken":{"/":""},',
           '{"aliases":{"cin\u00e9":"\u6620\u753b@1"},', '{"aliases":{"e\u0301":"x@1"},']


def versions_seeds():
    yield from (b"\0" + text.encode() for text in MANIFESTS)
    yield from (b"\1" + (text.rstrip("\n,") + "}").encode() for text in ALIASES)
    yield from (b"\2" + text.encode() for text in ALIASES)


# ---------------------------------------------------------------- files of the data folder
def own(dtype, shape, tensors):
    """a .tensord file, which the store also writes with its data at a multiple of 64 bytes"""
    metadata = {"tensord": "1", "dtype": dtype, "shape": json.dumps(shape, separators=(",", ":")), "version": "7"}
    size = len(daemon.safetensors(tensors, metadata)) - sum(len(data) for _, _, data in tensors.values())
    return daemon.safetensors(tensors, metadata, pad=-size % 64)


def keyed_files():
    table, keys = ("int32", [2], bytes(8)), ("int64", [2], struct.pack("<2q", 7, -7))
    text = {"keys.offsets": ("int64", [3], struct.pack("<3q", 0, 0, 2)), "keys.bytes": ("uint8", [2], b"k\0")}
    for more in ({"keys": keys}, text, {"keys": ("uint64", [2], bytes(16))}, {"keys": ("int64", [1], bytes(8))}):
        yield b"\2" + daemon.safetensors({"t": table, **{"t." + name: part for name, part in more.items()}})
    yield b"\0" + own("int32", [2], {"tensor": table, "keys.index": ("uint8", [128], bytes(128)), "keys": keys})


def store_seeds():
    for dtype, stored in (*((d, d) for d in daemon.SAFETENSORS_NAMES), ("complex128", "float64")):
        parts = 2 if dtype == "complex128" else 1
        yield b"\0" + own(dtype, [2], {"tensor": (stored, [2 * parts], bytes(daemon.SIZES[stored] * 2 * parts))})
    offsets = struct.pack("<4Q", 0, 1, 1, 4)
    yield b"\0" + own("string", [3], {"offsets": ("uint64", [4], offsets), "bytes": ("uint8", [4], b"a\0bc")})
    yield b"\0" + own("float32", [0, 4], {"tensor": ("float32", [0], b"")})
    yield from keyed_files()
    for which, offset in itertools.product((0x80, 0x81, 0x82, 0x83, 0x86, 0x87), (0, 8, 40, 100, 300, 512, 576, 640, 768, 800, 850)):
        yield struct.pack("<BHB", which, offset, 1)
    yield from (b"\x80", b"\x82", b"\x83")
    yield from (b"\1" + seed for seed in npy_seeds())
    yield from (b"\2" + seed[1:] for seed in itertools.islice(safetensors_seeds(), 0, None, 8))


# ---------------------------------------------------------------- lists of floats
def floats_seeds():
    lists = ["1.5,-2.25,3,0.5]", "0.1, 0.2, 0.3, 0.4, 17]", "-0,0.0,16777216,16777217.0]", "1e5,2,3,4]", "01,2,3,4]", "1.,2,3,4]",
             "123456789012.345,0.0000000000001,9.9999999999999,-1]", "1,2,3]", "1,2,3,4,5,6,7,8,9", " 1,2,3,4]", "1,2,,4]", "[1,2]"]
    for choice, text in itertools.product((0, 1, 254), lists):
        yield bytes([choice]) + text.encode()


# ---------------------------------------------------------------- compressed bodies
def inflate_seeds():
    text = b'{"params":[1,2,3],"indices":[0]}' * 40
    yield b"\0" + text
    yield b"\0" + text[1:]
    for window, choice in itertools.product((31, 15, -15), (1, 255)):
        deflated = zlib.compressobj(9, zlib.DEFLATED, window)
        body = deflated.compress(text) + deflated.flush()
        yield from (bytes([choice]) + seed for seed in (body, body[:-3], body + body, body + b"x"))


# ---------------------------------------------------------------- headers
HEADERS = [["bytes=0-9", "bytes=-5", "bytes=5-", "bytes=, 3-4 ,", "bytes=99-", "bytes=1-2,4-5", "lines=1-2", "bytes=18446744073709551616-"],
           ["application/json; charset=utf-8", "application/x-npy;q=0.5, */*;q=0.1", "application/vnd.safetensors", "text/html, application/*;q=0"],
           ["gzip;q=0.8, deflate", "*;q=0, gzip", "identity, , x;q=1.000", "gzip; q=2"],
           ['"abc"', 'W/"abc", "x"', "*", '"abc', ' "a,b" , "abc" '],
           ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "vendor=1,tenant@system=a b", "a=1, ,b=2"],
           ["localhost:8080\nhttps://app.example", "[::1]:80", "127.0.0.1\nhttp://127.0.0.1:80", "a.localhost.", "evil.example\nnull"],
           ["10.0.0.0/8,::1\n203.0.113.7, 10.1.2.3", "127.0.0.1\n[2001:db8::1]:443,127.0.0.1", "10.0.0.0/33", "\n"],
           ["/v1/ops", "http://localhost:80/v1/ops", "*", "/a%2Fb%00", "http://u@h/", "%41%zz", "https://[::1]"]]


def headers_seeds():
    for number, texts in enumerate(HEADERS):
        yield from (bytes([number]) + text.encode() for text in texts)


# ---------------------------------------------------------------- configuration
def config_seeds():
    yield from (text.encode() for text in (
        '{"workers":2,"max-body":"1M","compress":true,"listen":["127.0.0.1:0","[::1]:80"],"allow-host":[]}', '{"a":1}', "{", '{"workers":1,}',
        '{"workers":1,"workers":2}', "{}\0--workers=2\0--max-body\0" + "2K\0\0TENSORD_COMPRESS=on\0TENSORD_WORKERS=3\0",
        "{}\0--listen\0[::1]:0\0--listen=localhost:1\0--access-log=0.5\0--no-compress\0", "{}\0-v\0", "{}\0--isa=avx2\0--gpu\0reference:memory=1M\0",
        '{"max-body":9007199254740993,"verify":"off","trace-sample":0.25}', '{"otlp-header":["a=b"],"otlp-endpoint":"http://u:p@h:1"}',
        "[]", "{}\0--memory-limit=9223372036854775807\0--pool-limit=8388608T\0"))


# ---------------------------------------------------------------- control groups
def cgroup_seeds():
    two = "36 35 98:0 / /cg rw,noatime shared:1 - cgroup2 cgroup2 rw\n"
    one = "36 35 98:0 / /cg rw - cgroup cgroup rw,memory\n37 35 98:1 / /cg rw - cgroup cgroup rw,cpu,cpuacct\n"
    for texts in (("0::/g\n", two, "150000 100000\n", "", "", "1073741824\n", ""), ("0::/g\n", two, "max 100000\n", "", "", "max\n", "7\n"),
                  ("4:memory:/g\n5:cpu,cpuacct:/g\n", one, "", "250000\n", "100000\n", "", "9223372036854771712\n"),
                  ("0::/../x\n", two, "9 9", "-1\n", "0", "99999999999999999999", "\n"), ("0::/a\\040b\n", two.replace(" / ", " /a\\040b "))):
        yield "\0".join(texts).encode()


# ---------------------------------------------------------------- names
def names_seeds():
    yield from (text.encode() for text in (
        "movies\nmodel:w@20261122\nw.keys@v", "v9\nv10\nv09", "1.10\n1.9\n1.9-a", "a.scale@v\na@v.scale\na@v.keys", "caf\u00e9\ncafe\u0301\n\u202ea",
        "m.npy\nm.keys.npy\nm@v.npy", "a:b:c@1\n:a\na:", "m.tensord\nm.safetensors\n.hidden.npy", "a" * 129 + "\n" + "a@" + "b" * 65 + "\n@"))


# ---------------------------------------------------------------- HTTP
def http_seeds():
    post = daemon.http_request
    body = b'{"params":[1,2],"indices":[1]}'
    binary = daemon.safetensors({"params": ("int32", [2], bytes(8)), "indices": ("int32", [1], bytes(4))})
    deflated = zlib.compressobj(9, zlib.DEFLATED, 31)
    gzip = deflated.compress(body) + deflated.flush()
    infer = (b'{"inputs":[{"name":"params","datatype":"INT32","shape":[2],"data":[5,6]},'
             b'{"name":"indices","datatype":"INT32","shape":[1],"parameters":{"binary_data_size":4}}]}')
    chunked = b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1e\r\n" + body + b"\r\n0\r\n\r\n"
    requests = [
        post("POST", "/v1/gather", body), post("POST", "/v1/gather?axis=0&bounds=clip&response=flat&timing=1", body),
        post("POST", "/v1/gather", binary, ["Content-Type: application/vnd.safetensors", "Accept: application/vnd.safetensors;q=0.5, */*;q=0.1"]),
        post("POST", "/v1/gather", gzip, ["Content-Encoding: gzip", "Accept-Encoding: gzip, deflate;q=0.5"]),
        post("POST", "/v1/gather", body, ["Expect: 100-continue", "X-Request-Timeout-Ms: 1000", "X-Request-Id: abc"]),
        post("POST", "/v1/einsum", b'{"equation":"ij,jk->ik","inputs":[{"ref":"t"},[[1,2],[3,4]]],"store":"x"}'),
        post("POST", "/v1/einsum/plan", b'{"equation":"ij,jk->ik","shapes":[[2,3],[3,4]]}'),
        post("POST", "/v1/lookup", b'{"params":["a","b"],"keys":[3,1],"queries":[1,2],"missing":"default","default":"c"}'),
        post("POST", "/v1/embedding_bag", b'{"params":[[1,2],[3,4]],"indices":[1,0,1],"segment_ids":[0,0,2],"weights":[1,2,3],"mode":"mean"}'),
        post("POST", "/v1/top_k", b'{"x":[3,1,2],"k":2,"device":"auto"}'),
        post("PUT", "/v1/tensors/a", b"[[1,2],[3,4]]"), post("PUT", "/v1/tensors/caf%C3%A9", b"[1]"), post("PUT", "/v1/tensors/e%CC%81", b"[1]"),
        post("PUT", "/v1/tensors/b?device=cpu", daemon.npy("<f4", [2], bytes(8)), ["Content-Type: application/x-npy"]),
        post("GET", "/v1/tensors/t?response=nested", b"", ["Range: bytes=0-9", 'If-Match: "x", *', "If-None-Match: W/\"y\""]),
        post("GET", "/v1/tensors/t", b"", ["Accept: application/x-npy", "If-Range: \"x\"", "Range: bytes=-5"]),
        post("POST", "/v1/gather", b'{"params":{"ref":"t"},"indices":{"keys":[7,10]}}'),
        post("POST", "/v1/lookup", b'{"params":{"ref":"s"},"queries":["k","no"],"missing":"zero"}'), post("GET", "/v1/tensors/s/keys"),
        post("PUT", "/v1/tensors/t/keys", b'["a","b","c",""]'), post("DELETE", "/v1/tensors/s/keys"),
        post("PUT", "/v1/tensors/a", b'{"tensor":[[1],[2]],"keys":[3,4]}'),
        post("POST", "/v1/tensors/t/scatter", b'{"indices":[[1]],"updates":[[7,8]]}'), post("DELETE", "/v1/tensors/t"),
        post("GET", "/v1/tensors"), post("HEAD", "/v1/tensors/t"), post("GET", "/v1/ops/%67ather"), post("GET", "/v1/devices"),
        post("GET", "/healthz"), post("GET", "/readyz"), post("GET", "/problems/index-out-of-bounds"),
        post("POST", "/v2/models/gather/infer", infer + bytes(4), ["Inference-Header-Content-Length: %d" % len(infer)]),
        post("GET", "/v2"), post("GET", "/v2/models/gather/versions/1/ready"), post("GET", "/v2/models/gather/config"), post("GET", "/v2/models/stats"),
        post("POST", "/v2/repository/index", b'{"ready":true}'), post("POST", "/v2/repository/models/gather/load", b""),
        post("GET", "/v2/systemsharedmemory/status"),
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET http://localhost/v1/ops HTTP/1.1\r\nHost: x\r\n\r\n",
        post("OPTIONS", "/v1/gather", b"", ["Origin: https://app.example.com", "Access-Control-Request-Method: POST"]),
        post("GET", "/v1/ops", b"", ["Origin: null", "Sec-Fetch-Site: cross-site"]), b"GET /healthz HTTP/1.0\r\n\r\n", chunked,
        b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"GET /v1/ops?a=%00&b=%zz HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\n\r\n",
    ]
    for i, request in enumerate(requests):
        yield bytes([0 if i % 3 else 16]) + request
    yield b"\0" + b"".join(requests[:8])


# ---------------------------------------------------------------- main
def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    wanted = sys.argv[2:] or [name[:-len("_seeds")] for name in globals() if name.endswith("_seeds")]
    for target in wanted:
        folder = os.path.join(sys.argv[1], target)
        os.makedirs(folder, exist_ok=True)
        for number, seed in enumerate(globals()[target + "_seeds"]()):
            with open(os.path.join(folder, f"{number:04}"), "wb") as out:
                out.write(seed)


if __name__ == "__main__":
    main()
