"""Compressed requests and answers of /v2, and of /v1 with --compress."""
import gzip, zlib
from oip_client import *


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS = {"gzip": gzip.compress, "deflate": zlib.compress}
UNPACKERS = {"gzip": gzip.decompress, "deflate": zlib.decompress}


class CompressionTest(OipTest):
    def big_inputs(self, binary):
        numbers = [float(i % 16) for i in range(4000)]
        indices = list(range(999, -1, -1))
        return [given("params", "FP32", [1000, 4], pack("float32", numbers) if binary else numbers),
                given("indices", "INT64", [1000], pack("int64", indices) if binary else indices)]

    def rows(self):
        return [float((4 * i + j) % 16) for i in range(999, -1, -1) for j in range(4)]

    def assertRows(self, answer):
        datatype, shape, data = self.outputs(answer)["output"]
        self.assertEqual((datatype, shape), ("FP32", [1000, 4]))
        got = list(struct.unpack("<4000f", data)) if isinstance(data, bytes) else data
        self.assertEqual(got, self.rows())


class Requests(CompressionTest):
    def test_bodies_may_be_gzip_zlib_or_raw_deflate(self):
        for name, pack_body in (("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate),
                                ("identity", bytes)):
            for binary in (False, True):
                with self.subTest(name=name, binary=binary):
                    body, headers = envelope(self.big_inputs(binary))  # the header counts plain bytes
                    self.assertRows(self.post("/v2/models/gather/infer", pack_body(body),
                                              {**headers, "Content-Encoding": name}))

    def test_a_corrupt_body_is_400(self):
        body, headers = envelope(self.big_inputs(True))
        for name, packer in PACKERS.items():
            packed = packer(body)
            middle = len(packed) // 2
            for bad in (packed[:middle], packed[:-1], packed[:middle] + bytes([packed[middle] ^ 255]) + packed[middle + 1:],
                        b"not compressed at all", b"", packed + b"x"):
                with self.subTest(name=name, bad=bad[:20]):
                    self.assertError(self.post("/v2/models/gather/infer", bad, {**headers, "Content-Encoding": name}), 400)

    def test_an_unknown_encoding_is_415_and_tells_which_there_are(self):
        body, headers = envelope(self.gather_inputs())
        for name in ("br", "zstd", "gzip, deflate", "compress"):
            answer = self.post("/v2/models/gather/infer", body, {**headers, "Content-Encoding": name})
            self.assertError(answer, 415, code="UNSUPPORTED_MEDIA_TYPE")
            self.assertEqual(answer.headers["Accept-Encoding"], "gzip, deflate")

    def test_the_limit_holds_for_what_comes_out(self):
        with Daemon("--max-body=1M") as daemon, Client(daemon) as client:
            bomb = gzip.compress(b" " * (64 << 20))
            self.assertLess(len(bomb), 1 << 20)
            answer = client.ask("POST", "/v2/models/gather/infer", bomb, {"Content-Encoding": "gzip"})
            self.assertError(answer, 413, "1048576")

    def test_small_bodies_beside_inference_may_be_compressed(self):
        answer = self.post("/v2/repository/index", gzip.compress(b'{"ready":true}'), {"Content-Encoding": "gzip"})
        self.assertEqual(len(answer.json()), 7)


class Answers(CompressionTest):
    def ask_for(self, accept, binary=True, path="/v2/models/gather/infer"):
        body, headers = envelope(self.big_inputs(True), [wanted("output", binary_data=binary)])
        return self.post(path, body, {**headers, "Accept-Encoding": accept})

    def test_answers_are_compressed_as_the_client_likes(self):
        for accept, encoding in (("gzip", "gzip"), ("deflate", "deflate"), ("gzip, deflate, br", "gzip"),
                                 ("gzip;q=0.5, deflate;q=0.9", "deflate"), ("*", "gzip"), ("gzip;q=0, *", "deflate")):
            for binary in (False, True):
                with self.subTest(accept=accept, binary=binary):
                    answer = self.ask_for(accept, binary)
                    self.assertStatus(answer, 200)
                    self.assertEqual(answer.headers["Content-Encoding"], encoding)
                    self.assertEqual(answer.headers["Vary"], "Accept-Encoding")
                    self.assertEqual(int(answer.headers["Content-Length"]), len(answer.body))
                    packed = len(answer.body)
                    answer.body = UNPACKERS[encoding](answer.body)
                    self.assertLess(packed, len(answer.body))
                    self.assertRows(answer)

    def test_nobody_who_does_not_ask_gets_it(self):
        for accept in ("identity", "", "br", "gzip;q=0", "gzip;q=0.1, identity", "*;q=0"):
            answer = self.ask_for(accept)
            self.assertIsNone(answer.headers.get("Content-Encoding"))
            self.assertEqual(answer.headers["Vary"], "Accept-Encoding")
            self.assertRows(answer)

    def test_small_answers_and_errors_stay_as_they_are(self):
        answer = self.infer("gather", self.gather_inputs(), headers={"Accept-Encoding": "gzip"})
        self.assertIsNone(answer.headers.get("Content-Encoding"))
        self.assertGathered(answer)
        answer = self.infer("gather", self.gather_inputs(indices=(9,)), headers={"Accept-Encoding": "gzip"})
        self.assertError(answer, 400)
        unknown = "x" * 400
        self.assertError(self.infer("gather", self.gather_inputs(), parameters={unknown: 1},
                                    headers={"Accept-Encoding": "gzip"}), 400)

    def test_v1_is_not_compressed_unless_told_to(self):
        body = {"params": [[float(i)] for i in range(1000)], "indices": list(range(1000))}
        plain = self.post("/v1/gather", body, {"Accept-Encoding": "gzip"})
        self.assertIsNone(plain.headers.get("Content-Encoding"))
        self.assertIsNone(plain.headers.get("Vary"))
        with Daemon("--compress") as daemon, Client(daemon) as client:
            for accept, encoding in (("gzip", "gzip"), ("deflate", "deflate")):
                answer = client.post("/v1/gather", body, {"Accept-Encoding": accept})
                self.assertEqual(answer.headers["Content-Encoding"], encoding)
                self.assertIn("Accept-Encoding", answer.headers["Vary"])
                self.assertEqual(UNPACKERS[encoding](answer.body), plain.body)
            # A tensor's entity tag is that of its plain bytes.
            self.assertEqual(client.ask("PUT", "/v1/tensors/t", [float(i) for i in range(1000)]).status, 201)
            answer = client.ask("GET", "/v1/tensors/t?response=flat", None, {"Accept-Encoding": "gzip"})
            self.assertEqual(answer.status, 200, str(answer))
            self.assertIsNone(answer.headers.get("Content-Encoding"))

    def test_large_answers_are_compressed_on_a_worker_or_here_alike(self):
        for limit in ("0", "1000000"):
            with Daemon(f"--inline-limit-us={limit}") as daemon, Client(daemon) as client:
                body, headers = envelope(self.big_inputs(True), [wanted("output", binary_data=True)])
                answer = client.ask("POST", "/v2/models/gather/infer", body, {**headers, "Accept-Encoding": "gzip"})
                self.assertEqual(answer.headers["Content-Encoding"], "gzip")
                answer.body = gzip.decompress(answer.body)
                self.assertRows(answer)
