"""Ambiguous framing: one error, then the connection is closed; a request hidden after it is never answered."""
import contextlib
from daemon import *

BODY = b'{"params":[1,2],"indices":[1]}'
HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTH = b"%d" % len(BODY)


def post(*headers, body=BODY, version=b"HTTP/1.1", host=True):
    lines = [b"POST /v1/gather " + version] + [b"Host: localhost"] * host + list(headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(chunks, *headers):
    return post(b"Transfer-Encoding: chunked", *headers, body=chunks)


CHUNK = b"%x\r\n" % len(BODY) + BODY + b"\r\n"

# Description; bytes; accepted statuses (None: closed without a reply).
REFUSED = [
    ("two lengths that differ", post(b"Content-Length: " + LENGTH, b"Content-Length: 5"), (400,)),
    ("two lengths that agree", post(b"Content-Length: " + LENGTH, b"Content-Length: " + LENGTH), (400,)),
    ("a list of lengths", post(b"Content-Length: " + LENGTH + b", " + LENGTH), (400,)),
    ("a negative length", post(b"Content-Length: -1"), (400,)),
    ("a length with a sign", post(b"Content-Length: +" + LENGTH), (400,)),
    ("a length in hexadecimal", post(b"Content-Length: 0x1e"), (400,)),
    ("a length with a suffix", post(b"Content-Length: " + LENGTH + b"x"), (400,)),
    ("a length with a blank inside", post(b"Content-Length: 3 0"), (400,)),
    ("an empty length", post(b"Content-Length: "), (400,)),
    ("a length beyond 64 bits", post(b"Content-Length: 18446744073709551646"), (400, 413)),
    ("a length that is not a number", post(b"Content-Length: many"), (400,)),
    ("a length and chunks", post(b"Content-Length: 4", b"Transfer-Encoding: chunked", body=CHUNK + b"0\r\n\r\n"), (400,)),
    ("chunks and a length", post(b"Transfer-Encoding: chunked", b"Content-Length: 4", body=CHUNK + b"0\r\n\r\n"), (400,)),
    ("chunked twice", post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=CHUNK + b"0\r\n\r\n"), (400, 501)),
    ("chunked, chunked", post(b"Transfer-Encoding: chunked, chunked", body=CHUNK + b"0\r\n\r\n"), (400, 501)),
    ("another transfer coding", post(b"Transfer-Encoding: gzip, chunked", body=CHUNK + b"0\r\n\r\n"), (400, 501)),
    ("a made-up transfer coding", post(b"Transfer-Encoding: xchunked", body=CHUNK + b"0\r\n\r\n"), (400, 501)),
    ("identity and a length", post(b"Transfer-Encoding: identity", b"Content-Length: " + LENGTH), (400, 501)),
    ("chunked with a vertical tab", post(b"Transfer-Encoding: \x0bchunked", body=CHUNK + b"0\r\n\r\n"), (400, 501)),
    ("bare line feeds", post(b"Content-Length: " + LENGTH).replace(b"\r\n", b"\n"), (400,)),
    ("one bare line feed", b"POST /v1/gather HTTP/1.1\r\nHost: localhost\nContent-Length: " + LENGTH + b"\r\n\r\n" + BODY, (400,)),
    ("a bare carriage return", b"POST /v1/gather HTTP/1.1\r\nHost: localhost\rContent-Length: " + LENGTH + b"\r\n\r\n" + BODY, (400,)),
    ("a folded header", post(b"X-A: b\r\n c: d", b"Content-Length: " + LENGTH), (400,)),
    ("a folded length", post(b"Content-Length:\r\n " + LENGTH), (400,)),
    ("a first header that begins with a blank", b"POST /v1/gather HTTP/1.1\r\n Host: localhost\r\nContent-Length: " + LENGTH + b"\r\n\r\n" + BODY, (400,)),
    ("a space before the colon", post(b"Content-Length : " + LENGTH), (400,)),
    ("a space before the colon of the coding", post(b"Transfer-Encoding : chunked", body=CHUNK + b"0\r\n\r\n"), (400,)),
    ("a space inside a header's name", post(b"X A: b", b"Content-Length: " + LENGTH), (400,)),
    ("a header without a colon", post(b"garbage", b"Content-Length: " + LENGTH), (400,)),
    ("a header without a name", post(b": x", b"Content-Length: " + LENGTH), (400,)),
    ("two hosts", post(b"Host: y", b"Content-Length: " + LENGTH), (400,)),
    ("no host", post(b"Content-Length: " + LENGTH, host=False), (400,)),
    ("a NUL in a value", post(b"X-A: a\0b", b"Content-Length: " + LENGTH), (400,)),
    ("a NUL in a name", post(b"X\0A: b", b"Content-Length: " + LENGTH), (400,)),
    ("a NUL in the path", b"GET /healthz\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, None)),
    ("two content types", post(b"Content-Type: application/json", b"Content-Type: text/plain", b"Content-Length: " + LENGTH), (400,)),
    ("a huge header", post(b"X-A: " + b"a" * 200000, b"Content-Length: " + LENGTH), (400, 413, 431)),
    ("ten thousand headers", post(*[b"X-%d: y" % i for i in range(10000)], b"Content-Length: " + LENGTH), (400, 413, 431)),
    ("a huge path", b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 414, 431)),
    ("a huge method", b"A" * 200000 + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 405, 414, 431, 501, None)),
    ("version 2.0", post(b"Content-Length: " + LENGTH, version=b"HTTP/2.0"), (400, 505)),
    ("version 0.9", post(b"Content-Length: " + LENGTH, version=b"HTTP/0.9"), (400, 505)),
    ("version 1", post(b"Content-Length: " + LENGTH, version=b"HTTP/1"), (400, 505)),
    ("version 11", post(b"Content-Length: " + LENGTH, version=b"HTTP/11"), (400, 505)),
    ("version 1.x", post(b"Content-Length: " + LENGTH, version=b"HTTP/1.x"), (400, 505)),
    ("another protocol", post(b"Content-Length: " + LENGTH, version=b"HTTZ/1.1"), (400, 505)),
    ("lower case http", post(b"Content-Length: " + LENGTH, version=b"http/1.1"), (400, 505)),
    ("a chunk of negative size", chunked(b"-1\r\n" + BODY + b"\r\n0\r\n\r\n"), (400,)),
    ("a chunk size with a sign", chunked(b"+1e\r\n" + BODY + b"\r\n0\r\n\r\n"), (400,)),
    ("a chunk size with 0x", chunked(b"0x1e\r\n" + BODY + b"\r\n0\r\n\r\n"), (400,)),
    ("a chunk size beyond 64 bits", chunked(b"1000000000000001e\r\n" + BODY + b"\r\n0\r\n\r\n"), (400, 413)),
    ("a chunk size of many digits", chunked(b"f" * 100 + b"\r\n" + BODY + b"\r\n0\r\n\r\n"), (400, 413)),
    ("an empty chunk size", chunked(b"\r\n" + BODY + b"\r\n0\r\n\r\n"), (400,)),
    ("a chunk size that is not a number", chunked(b"xyz\r\n" + BODY + b"\r\n0\r\n\r\n"), (400,)),
    ("a chunk size with a blank before", chunked(b" 1e\r\n" + BODY + b"\r\n0\r\n\r\n"), (400,)),
    ("a chunk with bytes after its end", chunked(b"1e\r\n" + BODY + b"xx\r\n0\r\n\r\n"), (400,)),
    ("a chunk without its line end", chunked(b"1e\r\n" + BODY + b"0\r\n\r\n"), (400,)),
    ("chunks with bare line feeds", chunked(b"1e\n" + BODY + b"\n0\n\n"), (400,)),
    ("a chunk size that ends in a line feed", chunked(b"1e\n" + BODY + b"\r\n0\r\n\r\n"), (400,)),
    ("chunks in version 1.0", post(b"Transfer-Encoding: chunked", body=CHUNK + b"0\r\n\r\n", version=b"HTTP/1.0"), (400, 501)),
    ("a request line of two words", b"GET /healthz\r\nHost: localhost\r\n\r\n", (400, 505)),
    ("a request line of four words", b"GET /healthz x HTTP/1.1\r\nHost: localhost\r\n\r\n", (400,)),
]


class Smuggling(HttpTest):
    def refusal(self, request, statuses, hidden=HIDDEN * 3):
        """sends the request, followed by a hidden one, and reads to the end of the connection"""
        with Raw(self.daemon) as raw:
            raw.send(request + hidden)
            reply = raw.reply()
            self.assertIn(reply.status if reply else None, statuses, str(reply))
            if reply and reply.type == PROBLEM:
                reply.json()
            rest = raw.rest()
            self.assertEqual(rest, b"", "bytes follow the error")
            return reply


def _add_tests():
    for description, request, statuses in REFUSED:
        def test(self, request=request, statuses=statuses):
            self.refusal(request, statuses)
        name = "test_" + "".join(c if c.isalnum() else "_" for c in description.lower()) + "_is_refused_and_the_connection_closed"
        assert not hasattr(Smuggling, name), name
        setattr(Smuggling, name, test)


_add_tests()


class Refusals(HttpTest):
    def test_framing_errors_are_problem_documents(self):
        for request in (post(b"Content-Length: 1", b"Content-Length: 2"), post(b"Content-Length: 1", host=False),
                        post(b"Content-Length : 1"), chunked(b"-1\r\n"), post(version=b"HTTP/2.0")):
            with self.subTest(request=request), Raw(self.daemon) as raw:
                raw.send(request)
                reply = raw.reply()
                self.assertEqual(reply.type, PROBLEM, str(reply))
                problem = reply.json()
                self.assertEqual((problem["code"], problem["type"]), ("MALFORMED_REQUEST", "/problems/malformed-request"))
                self.assertEqual(set(problem), {"error", "type", "title", "detail", "code", "request_id"})
                self.assertTrue(problem["title"] and problem["detail"])
                self.assertTrue(problem["request_id"] and reply.headers["Date"])
                self.assertEqual(reply.headers["X-Request-Id"], problem["request_id"])
                self.assertEqual(problem.get("status", reply.status), reply.status)  # optional in RFC 9457

    def test_the_page_of_the_http_library_becomes_plain_text(self):
        """The page has <b>&quot;Host:&quot;</b>."""
        with Raw(self.daemon) as raw:
            raw.send(post(b"Content-Length: 1", host=False))
            problem = raw.reply().json()
        for member in ("title", "detail"):
            self.assertIn("'Host:'", problem[member])
            self.assertNotRegex(problem[member], "[<>&;]|quot")

    def test_random_bytes_are_refused(self):
        for garbage in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), b"\0" * 1000, b"\xff" * 5000, b"SSH-2.0-x\r\n",
                        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\r\n\r\n\r\n\r\nxxxx\r\n\r\n", b"GET\r\n\r\n", b" / HTTP/1.1\r\n\r\n",
                        b"{\"params\":[1]}\r\n\r\n", b"* * *\r\n\r\n"):
            with self.subTest(garbage=garbage[:20]), Raw(self.daemon) as raw:
                raw.send(garbage)
                raw.wait_until_read()
                with contextlib.suppress(OSError):  # closed by the daemon already
                    raw.socket.shutdown(socket.SHUT_WR)
                reply = raw.reply()
                if reply is not None:
                    self.assertGreaterEqual(reply.status, 400)
                    self.assertNotIn(b"HTTP/1.", raw.rest())
        self.assertServes()

    def test_the_body_of_a_refused_op_is_not_read_as_a_request(self):
        for path in (b"/v1/nope", b"/healthz", b"/v1/ops", b"/nope"):
            with Raw(self.daemon) as raw:
                raw.send(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN
                         + http_request("GET", "/last", headers=["X-Request-Id: last", "Connection: close"]))
                self.assertIn(raw.reply().status, (404, 405))
                reply = raw.reply()
                self.assertIsNotNone(reply, "the connection was closed")
                self.assertEqual((reply.status, reply.headers["X-Request-Id"]), (404, "last"))
                self.assertEqual(raw.rest(), b"")

    def test_the_body_of_a_get_is_not_read_as_a_request(self):
        with Raw(self.daemon) as raw:
            raw.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN
                     + b"GET /nope HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            reply = raw.reply()
            rest = raw.rest()
            self.assertEqual(rest.count(b"HTTP/1.1 200"), 0, rest)
            self.assertIn(reply.status, (200, 400, 413))


class GoodFraming(HttpTest):
    """valid framing"""
    EXPECTED = ("int32", [1], [2])

    def test_chunked_uploads_with_any_chunk_sizes(self):
        for size in (1, 2, 7, 30):
            slices = [BODY[i:i + size] for i in range(0, len(BODY), size)]
            chunks = b"".join(b"%X\r\n%s\r\n" % (len(p), p) for p in slices) + b"0\r\n\r\n"
            with Raw(self.daemon) as raw:
                raw.send(chunked(chunks) + HIDDEN)
                self.assertOutput(raw.reply(), *self.EXPECTED)
                self.assertStatus(raw.reply(), 200)

    def test_chunk_extensions_leading_zeros_and_trailers(self):
        for chunks in (b"1e;a=b\r\n" + BODY + b"\r\n0;c\r\n\r\n", b"0001e\r\n" + BODY + b"\r\n0000\r\n\r\n",
                       CHUNK + b"0\r\nX-Trailer: y\r\nX-More: z\r\n\r\n"):
            with Raw(self.daemon) as raw:
                raw.send(chunked(chunks) + HIDDEN)
                self.assertOutput(raw.reply(), *self.EXPECTED)
                self.assertStatus(raw.reply(), 200)

    def test_an_empty_chunked_body_is_an_empty_body(self):
        with Raw(self.daemon) as raw:
            raw.send(chunked(b"0\r\n\r\n") + HIDDEN)
            self.assertProblem(raw.reply(), 400, "MALFORMED_REQUEST")
            self.assertStatus(raw.reply(), 200)

    def test_pipelined_requests_are_answered_in_order(self):
        for options in ((), ("--inline-limit-us", "0")):
            daemon = shared(*options)
            bodies = [b'{"params":[%d,%d],"indices":[%d]}' % (i, i + 100, i % 2) for i in range(50)]
            with Raw(daemon) as raw:
                raw.send(b"".join(http_request("POST", "/v1/gather", b) for b in bodies))
                for i in range(50):
                    self.assertOutput(raw.reply(), "int32", [1], [i + 100 * (i % 2)])

    def test_pipelined_errors_keep_the_order(self):
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v1/gather", BODY) + http_request("POST", "/v1/gather", b"{")
                     + http_request("POST", "/v1/gather", b'{"params":[1],"indices":[7]}') + http_request("POST", "/v1/gather", BODY))
            self.assertEqual([raw.reply().status for _ in range(4)], [200, 400, 422, 200])

    def test_a_request_sent_byte_by_byte_is_answered(self):
        with Raw(self.daemon) as raw:
            for byte in http_request("POST", "/v1/gather", BODY):
                raw.send(bytes([byte]))
            self.assertOutput(raw.reply(), *self.EXPECTED)

    def test_expect_100_continue_is_answered_before_the_body(self):
        for framing, body in ((b"Content-Length: " + LENGTH, BODY), (b"Transfer-Encoding: chunked", CHUNK + b"0\r\n\r\n")):
            with Raw(self.daemon) as raw:
                raw.send(post(framing, b"Expect: 100-continue", body=b""))
                self.assertStatus(raw.reply(), 100)
                raw.send(body)
                self.assertOutput(raw.reply(), *self.EXPECTED)

    def test_expect_100_continue_gets_early_errors_before_the_body(self):
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 999999999999\r\n\r\n")
            self.assertProblem(raw.reply(), 413, "PAYLOAD_TOO_LARGE")

    def test_http_1_0_is_answered_and_the_connection_closed(self):
        with Raw(self.daemon) as raw:
            raw.send(post(b"Content-Length: " + LENGTH, version=b"HTTP/1.0", host=False))
            self.assertOutput(raw.reply(), *self.EXPECTED)
            self.assertEqual(raw.rest(), b"")

    def test_connection_close_is_obeyed(self):
        with Raw(self.daemon) as raw:
            raw.send(post(b"Connection: close", b"Content-Length: " + LENGTH))
            reply = raw.reply()
            self.assertOutput(reply, *self.EXPECTED)
            self.assertEqual((reply.headers.get("Connection") or "").lower(), "close")
            self.assertEqual(raw.rest(), b"")

    def test_header_names_are_case_insensitive(self):
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nhOST: localhost\r\ncONTENT-lENGTH: " + LENGTH + b"\r\nX-REQUEST-ID: q\r\n\r\n" + BODY)
            reply = raw.reply()
            self.assertOutput(reply, *self.EXPECTED)
            self.assertEqual(reply.headers["X-Request-Id"], "q")

    def test_large_headers_within_the_limit_are_accepted(self):
        with Raw(self.daemon) as raw:
            raw.send(post(b"Cookie: " + b"c" * 8000, b"Content-Length: " + LENGTH))
            self.assertOutput(raw.reply(), *self.EXPECTED)
