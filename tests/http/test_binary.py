"""Binary requests and replies as clients see them: safetensors, content negotiation, compressed bodies. The formats themselves are tested in
process: tests/api/test_codec.c, tests/api/files/, tests/server/compression/."""
import gzip, os, random, zlib
from daemon import *

TABLES = temporary_folder()
ROWS = ("int32", (3, 2), pack("int32", [1, 2, 3, 4, 5, 6]))
PICK = ("int32", (2,), pack("int32", [2, 0]))
PICKED = ("int32", (2, 2), pack("int32", [5, 6, 1, 2]))
BODY = safetensors({"params": ROWS, "indices": PICK})
AS_JSON = {"params": [[1, 2], [3, 4], [5, 6]], "indices": [2, 0]}
BINARY = {"Content-Type": SAFETENSORS}


def setUpModule():
    with open(os.path.join(TABLES, "table.npy"), "wb") as f:
        f.write(npy("float32", (3, 2), pack("float32", [1, 2, 3, 4, 5, 6])))


class Binary(HttpTest):
    def test_a_safetensors_request_has_a_safetensors_reply(self):
        self.assertBinary(self.post("/v1/gather", BODY, BINARY), *PICKED)

    def test_a_ref_in_metadata_is_an_input(self):
        with Daemon("--data-dir", TABLES) as daemon, Client(daemon) as client:
            body = safetensors({"indices": PICK}, {"params.ref": "table"})
            reply = client.post("/v1/gather", body, BINARY)
            self.assertBinary(reply, "float32", (2, 2), pack("float32", [5, 6, 1, 2]))
            body = safetensors({"indices": PICK}, {"params.ref": "tabel-that-is-not"})
            self.assertProblem(client.post("/v1/gather", body, BINARY), 404, "TENSOR_NOT_FOUND")
            body = safetensors({"params": ROWS, "indices": PICK}, {"params.ref": "table"})
            self.assertProblem(client.post("/v1/gather", body, BINARY), 400, "MALFORMED_REQUEST")

    def test_data_may_have_any_alignment(self):
        for pad in range(9):
            for head in range(1, 5):
                body = safetensors({"params": ("uint8", (3, head), bytes(range(3 * head))),
                                    "indices": ("int64", (2,), pack("int64", [2, 1]))}, pad=pad)
                expected = bytes(range(2 * head, 3 * head)) + bytes(range(head, 2 * head))
                self.assertBinary(self.post("/v1/gather", body, BINARY), "uint8", (2, head), expected)

    def test_errors_of_binary_requests_are_problem_documents(self):
        body = safetensors({"params": ROWS, "indices": ("int32", (2,), pack("int32", [0, 3]))})
        self.assertProblem(self.post("/v1/gather", body, {**BINARY, "Accept": SAFETENSORS}), 422, "INDEX_OUT_OF_BOUNDS",
                           position=[1], index=3, bound=3)

    def test_a_large_tensor_is_returned_complete(self):
        rng = random.Random(SEED)
        raw = rng.randbytes(1000 * 4096)
        order = [rng.randrange(1000) for _ in range(3000)]
        body = safetensors({"params": ("uint8", (1000, 4096), raw), "indices": ("int32", (3000,), pack("int32", order))})
        expected = b"".join(raw[i * 4096:(i + 1) * 4096] for i in order)
        self.assertBinary(self.post("/v1/gather", body, BINARY), "uint8", (3000, 4096), expected)


class Negotiation(HttpTest):
    def replies(self, binary, accept):
        headers = {"Content-Type": SAFETENSORS if binary else JSON}
        if accept is not None:
            headers["Accept"] = accept
        return self.post("/v1/gather", BODY if binary else AS_JSON, headers)

    def test_accept_determines_the_format_of_the_reply(self):
        for binary, accept, expected in ((False, None, JSON), (True, None, SAFETENSORS), (False, SAFETENSORS, SAFETENSORS), (True, JSON, JSON)):
            with self.subTest(request="safetensors" if binary else "json", accept=accept):
                reply = self.replies(binary, accept)
                if expected == JSON:
                    self.assertOutput(reply, "int32", [2, 2], [[5, 6], [1, 2]])
                else:
                    self.assertBinary(reply, *PICKED)

    def test_a_malformed_accept_header_does_no_harm(self):
        for accept in (";;;", "q=1", "application/json;q=", "application/json;q=banana", "*/*;q=2", "a/b/c", "application/json;q=-1",
                       "/", "*", "," * 4000, "application/json;" * 500):
            with self.subTest(accept=accept[:30]):
                self.assertIn(self.replies(False, accept).status, (200, 400, 406))

    def test_several_lines_of_accept_are_one_list(self):
        for lines in ((SAFETENSORS, "text/html"), ("text/html", SAFETENSORS), (f"{JSON};q=0.5", SAFETENSORS, "")):
            with self.subTest(lines=lines), Raw(self.daemon) as raw:
                raw.send(http_request("POST", "/v1/gather", json.dumps(AS_JSON).encode(), [f"Accept: {line}" for line in lines]))
                reply = raw.reply()
                self.assertEqual((reply.status, reply.type), (200, SAFETENSORS), str(reply))

    def test_strings_have_no_binary_format(self):
        reply = self.post("/v1/gather", {"params": ["a"], "indices": [0]}, {"Accept": SAFETENSORS})
        self.assertProblem(reply, 406, "NOT_ACCEPTABLE")

    def test_strings_are_sent_as_json_if_the_client_accepts_it(self):
        for accept in (f"{SAFETENSORS}, application/json;q=0.5", f"{SAFETENSORS}, */*;q=0.1"):
            reply = self.post("/v1/gather", {"params": ["a"], "indices": [0]}, {"Accept": accept})
            self.assertOutput(reply, "string", [1], ["a"])

    def test_no_content_type_means_json(self):
        body = json.dumps(AS_JSON).encode()
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v1/gather", body))
            self.assertOutput(raw.reply(), "int32", [2, 2], [[5, 6], [1, 2]])


class Compression(HttpTest):
    options = ("--max-body", "1M")
    TEXT = json.dumps(AS_JSON).encode()

    def send(self, encoding, body, content_type=JSON):
        return self.request("POST", "/v1/gather", body, {"Content-Type": content_type, "Content-Encoding": encoding})

    def test_gzip_and_deflate_bodies_are_read(self):
        for encoding, body in (("gzip", gzip.compress(self.TEXT)), ("deflate", zlib.compress(self.TEXT)),
                               ("GZIP", gzip.compress(self.TEXT)), ("x-gzip", gzip.compress(self.TEXT)),
                               ("identity", self.TEXT)):
            with self.subTest(encoding=encoding):
                self.assertOutput(self.send(encoding, body), "int32", [2, 2], [[5, 6], [1, 2]])

    def test_binary_bodies_may_be_compressed(self):
        self.assertBinary(self.send("gzip", gzip.compress(BODY), SAFETENSORS), *PICKED)

    def test_a_body_that_expands_beyond_the_limit_is_too_large(self):
        for encoding, pack_ in (("gzip", gzip.compress), ("deflate", zlib.compress)):
            for size in ((1 << 20) + 1, 200 << 20):
                with self.subTest(encoding=encoding, size=size):
                    body = pack_(b" " * size)
                    self.assertLess(len(body), 1 << 20)
                    self.assertProblem(self.send(encoding, body), 413, "PAYLOAD_TOO_LARGE", limit=1 << 20)
        self.assertServes()

    def test_a_body_that_expands_to_exactly_the_limit_is_accepted(self):
        text = self.TEXT + b" " * ((1 << 20) - len(self.TEXT))
        self.assertOutput(self.send("gzip", gzip.compress(text)), "int32", [2, 2], [[5, 6], [1, 2]])

    def test_a_body_that_is_not_compressed_is_told_so(self):
        for encoding in ("gzip", "deflate"):
            detail = self.assertProblem(self.send(encoding, self.TEXT), 400, "MALFORMED_REQUEST")["detail"]
            self.assertIn("nor zlib: it starts with " + self.TEXT[:4].hex(" ") + ". If it is not compressed, leave out Content-Encoding", detail)

    def test_compressed_bodies_may_be_chunked(self):
        body = gzip.compress(self.TEXT)
        chunks = b"".join(b"%x\r\n%s\r\n" % (1, body[i:i + 1]) for i in range(len(body))) + b"0\r\n\r\n"
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
            self.assertOutput(raw.reply(), "int32", [2, 2], [[5, 6], [1, 2]])

    def test_replies_are_not_compressed_unless_configured(self):
        reply = self.post("/v1/gather", AS_JSON, {"Accept-Encoding": "gzip, deflate, br"})
        self.assertIsNone(reply.headers.get("Content-Encoding"))
        self.assertOutput(reply, "int32", [2, 2], [[5, 6], [1, 2]])
