"""Compressed requests and replies under /v2, and under /v1 with --compress."""
import gzip, zlib
from oip_client import *


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


UNPACKERS = {"gzip": gzip.decompress, "deflate": zlib.decompress}


class CompressionTest(OipTest):
    def big_inputs(self, binary):
        numbers = [float(i % 16) for i in range(4000)]
        indices = list(range(999, -1, -1))
        return [oip_input("params", "FP32", [1000, 4], pack("float32", numbers) if binary else numbers),
                oip_input("indices", "INT64", [1000], pack("int64", indices) if binary else indices)]

    def rows(self):
        return [float((4 * i + j) % 16) for i in range(999, -1, -1) for j in range(4)]

    def assertRows(self, reply):
        datatype, shape, data = self.outputs(reply)["output"]
        self.assertEqual((datatype, shape), ("FP32", [1000, 4]))
        got = list(struct.unpack("<4000f", data)) if isinstance(data, bytes) else data
        self.assertEqual(got, self.rows())


class Requests(CompressionTest):
    def test_bodies_may_be_gzip_zlib_or_raw_deflate(self):
        for name, pack_body in (("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate),
                                ("identity", bytes)):
            for binary in (False, True):
                with self.subTest(name=name, binary=binary):
                    body, headers = envelope(self.big_inputs(binary))  # the header counts uncompressed bytes
                    self.assertRows(self.post("/v2/models/gather/infer", pack_body(body),
                                              {**headers, "Content-Encoding": name}))

    def test_an_unknown_encoding_is_415_with_the_supported_ones(self):
        body, headers = envelope(self.gather_inputs())
        for name in ("br", "zstd", "gzip, deflate", "compress"):
            reply = self.post("/v2/models/gather/infer", body, {**headers, "Content-Encoding": name})
            self.assertError(reply, 415, code="UNSUPPORTED_MEDIA_TYPE")
            self.assertEqual(reply.headers["Accept-Encoding"], "gzip, deflate")

    def test_the_body_limit_applies_after_decompression(self):
        with Daemon("--max-body=1M") as daemon, Client(daemon) as client:
            bomb = gzip.compress(b" " * (64 << 20))
            self.assertLess(len(bomb), 1 << 20)
            reply = client.request("POST", "/v2/models/gather/infer", bomb, {"Content-Encoding": "gzip"})
            self.assertError(reply, 413, "1048576")

    def test_bodies_of_other_v2_requests_may_be_compressed(self):
        reply = self.post("/v2/repository/index", gzip.compress(b'{"ready":true}'), {"Content-Encoding": "gzip"})
        self.assertEqual([model["name"] for model in reply.json()], OPS)


class Answers(CompressionTest):
    def request_for(self, accept, binary=True, path="/v2/models/gather/infer"):
        body, headers = envelope(self.big_inputs(True), [wanted("output", binary_data=binary)])
        return self.post(path, body, {**headers, "Accept-Encoding": accept})

    def test_replies_have_the_encoding_that_the_client_prefers(self):
        for accept, encoding in (("gzip", "gzip"), ("deflate", "deflate"), ("gzip, deflate, br", "gzip"),
                                 ("gzip;q=0.5, deflate;q=0.9", "deflate"), ("*", "gzip"), ("gzip;q=0, *", "deflate")):
            for binary in (False, True):
                with self.subTest(accept=accept, binary=binary):
                    reply = self.request_for(accept, binary)
                    self.assertStatus(reply, 200)
                    self.assertEqual(reply.headers["Content-Encoding"], encoding)
                    self.assertEqual(reply.headers["Vary"], "Accept-Encoding")
                    self.assertEqual(int(reply.headers["Content-Length"]), len(reply.body))
                    packed = len(reply.body)
                    reply.body = UNPACKERS[encoding](reply.body)
                    self.assertLess(packed, len(reply.body))
                    self.assertRows(reply)

    def test_replies_are_not_compressed_without_accept_encoding(self):
        for accept in ("identity", "", "br", "gzip;q=0", "gzip;q=0.1, identity", "*;q=0"):
            reply = self.request_for(accept)
            self.assertIsNone(reply.headers.get("Content-Encoding"))
            self.assertEqual(reply.headers["Vary"], "Accept-Encoding")
            self.assertRows(reply)

    def test_small_replies_and_errors_are_not_compressed(self):
        reply = self.infer("gather", self.gather_inputs(), headers={"Accept-Encoding": "gzip"})
        self.assertIsNone(reply.headers.get("Content-Encoding"))
        self.assertGathered(reply)
        reply = self.infer("gather", self.gather_inputs(indices=(9,)), headers={"Accept-Encoding": "gzip"})
        self.assertError(reply, 400)
        unknown = "x" * 400
        self.assertError(self.infer("gather", self.gather_inputs(), parameters={unknown: 1},
                                    headers={"Accept-Encoding": "gzip"}), 400)

    def test_v1_replies_are_compressed_only_with_the_option(self):
        body = {"params": [[float(i)] for i in range(1000)], "indices": list(range(1000))}
        plain = self.post("/v1/gather", body, {"Accept-Encoding": "gzip"})
        self.assertIsNone(plain.headers.get("Content-Encoding"))
        self.assertIsNone(plain.headers.get("Vary"))
        with Daemon("--compress") as daemon, Client(daemon) as client:
            for accept, encoding in (("gzip", "gzip"), ("deflate", "deflate")):
                reply = client.post("/v1/gather", body, {"Accept-Encoding": accept})
                self.assertEqual(reply.headers["Content-Encoding"], encoding)
                self.assertIn("Accept-Encoding", reply.headers["Vary"])
                self.assertEqual(UNPACKERS[encoding](reply.body), plain.body)
            # The entity tag is that of the uncompressed tensor.
            self.assertEqual(client.request("PUT", "/v1/tensors/t", [float(i) for i in range(1000)]).status, 201)
            reply = client.request("GET", "/v1/tensors/t?response=flat", None, {"Accept-Encoding": "gzip"})
            self.assertEqual(reply.status, 200, str(reply))
            self.assertIsNone(reply.headers.get("Content-Encoding"))

    def test_inline_and_queued_replies_are_compressed_alike(self):
        for limit in ("0", "1000000"):
            with Daemon(f"--inline-limit-us={limit}") as daemon, Client(daemon) as client:
                body, headers = envelope(self.big_inputs(True), [wanted("output", binary_data=True)])
                reply = client.request("POST", "/v2/models/gather/infer", body, {**headers, "Accept-Encoding": "gzip"})
                self.assertEqual(reply.headers["Content-Encoding"], "gzip")
                reply.body = gzip.decompress(reply.body)
                self.assertRows(reply)
