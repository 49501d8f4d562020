"""System shared memory of /v2: registered, used for inputs and outputs, truncated by its owner."""
import itertools, secrets, threading
from gates import GatedDaemon
from oip_client import *


class Object:
    """a shared memory object of a client"""

    def __init__(self, size):
        self.name = f"tensord-test-{os.getpid()}-{secrets.token_hex(8)}"
        self.path = f"/dev/shm/{self.name}"
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self.resize(size)

    def resize(self, size):
        os.ftruncate(self.fd, size)

    def write(self, offset, data):
        os.pwrite(self.fd, data, offset)

    def read(self, offset, size):
        return os.pread(self.fd, size, offset)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        os.unlink(self.path)


class MemoryTest(OipTest):
    options = ("--system-shared-memory", "--max-body=64M")
    numbers = itertools.count()

    def register(self, name, key, size, offset=None, client=None):
        body = {"key": key, "byte_size": size}
        if offset is not None:
            body["offset"] = offset
        return (client or self).post(f"/v2/systemsharedmemory/region/{name}/register", body)

    def unregister(self, name, client=None):
        return (client or self).post(f"/v2/systemsharedmemory/region/{name}/unregister", b"")

    def status(self, name=None):
        return self.get(f"/v2/systemsharedmemory/{f'region/{name}/' if name else ''}status")

    def region(self, memory, size, name=None, offset=None):
        """registers a region until the end of the test"""
        name = name or f"r{next(self.numbers)}"
        reply = self.register(name, "/" + memory.name, size, offset)
        self.assertEqual((reply.status, reply.json()), (200, {}), str(reply))
        self.addCleanup(self.unregister, name)
        return name

    def shared(self, name, datatype, shape, region, size, offset=None):
        parameters = {"shared_memory_region": region, "shared_memory_byte_size": size}
        if offset is not None:
            parameters["shared_memory_offset"] = offset
        return oip_input(name, datatype, shape, None, **parameters)


class Regions(MemoryTest):
    def test_the_extension_is_announced(self):
        self.assertIn("system_shared_memory", self.get("/v2").json()["extensions"])

    def test_the_name_of_a_region_must_be_utf_8_so_that_the_list_of_regions_is_json(self):
        with Object(4096) as memory:
            self.assertError(self.register("a%FFb", "/" + memory.name, 1000), 400, "UTF-8")
            self.assertEqual(self.status().json(), [])

    def test_regions_are_registered_listed_and_unregistered(self):
        with Object(4096) as memory:
            self.assertEqual(self.status().json(), [])
            name = self.region(memory, 1000, "a%20b", 96)
            entry = {"name": "a b", "key": "/" + memory.name, "offset": 96, "byte_size": 1000}
            self.assertEqual(self.status().json(), [entry])
            self.assertEqual(self.status(name).json(), [entry])
            self.assertError(self.register(name, "/" + memory.name, 1000), 400, "already")
            self.assertEqual(self.unregister(name).json(), {})
            self.assertEqual(self.status().json(), [])
            self.assertError(self.status(name), 404, "a b")
            self.assertEqual(self.unregister(name).status, 200)  # registered or not

    def test_all_regions_can_be_unregistered_at_once(self):
        with Object(4096) as memory:
            for i in range(5):
                self.assertStatus(self.register(f"all{i}", memory.name, 16 + i), 200)
            self.assertEqual(len(self.status().json()), 5)
            self.assertStatus(self.post("/v2/systemsharedmemory/unregister", b""), 200)
            self.assertEqual(self.status().json(), [])


class Use(MemoryTest):
    PARAMS_BYTES = pack("float32", OipTest.PARAMS)

    def in_memory(self, memory, region):
        memory.write(0, self.PARAMS_BYTES)
        memory.write(64, pack("int64", [1, 0]))
        return [self.shared("params", "FP32", [3, 2], region, 24), self.shared("indices", "INT64", [2], region, 16, 64)]

    def test_inputs_and_outputs_may_be_in_regions(self):
        with Object(4096) as source, Object(8192) as target:
            inputs = self.in_memory(source, self.region(source, 4096))
            into = self.region(target, 4096, offset=4096)
            self.assertGathered(self.infer("gather", inputs))
            target.write(0, b"\xee" * 8192)
            reply = self.infer("gather", inputs, [wanted("output", shared_memory_region=into,
                                shared_memory_byte_size=100, shared_memory_offset=200, binary_data=False)])
            document, outputs = read_reply(reply)
            self.assertEqual(outputs["output"], ("FP32", [2, 2], None))
            self.assertEqual(document["outputs"], [{"name": "output", "datatype": "FP32", "shape": [2, 2]}])
            self.assertEqual(target.read(4296, 16), pack("float32", [3.5, 4.5, 1.5, 2.5]))
            self.assertEqual(target.read(0, 4296), b"\xee" * 4296)
            self.assertEqual(target.read(4312, 3880), b"\xee" * 3880)

    def test_a_request_reads_the_latest_bytes_of_a_region(self):
        with Object(4096) as memory:
            inputs = self.in_memory(memory, self.region(memory, 4096))
            self.assertGathered(self.infer("gather", inputs))
            memory.write(64, pack("int64", [2, 2]))
            self.assertGathered(self.infer("gather", inputs), (5.5, 6.5, 5.5, 6.5))

    def test_unregistering_does_not_affect_a_request_in_flight(self):
        with Object(4096) as memory, GatedDaemon(*self.options) as daemon, Client(daemon) as client, Raw(daemon) as raw:
            self.assertStatus(self.register("busy", memory.name, 4096, client=client), 200)
            body, headers = envelope(self.in_memory(memory, "busy"))
            with daemon.gates.closed("compute") as gate:
                raw.send(http_request("POST", "/v2/models/gather/infer", body, [f"{k}: {v}" for k, v in headers.items()]))
                gate.arrival()
                gate.let_pass()
                self.assertStatus(self.unregister("busy", client=client), 200)
                self.assertEqual(client.request("GET", "/v2/systemsharedmemory/status").json(), [])
            self.assertGathered(raw.reply())
            self.assertError(client.request("POST", "/v2/models/gather/infer", body, headers), 404, "busy")

    def test_unregistering_does_not_affect_requests_of_many_clients(self):
        with Object(32 << 20) as memory, Client(self.daemon) as client:
            stop, replies = threading.Event(), []
            rows = 1 << 20

            def work():
                with Client(self.daemon) as mine:
                    while not stop.is_set():
                        body, headers = envelope([self.shared("params", "FP32", [rows, 8], "busy", 32 << 20),
                                                  oip_input("indices", "INT64", [4], [0, rows - 1, 5, 7])])
                        replies.append(mine.request("POST", "/v2/models/gather/infer", body, headers))

            def successes():
                return sum(reply.status == 200 for reply in replies)
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            try:
                for turn in range(30):
                    before = successes()
                    self.assertStatus(self.register("busy", memory.name, 32 << 20, client=client), 200)
                    self.wait_until(lambda: successes() > before + turn % 4)
                    self.assertStatus(self.unregister("busy", client=client), 200)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            for reply in replies:
                if reply.status != 200:
                    self.assertError(reply, 404, "busy")


class Truncation(MemoryTest):
    def test_a_truncated_region_is_refused_until_it_is_registered_again(self):
        with Object(8192) as memory:
            region = self.region(memory, 8192)
            inputs = [self.shared("params", "FP32", [2048], region, 8192), oip_input("indices", "INT64", [1], [0])]
            self.assertStatus(self.infer("gather", inputs), 200)
            memory.resize(4096)
            self.assertError(self.infer("gather", inputs), 400, "truncated", region)
            memory.resize(8192)
            self.assertError(self.infer("gather", inputs), 400, "truncated")
            self.unregister(region)
            self.assertStatus(self.register(region, memory.name, 8192), 200)
            self.assertStatus(self.infer("gather", inputs), 200)

    def test_an_output_that_a_truncated_region_has_lost_is_no_success(self):
        with Object(8192) as memory:
            region = self.region(memory, 8192)
            inputs = [oip_input("params", "FP32", [3, 2], self.PARAMS), oip_input("indices", "INT64", [1], [0])]
            output = [wanted("output", shared_memory_region=region, shared_memory_byte_size=8, shared_memory_offset=4096)]
            self.assertStatus(self.infer("gather", inputs, output), 200)
            memory.resize(4096)
            self.assertError(self.infer("gather", inputs, output), 400, "truncated", region)

    def test_regions_that_are_truncated_while_a_request_uses_them(self):
        rows = 1 << 16
        numbers = pack("float32", range(rows))
        for truncated in ("read", "written"):
            with self.subTest(truncated), Object(4 * rows) as read, Object(4 * rows) as written, \
                    GatedDaemon(*self.options, "--workers=1") as daemon, Client(daemon) as client, Raw(daemon) as raw, \
                    daemon.gates.closed("check") as gate:
                read.write(0, numbers)
                for name, memory in (("read", read), ("written", written)):
                    self.assertStatus(self.register(name, memory.name, 4 * rows, client=client), 200)
                body, headers = envelope([self.shared("params", "FP32", [rows], "read", 4 * rows),
                                          oip_input("indices", "INT32", [rows], pack("int32", range(rows)))],
                                         [wanted("output", shared_memory_region="written", shared_memory_byte_size=4 * rows)])
                raw.send(http_request("POST", "/v2/models/gather/infer", body, [f"{k}: {v}" for k, v in headers.items()]))
                gate.arrival()  # a part of it has been computed
                {"read": read, "written": written}[truncated].resize(0)
                gate.open()
                self.assertError(raw.reply(), 400, "truncated", truncated)
                self.assertServes(client)

    def test_the_daemon_survives_truncation_of_regions_in_use(self):
        size, rows = 16 << 20, 1 << 20
        ones = pack("float32", [1.0] * 4) * rows
        with Client(self.daemon) as control:
            stop, wrong, seen = threading.Event(), [], []

            def work(into_memory):
                indices = oip_input("indices", "INT32", [rows // 4], struct.pack(f"<{rows // 4}i", *range(rows - 1, -1, -4)))
                outputs = [wanted("output", shared_memory_region="written", shared_memory_byte_size=size // 4)] \
                    if into_memory else [wanted("output", binary_data=True)]
                params = oip_input("params", "FP32", [rows // 4, 4], ones[:4 * rows]) if into_memory \
                    else self.shared("params", "FP32", [rows, 4], "read", size)
                if into_memory:
                    indices = oip_input("indices", "INT32", [rows // 4], struct.pack(f"<{rows // 4}i", *range(rows // 4)))
                body, headers = envelope([params, indices], outputs)
                with Client(self.daemon) as mine:
                    while not stop.is_set():
                        reply = mine.request("POST", "/v2/models/gather/infer", body, headers)
                        seen.append((into_memory, reply.status))
                        if reply.status not in (200, 400, 404):
                            wrong.append(str(reply))
                        # Zeros from the truncation must not be returned.
                        if reply.status == 200 and not into_memory and \
                                read_reply(reply)[1]["output"][2] != ones[:4 * rows]:
                            wrong.append("the reply has other values")

            def wait_for_reply(since, *expected):
                """until a client has received one of these replies; since: so many had been received"""
                self.wait_until(lambda: set(seen[since:]) & set(expected))
            threads = [threading.Thread(target=work, args=(i == 1,)) for i in range(2)]
            for thread in threads:
                thread.start()
            try:
                for turn in range(24):
                    # The objects do not grow again: zeros written by the client would be valid.
                    with Object(size) as read, Object(size) as written:
                        read.write(0, ones)
                        for name, memory in (("read", read), ("written", written)):
                            self.unregister(name, control)
                            self.assertStatus(self.register(name, memory.name, size, client=control), 200)
                        if turn % 3 == 1:
                            wait_for_reply(len(seen), (False, 200))  # a reply is complete, and the next request in use
                        elif turn % 3 == 2:
                            wait_for_reply(len(seen), (True, 200))
                        truncated = len(seen)
                        read.resize(0)
                        written.resize(0)
                        wait_for_reply(truncated, (False, 400))
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.unregister("read", control)
            self.unregister("written", control)
            self.assertEqual(wrong[:3], [])
            self.assertLessEqual({(False, 200), (False, 400), (True, 200)}, set(seen))
        self.assertServes()


class Off(OipTest):
    def test_without_the_option_every_request_names_it(self):
        for method, path, body in (("GET", "/v2/systemsharedmemory/status", None),
                                   ("GET", "/v2/systemsharedmemory/region/r/status", None),
                                   ("POST", "/v2/systemsharedmemory/unregister", b""),
                                   ("POST", "/v2/systemsharedmemory/region/r/unregister", b""),
                                   ("POST", "/v2/systemsharedmemory/region/r/register", {"key": "k", "byte_size": 1})):
            self.assertError(self.request(method, path, body), 501, "--system-shared-memory", code="NOT_SUPPORTED")
        shared = oip_input("params", "FP32", [3], None, shared_memory_region="r", shared_memory_byte_size=12)
        self.assertError(self.infer("gather", [shared, oip_input("indices", "INT64", [1], [0])]), 501, "--system-shared-memory")

    def test_cuda_shared_memory_is_unsupported_but_unregistering_succeeds(self):
        self.assertEqual(self.get("/v2/cudasharedmemory/status").json(), [])
        for path in ("/v2/cudasharedmemory/unregister", "/v2/cudasharedmemory/region/r/unregister"):
            self.assertEqual(self.post(path, b"").json(), {})
        self.assertError(self.post("/v2/cudasharedmemory/region/r/register",
                                   {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 64}), 501, "CUDA")
        self.assertError(self.get("/v2/cudasharedmemory/region/r/status"), 404)
