"""NULs inside names and values: a text ends after its length, not at a NUL, and messages show all of it."""
import copy, random, urllib.parse
from oip_client import *

TABLE = "nul-table"
INT = ("int32", (2,), pack("int32", [1, 0]))
PARAMS = {"name": "params", "datatype": "INT32", "shape": [2], "data": [10, 20]}
INDICES = {"name": "indices", "datatype": "INT32", "shape": [2], "data": [1, 0]}

# Valid requests with a text in every place where the server compares a client's text.
JSON_REQUESTS = [
    ("POST", "/v1/gather", {"params": [[1, 2], [3, 4]], "indices": [1], "axis": 1, "bounds": "clip", "device": "cpu",
                            "response": "flat", "timing": "true"}),
    ("POST", "/v1/gather", {"params": {"ref": TABLE}, "indices": {"dtype": "int64", "shape": [1], "base64": "AAAAAAAAAAA="}}),
    ("POST", "/v1/gather_nd", {"params": {"dtype": "string", "data": ["a", "b"]}, "indices": [[1]], "batch_dims": 0}),
    ("POST", "/v1/dynamic_stitch", {"indices": [[0], [1]], "data": [[1], {"dtype": "int32", "data": [2]}]}),
    ("POST", "/v1/dynamic_partition", {"data": [1, 2], "partitions": [0, 1], "num_partitions": 2}),
    ("POST", "/v1/einsum", {"equation": "ij,jk->ik", "inputs": [[[1]], {"dtype": "int32", "data": [[2]]}]}),
    ("POST", "/v1/einsum/plan", {"equation": "ij,jk->ik", "shapes": [[2, 3], [3, 4]], "dtype": "float32"}),
    ("POST", "/v1/gather", {"params": [1, 2], "indices": [1], "store": "nul-kept"}),
    ("PUT", "/v1/tensors/nul-put", {"dtype": "float32", "shape": [2], "data": [1, "Infinity"]}),
    ("POST", f"/v1/tensors/{TABLE}/scatter", {"indices": [[0]], "updates": [5], "mode": "set"}),
    ("POST", "/v2/models/gather/infer", {"id": "an id", "parameters": {"axis": 0, "bounds": "clip", "binary_data_output": False},
                                         "inputs": [PARAMS, INDICES], "outputs": [{"name": "output", "parameters": {"binary_data": False}}]}),
    ("POST", "/v2/models/gather/infer", {"parameters": {"params.ref": TABLE, "device": "cpu", "priority": 0, "timeout": 0},
                                         "inputs": [dict(INDICES, parameters={"content_type": "np"})]}),
    ("POST", "/v2/models/gather/infer", {"inputs": [{"name": "params", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}, INDICES]}),
    ("POST", "/v2/models/dynamic_stitch/infer", {"inputs": [dict(INDICES, name="indices.0"), dict(PARAMS, name="data.0")]}),
    ("POST", "/v2/models/dynamic_partition/infer", {"parameters": {"num_partitions": 2},
                                                    "inputs": [dict(PARAMS, name="data"), dict(INDICES, name="partitions")],
                                                    "outputs": [{"name": "outputs.1"}]}),
    ("POST", "/v2/models/einsum/infer", {"parameters": {"equation": "i,i->"},
                                         "inputs": [dict(PARAMS, name="inputs.0"), dict(INDICES, name="inputs.1")]}),
    ("POST", "/v2/repository/index", {"ready": True}),
    ("POST", "/v2/repository/models/gather/load", {"parameters": {"anything": "else"}}),
]


def texts(value, path=()):
    """the positions of all strings in a document: (path, whether it is a member's name)"""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), True
            yield from texts(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from texts(item, (*path, i))
    elif isinstance(value, str):
        yield path, False


def with_text(document, path, is_name, text):
    """a copy with another text at that position"""
    out = copy.deepcopy(document)
    at = out
    for step in path[:-1]:
        at = at[step]
    if is_name:
        items = [(text if k == path[-1] else k, v) for k, v in at.items()]
        at.clear()
        at.update(items)
    else:
        at[path[-1]] = text
    return out


class EmbeddedNuls(OipTest):
    options = ("--system-shared-memory", "--log-level=debug")

    def setUp(self):
        super().setUp()
        self.client = Client(self.daemon)
        self.addCleanup(self.client.close)
        self.assertIn(self.client.request("PUT", f"/v1/tensors/{TABLE}", b"[7, 8, 9]").status, (200, 201))

    def send(self, method, path, body, headers=None):
        reply = self.client.request(method, path, body, headers)
        if (reply.headers.get("Connection") or "").lower() == "close":
            self.client.close()
        return reply

    def same_as_unknown(self, method, path, changed, unknown, what, headers=None):
        """A text with a NUL is treated like an unknown text, or refused where a NUL is not allowed."""
        reply = self.send(method, path, changed, headers)
        expected = self.send(method, path, unknown, headers)
        self.assertIn(reply.status, (expected.status, 400), f"{method} {path} with a NUL in {what}: {reply}, not as {expected}")
        self.assertLess(reply.status, 500)
        if reply.type in (JSON, PROBLEM):
            reply.json()
        return reply


class Json(EmbeddedNuls):
    def test_all_requests_succeed_without_a_nul(self):
        for method, path, body in JSON_REQUESTS:
            reply = self.send(method, path, body)
            self.assertIn(reply.status, (200, 201), f"{path} {body}: {reply}")

    def test_a_text_with_a_nul_differs_from_its_prefix(self):
        rng = random.Random(SEED)
        for method, path, body in JSON_REQUESTS:
            for place, is_name in texts(body):
                text = place[-1] if is_name else body
                for step in () if is_name else place:
                    text = text[step]
                for at in sorted({0, len(text), rng.randrange(len(text) + 1)}):
                    tail = rng.choice(("", "x", "\0", text, "x" * rng.randrange(20, 9000)))
                    changed, unknown = (with_text(body, place, is_name, text[:at] + letter + tail + text[at:])
                                        for letter in ("\0", "?"))
                    self.same_as_unknown(method, path, changed, unknown, f"{place} at {at}")
        self.assertServes(self.client)

    def test_messages_show_a_nul_and_the_text_after_it(self):
        def v2(op="gather", **members):
            return f"/v2/models/{op}/infer", {"inputs": [PARAMS, INDICES], **members}
        good = {"params": [1], "indices": [0]}
        for path, body in (
                v2(inputs=[dict(PARAMS, name="par\0ams")]), v2(inputs=[dict(PARAMS, datatype="par\0ams")]),
                v2(outputs=[{"name": "par\0ams"}]), v2(parameters={"par\0ams": 1}), v2(parameters={"triton_par\0ams": 1}),
                v2(parameters={"bounds": "par\0ams"}), v2(parameters={"device": "par\0ams"}), v2(parameters={"par\0ams": []}),
                v2(inputs=[INDICES], parameters={"params.ref": "par\0ams"}),
                v2(inputs=[INDICES, dict(PARAMS, data=None, parameters={"shared_memory_region": "par\0ams", "shared_memory_byte_size": 8})]),
                v2(**{"other": {"par\0ams": 1, "par\0amz": 2}, "par\0ams": 1, "inputs": [dict(PARAMS, name="par\0ams")]}),
                v2("einsum", inputs=[dict(PARAMS, name="inputs.0")], parameters={"equation": "par\0ams"}),
                ("/v1/gather", {**good, "par\0ams": 1}), ("/v1/gather", {**good, "bounds": "par\0ams"}),
                ("/v1/gather", {**good, "store": "par\0ams"}), ("/v1/gather", {**good, "params": {"ref": "par\0ams"}}),
                ("/v1/gather", {**good, "params": {"dtype": "par\0ams", "data": [1]}}),
                ("/v1/gather", {**good, "params": {"data": [1], "par\0ams": 1}}),
                ("/v1/einsum/plan", {"equation": "i", "shapes": [[1]], "par\0ams": 1}),
                ("/v1/einsum/plan", {"equation": "par\0ams", "shapes": [[1]]})):
            with self.subTest(path=path, body=body):
                reply = self.send("POST", path, body)
                self.assertIn(reply.status, (400, 404), str(reply))
                document = reply.json()
                self.assertIn("par\\u0000am", document["error" if path.startswith("/v2") else "detail"])

    def test_a_pointer_may_name_a_member_with_a_nul(self):
        problem = self.assertProblem(self.send("POST", "/v1/gather", {"par\0ams": 1}), 400, "MALFORMED_REQUEST")
        self.assertEqual((problem["pointer"], problem["attribute"]), ("/par\0ams", "par\\u0000ams"))
        document = self.assertError(self.send("POST", "/v2/models/gather/infer", {"parameters": {"ax\0is": 1}}), 400)
        self.assertEqual(document["pointer"], "/parameters/ax\0is")


class Binary(EmbeddedNuls):
    def files(self, name, note, value, dtype="I32"):
        tensors = {name: (dtype, *INT[1:]), "indices": INT}
        return safetensors(tensors, {note: value})

    def test_names_in_safetensors_with_a_nul_are_unknown(self):
        for at in range(7):
            for tail in ("", "x", "x" * 5000):
                for text in (lambda s: self.files(s("params"), "bounds", "clip"), lambda s: self.files("params", s("bounds"), "clip"),
                             lambda s: self.files("params", "bounds", s("clip")), lambda s: self.files("params", "bounds", "clip", s("I32"))):
                    changed, unknown = (text(lambda word: word[:at] + letter + tail + word[at:]) for letter in ("\0", "?"))
                    reply = self.same_as_unknown("POST", "/v1/gather", changed, unknown, f"a safetensors file at {at}",
                                                  {"Content-Type": SAFETENSORS})
                    self.assertStatus(reply, 400)
        self.assertStatus(self.send("POST", "/v1/gather", self.files("params", "bounds", "clip"), {"Content-Type": SAFETENSORS}), 200)

    def test_types_and_keys_in_npy_with_a_nul_are_invalid(self):
        good = npy("int32", (2,), INT[2])
        self.assertIn(self.send("PUT", "/v1/tensors/nul-npy", good, {"Content-Type": "application/x-npy"}).status, (200, 201))
        for at in range(10, len(good) - len(INT[2])):
            body = good[:at] + b"\0" + good[at + 1:]
            reply = self.send("PUT", "/v1/tensors/nul-npy", body, {"Content-Type": "application/x-npy"})
            self.assertAnyProblem(reply)
            self.assertStatus(reply, 400)
        reply = self.send("PUT", "/v1/tensors/nul-npy", npy("<i\x004", (2,), INT[2]), {"Content-Type": "application/x-npy"})
        self.assertIn("'<i\\u00004'", reply.json()["detail"])


class Addresses(EmbeddedNuls):
    BODY = {"params": [1, 2], "indices": [0]}
    ARGUMENTS = {"axis": "0", "bounds": "clip", "device": "cpu", "response": "flat", "timing": "1", "store": "nul-kept"}

    def test_a_query_argument_with_a_nul_differs_from_its_prefix(self):
        cases = [("POST", "/v1/gather", self.BODY, self.ARGUMENTS), ("GET", f"/v1/tensors/{TABLE}", None, {"response": "flat"}),
                 ("PUT", "/v1/tensors/nul-put", b"[1]", {"device": "cpu", "persist": "0"}),
                 ("POST", "/v1/einsum", {"inputs": [[1]]}, {"equation": "i"})]
        for method, path, body, arguments in cases:
            for name, value in arguments.items():
                self.assertIn(self.send(method, f"{path}?{name}={value}", body).status, (200, 201), name)
                for texts_of in (lambda s: (s(name), value), lambda s: (name, s(value))):
                    for at in (0, 1, 99):
                        for tail in ("", "x", "x" * 3000):
                            changed, unknown = ("=".join(map(urllib.parse.quote, texts_of(lambda t: t[:at] + letter + tail + t[at:])))
                                                for letter in ("\0", "?"))
                            reply = self.send(method, f"{path}?{changed}", body)
                            expected = self.send(method, f"{path}?{unknown}", body)
                            self.assertIn(reply.status, (expected.status, 400), f"{changed}: {reply}, not as {expected}")
                            self.assertProblem(reply, 400, "MALFORMED_REQUEST")

    def test_messages_show_the_nul_of_a_query_argument(self):
        for method, path, body in (("POST", "/v1/gather?ax%00is=1", self.BODY), ("POST", "/v1/gather?bounds=ax%00is", self.BODY),
                                   ("POST", "/v1/gather?axis=ax%00is", self.BODY), ("GET", f"/v1/tensors/{TABLE}?ax%00is=1", None),
                                   ("PUT", f"/v1/tensors/{TABLE}?persist=ax%00is", b"[1]")):
            problem = self.assertProblem(self.send(method, path, body), 400, "MALFORMED_REQUEST")
            self.assertIn("ax\\u0000is", problem["detail"])

    def test_a_path_with_a_nul_differs_from_its_prefix(self):
        for path in ("/healthz", "/v1/gather", f"/v1/tensors/{TABLE}", "/v1/ops/gather", "/v2/models/gather/infer", "/v2/models/gather",
                     "/v2/models/gather/versions/1", "/v2/systemsharedmemory/region/r/register", "/problems/not-found"):
            for at in range(1, len(path) + 1, 3):
                with Client(self.daemon) as client:
                    reply = client.request("GET", path[:at] + "%00" + path[at:])
                    self.assertIn((reply.status, reply.json()["code"]),
                                  ((400, "MALFORMED_REQUEST"), (404, "NOT_FOUND"), (404, "UNKNOWN_OP")), f"{path} at {at}")

    def test_a_header_with_a_nul_is_refused(self):
        body = json.dumps(self.BODY).encode()
        for name, value in (("Content-Type", JSON), ("Accept", JSON), ("Accept-Encoding", "gzip"), ("Content-Encoding", "identity"),
                            ("X-Request-Id", "abc"), ("X-Request-Timeout-Ms", "1000"), ("traceparent", "00-1-2-00"), ("If-Match", '"a"'),
                            ("If-None-Match", "*"), ("Range", "bytes=0-1"), ("Expect", "100-continue"), (HEADER, "10")):
            for at in (0, 1, len(value)):
                with Raw(self.daemon) as raw:
                    raw.send(http_request("POST", "/v1/gather", body, (f"{name}: {value[:at]}\0{value[at:]}",)))
                    reply = raw.reply()
                    self.assertTrue(reply is None or reply.status == 400, f"{name}: {reply}")
        self.assertServes(self.client)
