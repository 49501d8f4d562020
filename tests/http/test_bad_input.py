"""Invalid bodies: each gets one well-formed error that names the way out, and other connections are not affected. Every kind of invalid JSON
and safetensors is tested in process: tests/api/json/, tests/api/files/, tests/fuzz/."""
import gzip, random, threading
from daemon import *

GOOD = b'{"params":{"dtype":"float32","shape":[2,2],"data":[1.5,-2,3e1,"NaN"]},"indices":[[1,0],[0,1]],"axis":1,"bounds":"clip"}'
ROWS = ("int32", (3, 2), pack("int32", [1, 2, 3, 4, 5, 6]))
PICK = ("int64", (2,), pack("int64", [2, 0]))
BINARY = {"Content-Type": SAFETENSORS}
HUGE = 9223372036854775807


class BadInput(HttpTest):
    """sends on one connection, which must stay usable; beside each request a second client sends a valid one"""

    def setUp(self):
        super().setUp()
        self.client = Client(self.daemon)
        self.addCleanup(self.client.close)

    @classmethod
    def setUpClass(cls):
        cls.turns, cls.ended, cls.wrong, cls.n_turns, cls.n_right = threading.Semaphore(0), False, [], 0, 0
        daemon = shared(*cls.options)

        def send_valid():
            body = {"params": [[1, 2], [3, 4]], "indices": [1]}
            with Client(daemon) as client:
                while cls.turns.acquire() and not cls.ended:
                    try:
                        reply = client.post("/v1/gather", body)
                        right = reply.status == 200 and reply.json()["output"]["data"] == [[3, 4]]
                    except (OSError, ValueError, http.client.HTTPException) as e:
                        reply, right = e, False
                    cls.n_right += right
                    if not right:
                        cls.wrong.append(str(reply))
        cls.second_client = threading.Thread(target=send_valid, daemon=True)
        cls.second_client.start()
        cls.take_turn()
        eventually(lambda: cls.n_right or cls.wrong)  # its connection is open before the first test

    @classmethod
    def take_turn(cls):
        """the second client sends a request"""
        cls.n_turns += 1
        cls.turns.release()

    @classmethod
    def tearDownClass(cls):
        eventually(lambda: cls.n_right + len(cls.wrong) == cls.n_turns, "that the second client has had all replies")
        cls.ended = True
        cls.turns.release()
        cls.second_client.join(WAIT_LIMIT)
        if cls.wrong:
            raise AssertionError(f"the second client got wrong replies: {cls.wrong[:3]}")

    def send(self, body, headers=None, path="/v1/gather"):
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        headers = dict(headers or {"Content-Type": JSON})
        self.take_turn()
        reply = self.client.request("POST", path, body, headers)
        if (reply.headers.get("Connection") or "").lower() == "close":
            self.client.close()
        return reply

    def refused(self, body, headers=None, statuses=(400,), path="/v1/gather"):
        reply = self.send(body, headers, path)
        self.assertIn(reply.status, statuses, f"{body[:200]!r}: {reply}")
        problem = self.assertAnyProblem(reply)
        if reply.status == 400:
            self.assertEqual(problem["code"], "MALFORMED_REQUEST", str(reply))
        return problem

    def survived(self, body, headers=None, path="/v1/gather"):
        """accepts any well-formed reply except a server error"""
        reply = self.send(body, headers, path)
        if reply.status == 200:
            if reply.type == JSON:
                reply.json()
            else:
                read_safetensors(reply.body)
        else:
            self.assertAnyProblem(reply)
            self.assertLess(reply.status, 500, f"{body[:200]!r}: {reply}")
        return reply


class Json(BadInput):
    def tearDown(self):
        self.assertServes(self.client)

    def test_the_error_of_a_common_mistake_names_the_way_out(self):
        for body, *parts in (
                *((GOOD.decode().encode(encoding), f"the body is text in {encoding[:6].upper()}; send UTF-8")
                  for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")),
                ('{"params":["\\ud800"],"indices":[0]}', "at byte "), (b'{"params":["caf\xe9"],"indices":[0]}', "at byte 15, not byte 0xe9", "JSON must be UTF-8"),
                ("params=1&indices=2", 'the body is a form, name=value; send JSON, {"name": value}'), ("--x\r\nContent-Disposition: form-data\r\n", "a multipart form; send the JSON text alone"),
                ("<html>", "the body is XML or HTML; send JSON"), ("", "the body is empty; expected a JSON object with the inputs of gather"),
                ("{'params':[1]}", "at byte 1", "JSON uses double quotes"), ('{"params":[1,2,],"indices":[0]}', "at byte 15", "remove the ',' before it"),
                ('{"params":[1,2],"indices":[0],}', "at byte 30", "remove the ',' before it"), ('{"params":[True],"indices":[0]}', "at byte 11", "JSON writes true, false and null"),
                ('{"params":[1],"indices":[0],"axis":None}', "at byte 35", "JSON writes true, false and null"), ('{"params":[.5],"indices":[0]}', "at byte 11", "a number must start with a digit"),
                ('{"params":[1], // one\n"indices":[0]}', "at byte 15", "JSON has no comments"), ('{"params":(1,2),"indices":[0]}', "at byte 10", "lists use square brackets")):
            with self.subTest(body=body):
                detail = self.refused(body)["detail"]
                for part in parts:
                    self.assertIn(part, detail)

    def test_an_unknown_member_is_answered_with_the_members(self):
        problem = self.refused('{"params":[1],"index":[0]}')
        self.assertEqual(problem["detail"], 'gather has no member "index"; expected indices, axis, batch_dims, bounds, dtype, device, response, timing, store, store.ttl_s, output_dtype')
        problem = self.refused("{}", path="/v1/gather?axes=1")
        self.assertEqual(problem["detail"], 'gather has no query parameter "axes"; expected axis, batch_dims, bounds, dtype, device, response, timing, store, store.ttl_s, output_dtype')

    def test_a_value_of_the_wrong_kind_is_shown(self):
        for attribute, value, detail in (("axis", "1.5", "axis is 1.5; expected a 64-bit integer"), ("axis", "1e3", "axis is 1e3; expected a 64-bit integer"),
                                         ("axis", '"x"', 'axis is "x"; expected a 64-bit integer'), ("axis", "1" + "0" * 60, f"axis is 1{'0' * 39}; expected a 64-bit integer"),
                                         ("bounds", "7", 'bounds is 7; expected "error", "zero", "clip" or "wrap"')):
            with self.subTest(attribute, value=value):
                problem = self.refused('{"params":[1],"indices":[0],"%s":%s}' % (attribute, value))
                self.assertEqual((problem["detail"], problem["pointer"]), (detail, "/" + attribute))
        for dimension in ("-1", "1.5", "1e30"):
            problem = self.refused('{"params":{"dtype":"int8","shape":[1,%s],"data":[1]},"indices":[0]}' % dimension)
            self.assertEqual((problem["detail"], problem["pointer"]), ("a dimension must be an integer from 0 to 2^63 - 1, not " + dimension, "/params/shape/1"))
        for dtype, meant in (("float", "float32"), ("FP64", "float64"), ("long", "int64")):
            self.assertEqual(self.refused('{"params":{"dtype":"%s","data":[1]},"indices":[0]}' % dtype)["did_you_mean"], meant)
            self.assertEqual(self.refused('{"x":[1],"dtype":"%s"}' % dtype, path="/v1/cast")["did_you_mean"], meant)

    def test_a_string_in_place_of_a_number_is_shown(self):
        for text, shown in (("2", "2"), (r"\u0041", r"\u0041"), ("a" * 40, "a" * 40), ("a" * 41, "a" * 37 + "..."), ("ä" * 50, "ä" * 18 + "..."), (r"\n" * 30, r"\n" * 18 + "...")):
            with self.subTest(text):
                problem = self.refused('{"params":{"dtype":"int8","data":[1,"%s"]},"indices":[0]}' % text)
                self.assertEqual((problem["detail"], problem["pointer"]), (f'the string "{shown}" is not an int8' + ": write it without quotes" * (text == "2"), "/params/data/1"))
        for dtype, text, is_number in (("float32", "1,5", False), ("float32", "1.5", True), ("int32", "1.5", False), ("int8", "0x10", False), ("int8", "12n", False), ("float32", "-1e3", True)):
            detail = self.refused('{"params":{"dtype":"%s","data":["%s"]},"indices":[0]}' % (dtype, text))["detail"]
            self.assertEqual(detail.endswith(": write it without quotes"), is_number, detail)

    def test_a_name_for_the_result_is_refused_at_its_attribute(self):
        self.assertEqual(self.refused('{"params":[1],"indices":[0],"store":"a/b"}', statuses=(422,))["attribute"], "store")

    def test_deep_nesting_is_refused(self):
        for depth in (17, 20, 100, 1024, 5000, 100000):
            for opening, closing in (("[", "]"), ('{"a":', "}"), ('{"dtype":', "}"), ('[{"x":[', "]}]")):
                for body in ('{"params":' + opening * depth + "1" + closing * depth + ',"indices":[0]}',
                             '{"params":' + opening * depth, opening * depth):
                    self.refused(body, statuses=(400, 422))

    def test_empty_tensors_with_huge_dimensions_are_answered(self):
        """[1, 10^12, 0] has no elements, but 10^12 empty lists: nothing loops over them"""
        for shape in ([1, 0, HUGE], [1, HUGE, 0], [1, 1 << 40, 0], [0, HUGE, HUGE], [1, 100000, 0, 1000000]):
            for layout in ("nested", "flat", "base64"):
                for dtype in ("float32", "string"):
                    self.survived('{"params":{"dtype":"%s","shape":%s,"base64":""},"indices":[0],"response":"%s"}'
                                  % (dtype, shape, layout))
                    self.survived('{"params":[1],"indices":{"dtype":"int32","shape":%s,"base64":""},"response":"%s"}'
                                  % (shape, layout))
            self.survived(safetensors({"params": ("float32", shape, b""), "indices": PICK}), BINARY)

    def test_the_error_of_base64_names_the_character_and_what_is_expected(self):
        start = "character %d is not base64 (RFC 4648, section 4): "
        for text, detail in (("AAA*", start % 3 + "'*'; expected A-Z, a-z, 0-9, '+' or '/'"), ("AAAA*A==", start % 4 + "'*'; expected A-Z, a-z, 0-9, '+' or '/'"),
                             ("AAAA_A==", start % 4 + "'_' belongs to the URL-safe alphabet; expected '/'"), ("-AAAAA==", start % 0 + "'-' belongs to the URL-safe alphabet; expected '+'"),
                             ("AA=AAA==", start % 2 + "'=' is only allowed at the end"), ("AAAAAB==", start % 5 + "its unused bits are not 0; the text is damaged or cut off"),
                             ("AAAA\\nAA==", start % 4 + "byte 0x0a; white space and line breaks are not allowed"),
                             ("AAAAAA", "base64 has 6 characters; expected a multiple of 4, padded with '='. Append 2 more '='"),
                             ("AAAAA", "base64 has 5 characters; expected a multiple of 4. The text is cut off"),
                             ("AAAAAAA=", "base64 holds 5 bytes, but float32 of shape [1] takes 4")):
            with self.subTest(text):
                problem = self.refused('{"params":{"dtype":"float32","shape":[1],"base64":"%s"},"indices":[0]}' % text)
                self.assertEqual((problem["detail"], problem["pointer"]), (detail, "/params/base64"))

    def test_long_names_and_values_are_refused_with_a_short_message(self):
        for body in ('{"%s":1}', '{"params":{"dtype":"%s","data":[1]},"indices":[0]}', '{"params":{"ref":"%s"},"indices":[0]}',
                     '{"params":[1],"indices":[0],"bounds":"%s"}', '{"params":{"%s":1},"indices":[0]}'):
            for name in ("x" * 100000, "é" * 5000, "\\u0000" * 1000, "😀" * 3000, '\\"' * 3000):
                reply = self.send(body % name)
                self.assertIn(reply.status, (400, 404, 422))
                self.assertAnyProblem(reply)
                self.assertLess(len(reply.body), 8192)

    def test_long_paths_queries_and_types_are_refused_with_a_short_message(self):
        for path in ("/v1/" + "x" * 3000, "/v1/" + "%C3%A9" * 500, "/v1/gather?" + "x" * 3000 + "=1", "/v1/gather?axis=" + "9" * 3000,
                     "/v1/gather?" + "&" * 3000, "/v1/gather?" + "a=1&" * 800, "/v1/%ff%fe", "/v1/gather?%ff=%ff", "/v1/gather?axis=%zz",
                     "/v1/gather?axis=%", "/v1/gather?=", "/v1/tensors/" + "y" * 2000, "/problems/" + "z" * 2000):
            reply = self.send(GOOD, path=path)
            self.assertIn(reply.status, (400, 404, 405, 414, 431), path[:40])
            self.assertEqual(reply.type, PROBLEM)
            self.assertLess(len(reply.body), 8192, path[:40])


class Fuzz(BadInput):
    """random mutations, seeded by TD_TEST_SEED"""
    ROUNDS = 600

    def mutate(self, rng, body):
        body = bytearray(body)
        for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
            at, kind = rng.randrange(len(body) + 1), rng.randrange(6)
            if kind == 0 and at < len(body):
                body[at] ^= 1 << rng.randrange(8)
            elif kind == 1 and at < len(body):
                body[at] = rng.choice(b'\x00\xff"{}[]:,\\0123456789-+.eEntf \x7f\x80')
            elif kind == 2:
                body[at:at] = rng.choice((b"[", b"]", b"{", b"}", b",", b'"', b"0", b"-", b"1e999", b"9" * 25, b"null", b"\\u0000", b"\\ud800"))
            elif kind == 3:
                del body[at:at + rng.randrange(1, 8)]
            elif kind == 4:
                end = min(len(body), at + rng.randrange(1, 40))
                body[at:at] = body[at:end]
            else:
                del body[at:]
        return bytes(body)

    def fuzz(self, seeds, headers, op):
        rng = random.Random(f"{SEED} {op} {headers}")
        for i in range(self.ROUNDS):
            body = self.mutate(rng, rng.choice(seeds))
            reply = self.survived(body, headers, "/v1/" + op)
            self.assertIn(reply.status, (200, 400, 404, 406, 413, 422), f"{body!r}: {reply}")
            if i % 20 == 0:
                self.assertServes(self.client)

    def test_mutated_json(self):
        seeds = [GOOD, b'{"params":[["a","b"],["c","\\u00e9d"]],"indices":[1,0],"response":"flat"}',
                 b'{"params":{"dtype":"complex64","shape":[2],"data":[[1,2],[3,4]]},"indices":{"dtype":"int64","data":[1]}}',
                 b'{"params":{"dtype":"string","shape":[2],"base64":"AQAAAGECAAAAYmM="},"indices":[[1],[0]]}']
        for op in ("gather", "gather_nd", "batch_gather"):
            self.fuzz(seeds, {"Content-Type": JSON}, op)

    def test_mutated_safetensors(self):
        seeds = [safetensors({"params": ROWS, "indices": PICK}, {"axis": "0"}), safetensors({"params": ROWS, "indices": ("int32", (2, 1), pack("int32", [0, 1]))}),
                 safetensors({"params": ("complex64", (2, 2), bytes(32)), "indices": ("int16", (2, 2), bytes(8))}, {"bounds": "wrap"})]
        for op in ("gather", "gather_nd", "batch_gather"):
            self.fuzz(seeds, BINARY, op)

    def test_mutated_gzip(self):
        self.fuzz([gzip.compress(GOOD, mtime=0)], {"Content-Type": JSON, "Content-Encoding": "gzip"}, "gather")

    def test_random_bytes(self):
        rng = random.Random(SEED)
        for headers in ({"Content-Type": JSON}, BINARY, {"Content-Type": JSON, "Content-Encoding": "deflate"}):
            for _ in range(100):
                self.refused(rng.randbytes(rng.randrange(1, 300)), headers)


class OtherFormats(BadInput):
    """Bodies of formats that tensord does not read: the error names the format and what to do."""

    def expect(self, body, expected, path, headers=None, method="POST"):
        reply = self.client.request(method, path, body, headers or {})
        self.assertProblem(reply, 400, "MALFORMED_REQUEST", detail=f"the body is {expected}", offset=0)

    def test_the_format_is_named(self):
        samples = ((b"PK\3\4" + bytes(30), "a zip archive, such as .npz or .pt; convert it to a table with deploy/import"),
                   (b"PAR1" + bytes(30), "a Parquet file; convert it to a table with deploy/import"),
                   (b"\x80\4\x95" + bytes(30), "a pickle; save its tensors as .safetensors or .npy"),
                   (b"GGUF\3\0\0\0", "a GGUF file; save its tensors as .safetensors or .npy"),
                   (gzip.compress(GOOD), "compressed with gzip; send it with Content-Encoding: gzip"))
        for body, expected in samples:
            with self.subTest(expected):
                for headers in ({}, {"Content-Type": JSON}, BINARY, {"Content-Type": "application/x-npy"}):
                    self.expect(body, expected, "/v1/tensors/t", headers, "PUT")
                for headers in ({"Content-Type": JSON}, BINARY):
                    self.expect(body, expected, "/v1/gather", headers)
                reply = self.client.request("POST", "/v2/models/gather/infer", body)
                self.assertStatus(reply, 400)
                self.assertIn(f"the body is {expected}", reply.json()["error"])
