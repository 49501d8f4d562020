"""Binary requests and replies: safetensors, content negotiation, compressed bodies."""
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

    def test_octet_stream_means_safetensors(self):
        self.assertBinary(self.post("/v1/gather", BODY, {"Content-Type": "application/octet-stream"}), *PICKED)

    def test_every_dtype_of_the_format_is_returned_bit_for_bit(self):
        rng = random.Random(SEED)
        for dtype in SAFETENSORS_NAMES:
            with self.subTest(dtype=dtype):
                size = SIZES[dtype]
                raw = bytes(rng.randrange(2) for _ in range(12)) if dtype == "bool" else rng.randbytes(12 * size)
                body = safetensors({"params": (dtype, (4, 3), raw), "indices": PICK})
                row = 3 * size
                self.assertBinary(self.post("/v1/gather", body, BINARY), dtype, (2, 3), raw[2 * row:3 * row] + raw[:row])

    def test_attributes_in_the_query_string(self):
        reply = self.post("/v1/gather?axis=-1", safetensors({"params": ROWS, "indices": ("int64", (1,), pack("int64", [1]))}),
                           BINARY)
        self.assertBinary(reply, "int32", (3, 1), pack("int32", [2, 4, 6]))

    def test_attributes_in_metadata(self):
        body = safetensors({"params": ROWS, "indices": ("int16", (1,), pack("int16", [1]))}, {"axis": "1"})
        self.assertBinary(self.post("/v1/gather", body, BINARY), "int32", (3, 1), pack("int32", [2, 4, 6]))

    def test_another_value_of_an_attribute_in_the_query_string_is_refused(self):
        body = safetensors({"params": ROWS, "indices": PICK}, {"axis": "0"})
        self.assertStatus(self.post("/v1/gather?axis=0", body, BINARY), 200)
        problem = self.assertProblem(self.post("/v1/gather?axis=1", body, BINARY), 400, "MALFORMED_REQUEST")
        self.assertIn("axis", problem["detail"])

    def test_unknown_metadata_is_refused_with_a_suggestion(self):
        body = safetensors({"params": ROWS, "indices": PICK}, {"axsi": "0"})
        self.assertProblem(self.post("/v1/gather", body, BINARY), 400, "MALFORMED_REQUEST")

    def test_a_ref_in_metadata_is_an_input(self):
        with Daemon("--data-dir", TABLES) as daemon, Client(daemon) as client:
            body = safetensors({"indices": PICK}, {"params.ref": "table"})
            reply = client.post("/v1/gather", body, BINARY)
            self.assertBinary(reply, "float32", (2, 2), pack("float32", [5, 6, 1, 2]))
            body = safetensors({"indices": PICK}, {"params.ref": "tabel-that-is-not"})
            self.assertProblem(client.post("/v1/gather", body, BINARY), 404, "TENSOR_NOT_FOUND")
            body = safetensors({"params": ROWS, "indices": PICK}, {"params.ref": "table"})
            self.assertProblem(client.post("/v1/gather", body, BINARY), 400, "MALFORMED_REQUEST")

    def test_replaced_indices_are_reported_in_metadata(self):
        body = safetensors({"params": ROWS, "indices": ("int32", (2,), pack("int32", [9, 0]))})
        metadata = self.assertBinary(self.post("/v1/gather?bounds=zero", body, BINARY), "int32", (2, 2),
                                     pack("int32", [0, 0, 1, 2]))
        self.assertEqual(metadata, {"bounds.policy": "zero", "bounds.replaced": "1"})
        self.assertNotIn("bounds.policy", self.assertBinary(self.post("/v1/gather?bounds=zero", BODY, BINARY), *PICKED))

    def test_scalars_and_empty_tensors(self):
        body = safetensors({"params": ROWS, "indices": ("int32", (), pack("int32", [1]))})
        self.assertBinary(self.post("/v1/gather", body, BINARY), "int32", (2,), pack("int32", [3, 4]))
        body = safetensors({"params": ROWS, "indices": ("int32", (0,), b"")})
        self.assertBinary(self.post("/v1/gather", body, BINARY), "int32", (0, 2), b"")
        body = safetensors({"params": ("float32", (3, 0), b""), "indices": PICK})
        self.assertBinary(self.post("/v1/gather", body, BINARY), "float32", (2, 0), b"")

    def test_data_may_have_any_alignment(self):
        for pad in range(9):
            for head in range(1, 5):
                body = safetensors({"params": ("uint8", (3, head), bytes(range(3 * head))),
                                    "indices": ("int64", (2,), pack("int64", [2, 1]))}, pad=pad)
                expected = bytes(range(2 * head, 3 * head)) + bytes(range(head, 2 * head))
                self.assertBinary(self.post("/v1/gather", body, BINARY), "uint8", (2, head), expected)

    def test_tensors_may_have_any_order_in_header_and_data(self):
        body = safetensors({"indices": PICK, "params": ROWS})
        self.assertBinary(self.post("/v1/gather", body, BINARY), *PICKED)
        raw = PICK[2] + ROWS[2]
        header = '{"params":{"dtype":"I32","shape":[3,2],"data_offsets":[8,32]},"indices":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}'
        self.assertBinary(self.post("/v1/gather", safetensors_file(header, raw), BINARY), *PICKED)

    def test_errors_of_binary_requests_are_problem_documents(self):
        body = safetensors({"params": ROWS, "indices": ("int32", (2,), pack("int32", [0, 3]))})
        self.assertProblem(self.post("/v1/gather", body, {**BINARY, "Accept": SAFETENSORS}), 422, "INDEX_OUT_OF_BOUNDS",
                           position=[1], index=3, bound=3)

    def test_a_missing_input_is_refused(self):
        reply = self.post("/v1/gather", safetensors({"params": ROWS}), BINARY)
        problem = self.assertAnyProblem(reply)
        self.assertIn(reply.status, (400, 422))
        self.assertIn("indices", problem["detail"])

    def test_an_unknown_input_is_refused_with_a_suggestion(self):
        body = safetensors({"params": ROWS, "indexes": PICK})
        self.assertProblem(self.post("/v1/gather", body, BINARY), 400, "MALFORMED_REQUEST", did_you_mean="indices")

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
        for binary, accept, expected in (
                (False, None, JSON), (True, None, SAFETENSORS),
                (False, "*/*", JSON), (True, "*/*", SAFETENSORS),
                (False, "application/*", JSON), (True, "application/*", SAFETENSORS),
                (False, SAFETENSORS, SAFETENSORS), (True, JSON, JSON),
                (False, "Application/VND.SafeTensors", SAFETENSORS), (True, "application/json; charset=utf-8", JSON),
                (False, "application/json;q=0.5, application/vnd.safetensors;q=0.9", SAFETENSORS),
                (True, "application/json;q=0.9,application/vnd.safetensors;q=0.5", JSON),
                (True, "application/json , text/plain , */*;q=0.1", JSON),
                (False, "text/html, application/vnd.safetensors;q=0.2", SAFETENSORS),
                (True, "application/vnd.safetensors;q=0, */*", JSON),
                (False, "application/json;q=0, */*;q=0.1", SAFETENSORS),
                (False, "*/*;q=0.5, application/vnd.safetensors", SAFETENSORS),
                (True, "application/vnd.safetensors, application/json", SAFETENSORS),
                (False, "application/vnd.safetensors, application/json", JSON),
                (False, "application/json, text/plain, */*", JSON),
                (False, "application/json;q=1.000", JSON), (False, ", ,application/json,,", JSON)):
            with self.subTest(request="safetensors" if binary else "json", accept=accept):
                reply = self.replies(binary, accept)
                if expected == JSON:
                    self.assertOutput(reply, "int32", [2, 2], [[5, 6], [1, 2]])
                else:
                    self.assertBinary(reply, *PICKED)

    def test_an_unsupported_format_is_not_acceptable(self):
        for accept in ("text/html", "image/*", "application/xml", "*/*;q=0", "application/json;q=0, application/vnd.safetensors;q=0.0"):
            for binary in (False, True):
                with self.subTest(accept=accept, binary=binary):
                    problem = self.assertProblem(self.replies(binary, accept), 406, "NOT_ACCEPTABLE")
                    self.assertIn("safetensors", problem["detail"])

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

    def test_complex64_has_a_binary_format_and_complex128_has_not(self):
        for dtype, status in (("complex64", 200), ("complex128", 406)):
            body = {"params": {"dtype": dtype, "shape": [1], "data": [[1, 2]]}, "indices": [0]}
            self.assertStatus(self.post("/v1/gather", body, {"Accept": SAFETENSORS}), status)

    def test_content_types_of_json(self):
        for content_type in ("application/json", "application/json; charset=utf-8", "Application/JSON;charset=\"UTF-8\"",
                             "application/x-www-form-urlencoded", "application/json ; x=y"):
            with self.subTest(content_type=content_type):
                reply = self.request("POST", "/v1/gather", json.dumps(AS_JSON).encode(), {"Content-Type": content_type})
                self.assertOutput(reply, "int32", [2, 2], [[5, 6], [1, 2]])

    def test_no_content_type_means_json(self):
        body = json.dumps(AS_JSON).encode()
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v1/gather", body))
            self.assertOutput(raw.reply(), "int32", [2, 2], [[5, 6], [1, 2]])

    def test_other_content_types_are_unsupported(self):
        for content_type in ("text/plain", "application/xml", "multipart/form-data; boundary=x", "image/png",
                             "application/jsonx", "application/json; charset=latin1", "json", "text/json/x"):
            with self.subTest(content_type=content_type):
                reply = self.request("POST", "/v1/gather", json.dumps(AS_JSON).encode(), {"Content-Type": content_type})
                self.assertProblem(reply, 415, "UNSUPPORTED_MEDIA_TYPE")


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

    def test_corrupt_bodies_are_refused(self):
        good = gzip.compress(self.TEXT)
        flipped = bytes([*good[:15], good[15] ^ 0x55, *good[16:]])
        wrong_sum = good[:-8] + bytes([good[-8] ^ 1]) + good[-7:]
        for name, encoding, body in (("not gzip", "gzip", self.TEXT), ("empty", "gzip", b""),
                                     ("half a header", "gzip", good[:5]), ("cut off", "gzip", good[:-9]),
                                     ("without its checksum", "gzip", good[:-8]), ("flipped bits", "gzip", flipped),
                                     ("wrong checksum", "gzip", wrong_sum), ("bytes after the end", "gzip", good + b"xx"),
                                     ("not deflate", "deflate", b"\xff" * 40),
                                     ("cut off", "deflate", zlib.compress(self.TEXT)[:-5])):
            with self.subTest(body=name, encoding=encoding):
                self.assertProblem(self.send(encoding, body), 400, "MALFORMED_REQUEST")
        self.assertServes()

    def test_a_body_that_is_not_compressed_is_told_so(self):
        for encoding in ("gzip", "deflate"):
            detail = self.assertProblem(self.send(encoding, self.TEXT), 400, "MALFORMED_REQUEST")["detail"]
            self.assertIn("nor zlib: it starts with " + self.TEXT[:4].hex(" ") + ". If it is not compressed, leave out Content-Encoding", detail)

    def test_other_codings_are_unsupported(self):
        for encoding in ("br", "zstd", "gzip, br", "banana"):
            with self.subTest(encoding=encoding):
                self.assertProblem(self.send(encoding, self.TEXT), 415, "UNSUPPORTED_MEDIA_TYPE")

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
