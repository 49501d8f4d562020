"""Statistics of a resident tensor: GET /v1/tensors/{name}/statistics."""
import concurrent.futures, json, math, os
from daemon import *
from gates import GatedDaemon
from test_tensors import TensorTest

MEMBERS = ["name", "dtype", "shape", "version", "etag", "values", "numel"]
OF_NUMBERS = ["min", "max", "mean", "std", "l2_norm", "zeros", "nans", "positive_infinities", "negative_infinities"]


class StatisticsTest(TensorTest):
    def statistics(self, name, headers=None):
        reply = self.get(f"/v1/tensors/{name}/statistics", headers)
        self.assertStatus(reply, 200)
        self.assertEqual(reply.type, JSON)
        document = reply.json()
        self.assertEqual(reply.headers["ETag"], document["etag"])
        return document

    def assertStatistics(self, body, **members):
        name, metadata = self.resident(body)
        for _ in range(2):  # computed, and kept
            document = self.statistics(name)
            for member in ("name", "dtype", "shape", "version", "etag"):
                self.assertEqual(document[member], metadata[member])
            for member, value in members.items():
                self.assertEqual(document[member], value, member)
        return document


class Documents(StatisticsTest):
    def test_numbers_have_extremes_moments_counts_and_blocks(self):
        document = self.assertStatistics({"dtype": "float32", "shape": [2, 4], "data": [1.5, 0, -2, "NaN", "Infinity", 0.1, "-Infinity", 0]},
                                         values="elements", numel=8, min=-2.0, max=1.5, zeros=2, nans=1, positive_infinities=1, negative_infinities=1)
        self.assertEqual(list(document), MEMBERS + OF_NUMBERS + ["blocks"])
        finite = [1.5, 0, -2, struct.unpack("f", struct.pack("f", 0.1))[0], 0]
        mean = math.fsum(finite) / 5
        self.assertAlmostEqual(document["mean"], mean, 15)
        self.assertAlmostEqual(document["std"], math.sqrt(math.fsum((x - mean)**2 for x in finite) / 5), 15)
        self.assertAlmostEqual(document["l2_norm"], math.sqrt(math.fsum(x * x for x in finite)), 15)
        self.assertEqual(document["blocks"], {"rows": [0, 1, 2], "columns": [0, 1, 2, 3, 4], "min": -2.0, "max": 1.5,
                                              "means": [[1.5, 0.0, -2.0, None], [None, finite[3], None, 0.0]]})

    def test_zeros_have_signs_and_sums_may_be_larger_than_float64(self):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            for data, least, greatest in (([-0.0], "-0.0", "-0.0"), ([0.0, -0.0], "-0.0", "0.0"), ([0.0], "0.0", "0.0"), ([-0.0, 0.0, 1.0], "-0.0", "1.0")):
                name, _ = self.resident({"dtype": dtype, "shape": [len(data)], "data": data})
                self.assertIn(f'"min":{least},"max":{greatest},'.encode(), self.get(f"/v1/tensors/{name}/statistics").body)
        self.assertStatistics({"dtype": "float64", "shape": [4], "data": [1.5e308, 1.5e308, -1.5e308, 1.5e308]}, mean=0.75e308, l2_norm="Infinity")
        self.assertStatistics({"dtype": "float64", "shape": [2], "data": [3 * 2.0**664, 4 * 2.0**664]}, mean=3.5 * 2.0**664, std=0.5 * 2.0**664, l2_norm=5 * 2.0**664)

    def test_extremes_are_printed_as_elements_are(self):
        self.assertStatistics({"dtype": "float32", "shape": [2], "data": [0.1, 0.7]}, min=0.1, max=0.7)
        self.assertStatistics({"dtype": "int64", "shape": [2], "data": [-2**63, 2**53 + 1]}, min=-2**63, max=2**53 + 1)
        self.assertStatistics({"dtype": "uint64", "shape": [2], "data": [2**64 - 1, 2**64 - 2]}, min=2**64 - 2, max=2**64 - 1)

    def test_bool_strings_and_complex_numbers_have_their_own(self):
        document = self.assertStatistics([True, False, True], values="elements", numel=3, true=2)
        self.assertEqual(list(document), MEMBERS + ["true", "blocks"])
        document = self.assertStatistics(["abc", "", "de"], values="lengths", numel=3, bytes=5, shortest=0, longest=3)
        self.assertEqual(list(document), MEMBERS + ["bytes", "shortest", "longest", "blocks"])
        self.assertEqual(document["blocks"]["means"], [[3.0], [0.0], [2.0]])
        document = self.assertStatistics({"dtype": "complex64", "shape": [2], "data": [[3, 4], [0, 0]]}, values="absolute", min=0.0, max=5.0, mean=2.5, zeros=1)
        self.assertEqual(list(document), MEMBERS + OF_NUMBERS + ["blocks"])

    def test_empty_tensors_have_no_extremes(self):
        none = {"rows": [0], "columns": [0], "min": None, "max": None, "means": []}
        self.assertStatistics({"dtype": "float32", "shape": [0, 3], "data": []}, numel=0, min=None, max=None, mean=None, std=None, l2_norm=0.0, blocks=none)
        self.assertStatistics({"dtype": "string", "shape": [0], "data": []}, numel=0, bytes=0, shortest=None, longest=None, blocks=none)

    def test_a_large_tensor_is_computed_by_several_requests_at_once(self):
        n = 3_000_000
        name = self.name()
        self.assertStatus(self.put(name, npy("float32", (n,), struct.pack("<f", 2) * n), {"Content-Type": "application/x-npy"}), 201)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            bodies = set(pool.map(lambda _: once(self.daemon, f"/v1/tensors/{name}/statistics"), range(8)))
        self.assertEqual(len(bodies), 1)
        document = json.loads(bodies.pop())
        self.assertEqual((document["mean"], document["std"], document["l2_norm"]), (2.0, 0.0, math.sqrt(4 * n)))
        self.delete(name)


def once(daemon, path):
    with Client(daemon) as client:
        return client.request("GET", path).body


class Versions(StatisticsTest):
    def test_a_new_version_has_its_own(self):
        name, _ = self.resident([[1, 2], [3, 4]])
        before = self.statistics(name)
        self.assertStatus(self.post(f"/v1/tensors/{name}/scatter", {"indices": [[0]], "updates": [[10, 20]]}), 200)
        after = self.statistics(name)
        self.assertEqual((before["max"], after["max"]), (4, 20))
        self.assertStatus(self.post(f"/v1/tensors/{name}/scatter", {"indices": [[0]], "updates": [[5, 6]]}), 200)
        self.assertEqual(self.statistics(name)["max"], 6)
        self.assertNotEqual(before["etag"], after["etag"])

    def test_versions_aliases_and_keys_have_statistics(self):
        name = self.name()
        self.assertStatus(self.put(f"{name}@1", {"tensor": [[1.0], [2.0]], "keys": [5, 9]}), 201)
        self.assertStatus(self.post("/v1/aliases", {"set": {name: f"{name}@1"}}), 200)
        for path in (f"{name}@1", name):
            document = self.statistics(path)
            self.assertEqual((document["name"], document["max"]), (f"{name}@1", 2.0))
        self.assertEqual(self.statistics(f"{name}.keys")["max"], 9)
        self.assertEqual(self.statistics(name)["max"], 2.0)

    def test_conditions_hold(self):
        name, metadata = self.resident([1, 2])
        path = f"/v1/tensors/{name}/statistics"
        reply = self.get(path, {"If-None-Match": metadata["etag"]})
        self.assertEqual((reply.status, reply.body, reply.headers["ETag"]), (304, b"", metadata["etag"]))
        self.assertProblem(self.get(path, {"If-Match": '"other"'}), 412, "PRECONDITION_FAILED")
        self.assertStatus(self.get(path, {"If-None-Match": '"other"', "If-Match": metadata["etag"]}), 200)
        head = self.request("HEAD", path)
        self.assertEqual((head.status, head.body, head.headers["ETag"]), (200, b"", metadata["etag"]))


class Refusals(StatisticsTest):
    def test_what_is_not_there_or_not_asked_for_is_refused(self):
        name, _ = self.resident([1, 2])
        self.assertProblem(self.get("/v1/tensors/missing/statistics"), 404, "TENSOR_NOT_FOUND")
        self.assertProblem(self.get(f"/v1/tensors/{name}/statistics?blocks=3"), 400, "MALFORMED_REQUEST", attribute="blocks")
        self.assertProblem(self.request("DELETE", f"/v1/tensors/{name}/statistics"), 405, "METHOD_NOT_ALLOWED")

    def test_a_truncated_file_is_refused_before_and_after_its_statistics_are_known(self):
        folder = temporary_folder()
        for name in ("known", "unknown"):
            with open(f"{folder}/{name}.npy", "wb") as f:
                f.write(npy("float32", (1 << 20,), pack("float32", [1]) * (1 << 20)))
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("GET", "/v1/tensors/known/statistics"), 200)
            for name in ("known", "unknown"):
                os.truncate(f"{folder}/{name}.npy", 8192)
                for path in (f"/v1/tensors/{name}/statistics", f"/v1/tensors/{name}/statistics", f"/v1/tensors/{name}"):
                    self.assertProblem(client.request("GET", path), 503, "DEVICE_UNAVAILABLE")

    def test_a_deadline_ends_the_computation(self):
        folder = temporary_folder()
        with open(f"{folder}/large.npy", "wb") as f:
            f.write(npy("float64", (1 << 23,), b""))
            f.truncate(f.tell() + (8 << 23))  # a sparse file of zeros
        with GatedDaemon("--data-dir", folder, "--workers", "1") as daemon, Raw(daemon) as raw, daemon.gates.closed("check") as gate:
            raw.send(http_request("GET", "/v1/tensors/large/statistics", headers=["X-Request-Timeout-Ms: 300000"]))
            gate.arrival()
            daemon.clock.advance(301)
            gate.open()
            self.assertProblem(raw.reply(), 504, "DEADLINE_EXCEEDED")
            with Client(daemon) as client:
                self.assertServes(client)
