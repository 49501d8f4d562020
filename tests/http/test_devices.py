"""Ops on the reference device, which is used like a GPU."""
import collections, concurrent.futures, contextlib, random, shutil, tempfile, threading
from daemon import *
from gates import GatedDaemon

TABLE = [[float(10 * i + j) for j in range(4)] for i in range(100)]
BINARY_HEADERS = {"Content-Type": SAFETENSORS}
HALF_HOUR_MS, HOUR_MS, DAY_MS = "1800000", "3600000", "86400000"  # tests advance the clock by half an hour at a time
PATIENT = ("--idle-timeout-ms", DAY_MS, "--header-timeout-ms", DAY_MS, "--default-timeout-ms", DAY_MS)  # beyond what the clock advances


def lookup(*indices, **members):
    return {"params": {"ref": "table"}, "indices": list(indices), "device": "gpu", **members}


class DeviceTest(HttpTest):
    options = ("--gpu", "reference")

    def setUp(self):
        super().setUp()
        self.put_table(self)

    def put_table(self, asker):
        self.assertIn(asker.request("PUT", "/v1/tensors/table", TABLE).status, (200, 201))

    def gpu(self, asker=None):
        asker = asker or self
        return next(d for d in asker.request("GET", "/v1/devices").json()["devices"] if d["device"] == "gpu")

    def wait_for(self, client, state):
        self.wait_until(lambda: state(self.gpu(client)), "the state of the device that the test waits for")

    def wait_for_queue(self, client, in_flight, waiting=0):
        """waits until so many requests are on the device, and so many wait for it"""
        self.wait_for(client, lambda gpu: gpu["queue"] == {**gpu["queue"], "in_flight": in_flight, "waiting": waiting})

    def rows(self, *indices):
        return {"output": {"dtype": "float32", "shape": [len(indices), 4], "data": [TABLE[i] for i in indices]}}


class Absent(HttpTest):
    options = ("--gpu", "off")

    def test_gpu_is_refused_and_auto_is_not(self):
        for device, status in (("gpu", 503), ("auto", 200), ("cpu", 200)):
            reply = self.post("/v1/gather", {"params": [1, 2], "indices": [1], "device": device})
            self.assertStatus(reply, status)
        problem = self.assertProblem(self.post("/v1/gather", {"params": [1], "indices": [0], "device": "gpu"}), 503,
                                     "DEVICE_UNAVAILABLE")
        self.assertIn("--gpu off", problem["detail"])

    def test_devices_reports_the_cpu_and_why_there_is_no_gpu(self):
        cpu, gpu = self.get("/v1/devices").json()["devices"]
        self.assertEqual((cpu["device"], cpu["state"]), ("cpu", "ready"))
        self.assertGreaterEqual(cpu["workers"], 1)
        self.assertEqual((gpu["device"], gpu["state"]), ("gpu", "absent"))
        self.assertIn("off", gpu["reason"])


class WithoutPlugin(unittest.TestCase):
    def test_clients_are_told_that_there_is_no_gpu_and_the_log_where_it_was_looked_for(self):
        with tempfile.TemporaryDirectory() as folder:  # without a plugin beside the program
            class Alone(Daemon):
                def program(self):
                    return os.path.join(folder, "tensord")
            shutil.copy(BINARY, folder)
            with Alone("--log-level", "debug") as daemon, Client(daemon) as client:
                reply = client.post("/v1/gather", {"params": [1], "indices": [0], "device": "gpu"})
                self.assertEqual((reply.status, reply.json()["detail"]),
                                 (503, "device is 'gpu', but this server has no GPU plugin that it can load; expected 'auto' or 'cpu'"))
                gpu = client.request("GET", "/v1/devices").json()["devices"][1]
                self.assertEqual((gpu["state"], gpu["reason"]), ("absent", "this server has no GPU plugin that it can load"))
                event = daemon.wait_log(lambda e: e["event"] == "no_gpu")
                self.assertIn(folder, event["reason"])


class Start(HttpTest):
    def test_a_named_device_must_exist(self):
        for name, said in (("nonsense", "nonsense"), ("/nowhere/plugin.so", "/nowhere/plugin.so"), ("reference:nonsense=1", "nonsense")):
            result = subprocess.run([BINARY, "--listen", "127.0.0.1:0", "--gpu", name], stderr=subprocess.PIPE, text=True,
                                    timeout=WAIT_LIMIT, env=environment())
            self.assertNotEqual(result.returncode, 0, name)
            self.assertIn(said, result.stderr)


    def test_opening_a_device_is_retried(self):
        with GatedDaemon("--gpu", "reference:fail_open=1", "--gpu-retry-ms", HALF_HOUR_MS, *PATIENT) as daemon, Client(daemon) as client:
            def gpu():
                return client.request("GET", "/v1/devices").json()["devices"][1]
            before = gpu()
            self.assertEqual((before["state"], before["kind"], before["name"], before["times_opened"]), ("unavailable", "reference", "", 0))
            self.assertIn("fail_open", before["reason"])
            for params, status, code in ((["a"], 422, "UNSUPPORTED_DTYPE"), ([1], 503, "DEVICE_UNAVAILABLE")): # a retry may help only in the second case
                reply = client.request("POST", "/v1/gather", {"params": params, "indices": [0], "device": "gpu"})
                self.assertEqual((reply.status, reply.json()["code"]), (status, code))
            daemon.clock.advance(1801)
            self.wait_until(lambda: gpu()["state"] == "ready")
            self.assertEqual(gpu()["times_opened"], 1)
            self.assertStatus(client.post("/v1/gather", {"params": [1], "indices": [0], "device": "gpu"}), 200)


class Answers(DeviceTest):
    def test_a_lookup_is_computed_on_the_device(self):
        before = self.gpu()
        reply = self.post("/v1/gather", lookup(3, 0, 99))
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json(), self.rows(3, 0, 99))
        after = self.gpu()
        self.assertEqual(after["requests"], before["requests"] + 1)
        self.assertGreaterEqual(after["memory"]["tables"], 1)

    def test_every_op_runs_on_the_device(self):
        for op, body, output in (
                ("gather", {"params": [[1, 2], [3, 4]], "indices": [1]}, [[3, 4]]),
                ("batch_gather", {"params": [[1, 2], [3, 4]], "indices": [[1], [0]]}, [[2], [3]]),
                ("gather_nd", {"params": [[1, 2], [3, 4]], "indices": [[1, 0]]}, [3]),
                ("dynamic_stitch", {"indices": [[0, 2], [2]], "data": [[5, 6], [7]]}, [5, 0, 7]),
                ("parallel_dynamic_stitch", {"indices": [[0], [1]], "data": [[5], [7]]}, [5, 7]),
                ("einsum", {"equation": "ij,jk->ik", "inputs": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}, [[19, 22], [43, 50]])):
            with self.subTest(op):
                before = self.gpu()["requests"]
                reply = self.post(f"/v1/{op}", {**body, "device": "gpu"})
                self.assertStatus(reply, 200)
                self.assertEqual(reply.json()["output"]["data"], output)
                self.assertEqual(self.gpu()["requests"], before + 1)
        reply = self.post("/v1/dynamic_partition", {"data": [1, 2, 3], "partitions": [1, 0, 1], "num_partitions": 2, "device": "gpu"})
        self.assertEqual([o["data"] for o in reply.json()["outputs"]], [[2], [1, 3]])
        reply = self.post("/v1/search", {"params": [[1, 2], [3, 4]], "rows": [0], "k": 1, "device": "gpu"})
        self.assertEqual({name: o["data"] for name, o in reply.json()["outputs"].items()}, {"scores": [[11]], "indices": [[1]]})

    def test_large_outputs_are_complete(self):
        rng = random.Random(SEED)
        params, rows = rng.randbytes(64 * 1000), [rng.randrange(1000) for _ in range(50000)]
        body = safetensors({"params": ("uint8", (1000, 64), params), "indices": ("int32", (len(rows),), pack("int32", rows))})
        reply = self.post("/v1/gather?device=gpu", body, BINARY_HEADERS)
        self.assertStatus(reply, 200)
        self.assertTrue(read_safetensors(reply.body)[0]["output"][2] == b"".join(params[64 * i:64 * i + 64] for i in rows))

    def test_bounds_default_to_zero_on_the_device(self):
        reply = self.post("/v1/gather", lookup(1, 100, -1))
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["output"]["data"], [TABLE[1], [0.0] * 4, [0.0] * 4])
        self.assertEqual(reply.json()["bounds"], {"policy": "zero", "replaced": 2})
        clipped = self.post("/v1/gather", lookup(1, 100, bounds="clip")).json()
        self.assertEqual(clipped["output"]["data"], [TABLE[1], TABLE[99]])

    def test_errors_are_those_of_the_cpu(self):
        for op, body, name in (("gather", {"indices": [1, 100, -1], "bounds": "error"}, "indices"),
                               ("gather_nd", {"indices": [[1, 0], [0, 4], [100, 0]], "bounds": "error"}, "indices"),
                               ("search", {"rows": [1, 100], "k": 1}, "rows"),
                               ("search", {"rows": [1], "candidates": [7, -1], "k": 1}, "candidates"),
                               ("search", {"rows": [1], "exclude": [100], "k": 1}, "exclude")):
            body["params"] = {"ref": "table"}
            here, there = (self.post(f"/v1/{op}", {**body, "device": device}) for device in ("cpu", "gpu"))
            self.assertProblem(there, 422, "INDEX_OUT_OF_BOUNDS", input=name)
            for reply in (here, there):
                reply.problem = {k: v for k, v in reply.json().items() if k != "request_id"}
            self.assertEqual(here.problem, there.problem)

    def test_strings_are_computed_on_the_cpu(self):
        body = {"params": ["a", "b"], "indices": [1]}
        problem = self.assertProblem(self.post("/v1/gather", {**body, "device": "gpu"}), 422, "UNSUPPORTED_DTYPE",
                                     device="gpu", input="params")
        self.assertIn("string", problem["detail"])
        lists = {"indices": [[0], [1]], "data": [["a"], ["b"]], "device": "gpu"}
        self.assertProblem(self.post("/v1/dynamic_stitch", lists), 422, "UNSUPPORTED_DTYPE", device="gpu", input="data[0]")
        inference = {"inputs": [{"name": "params", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]},
                                {"name": "indices", "datatype": "INT32", "shape": [1], "data": [1]}]}
        reply = self.post("/v2/models/gather/infer", {**inference, "parameters": {"device": "gpu"}})
        self.assertStatus(reply, 400)
        self.assertEqual({k: reply.json()[k] for k in ("code", "device", "input")},
                         {"code": "UNSUPPORTED_DTYPE", "device": "gpu", "input": "params"})
        self.assertEqual(self.post("/v1/gather", {**body, "device": "auto"}).json()["output"]["data"], ["b"])

    def test_a_replaced_table_is_replaced_on_the_device(self):
        self.post("/v1/gather", lookup(1))
        self.assertStatus(self.request("PUT", "/v1/tensors/table", [[7.0] * 4]), 200)
        self.assertEqual(self.post("/v1/gather", lookup(0)).json()["output"]["data"], [[7.0] * 4])
        self.put_table(self)

    def test_updated_rows_are_updated_on_the_device(self):
        self.assertStatus(self.request("PUT", "/v1/tensors/changing", TABLE), 201)
        for i in range(10):
            self.assertStatus(self.post("/v1/tensors/changing/scatter", {"indices": [[i]], "updates": [[float(-i)] * 4]}), 200)
            body = {"params": {"ref": "changing"}, "indices": [i, 50], "device": "gpu"}
            self.assertEqual(self.post("/v1/gather", body).json()["output"]["data"], [[float(-i)] * 4, TABLE[50]])
        self.request("DELETE", "/v1/tensors/changing")
        self.wait_until(lambda: self.gpu()["memory"]["tables"] <= 1, "the copies of old versions are freed")

    def test_a_put_may_upload_a_table(self):
        with Daemon("--gpu", "reference") as daemon, Client(daemon) as client:
            reply = client.request("PUT", "/v1/tensors/uploaded?device=gpu", TABLE)
            self.assertStatus(reply, 201)
            self.assertEqual(reply.json()["device"], "gpu")
            self.assertEqual(self.gpu(client)["memory"]["tables"], 1)
            self.assertEqual(client.post("/v1/gather", {"params": {"ref": "uploaded"}, "indices": [5], "device": "gpu"}).json(), self.rows(5))
            self.assertEqual(self.gpu(client)["memory"]["tables"], 1)
            self.assertNotIn("device", client.request("GET", "/v1/tensors/uploaded").json())
            self.assertProblem(client.request("PUT", "/v1/tensors/letters?device=gpu", ["a"]), 422, "UNSUPPORTED_DTYPE", device="gpu")
            self.assertStatus(client.request("GET", "/v1/tensors/letters"), 404)
            self.assertProblem(client.request("PUT", "/v1/tensors/uploaded?device=tpu", TABLE), 400, "MALFORMED_REQUEST")
            for elsewhere in ("auto", "cpu"):
                reply = client.request("PUT", f"/v1/tensors/uploaded?device={elsewhere}", TABLE)
                self.assertStatus(reply, 200)
                self.assertNotIn("device", reply.json())

    def test_stored_results_do_not_depend_on_device_memory(self):
        for i in range(20):
            self.assertStatus(self.post("/v1/gather", lookup(i, i + 1, store=f"kept{i}")), 200)
        for i in range(20):
            self.assertEqual(self.get(f"/v1/tensors/kept{i}?response=nested").json()["data"], [TABLE[i], TABLE[i + 1]])
            self.request("DELETE", f"/v1/tensors/kept{i}")

    def test_v2_requests_run_on_the_device(self):
        before = self.gpu()["requests"]
        body = {"inputs": [{"name": "params", "datatype": "INT32", "shape": [3], "data": [5, 6, 7]},
                           {"name": "indices", "datatype": "INT32", "shape": [2], "data": [2, 0]}], "parameters": {"device": "gpu"}}
        reply = self.post("/v2/models/gather/infer", body)
        self.assertStatus(reply, 200)
        self.assertEqual(reply.json()["outputs"][0]["data"], [7, 5])
        self.assertEqual(self.gpu()["requests"], before + 1)

    def test_queued_requests_run_on_the_device(self):
        with Daemon("--gpu", "reference", "--inline-limit-us", "0", "--workers", "1") as daemon, Client(daemon) as client:
            self.put_table(client)
            for _ in range(3):
                self.assertEqual(client.post("/v1/gather", lookup(3, 5)).json(), self.rows(3, 5))


class Batches(DeviceTest):
    def answers(self, op, bodies, on_device=None, program=None, batches=2):
        """The replies to requests that name the table, of which all but the first arrive while the device computes
        that one. on_device: how many reach the device, if not all. program: is stored first, and called instead of an op.
        Checks that those are two launches, or `batches`."""
        on_device = on_device or len(bodies)
        table = {} if program else {"params": {"ref": "table"}}
        requests = [http_request("POST", "/v1/" + op, json.dumps({**table, "device": "gpu", **body}).encode()) for body in bodies]
        with GatedDaemon("--gpu", "reference", "--gpu-hang-ms", HOUR_MS) as daemon, Client(daemon) as client, contextlib.ExitStack() as stack:
            self.put_table(client)
            if program:
                self.assertStatus(client.request("PUT", "/v1/" + op, program), 201)
            sockets = [stack.enter_context(Raw(daemon)) for _ in requests]
            with daemon.gates.closed("device") as gate:
                sockets[0].send(requests[0])
                gate.arrival()
                for raw, request in zip(sockets[1:], requests[1:]):
                    raw.send(request)
                self.wait_for_queue(client, in_flight=1, waiting=on_device - 1)
            replies = replies_of(sockets)
            gpu = self.gpu(client)
            self.assertEqual((gpu["requests"], gpu["batches"], gpu["mean_batch_size"]), (on_device, batches, on_device / batches))
        return replies

    def test_lookups_that_arrive_while_the_device_is_busy_are_one_launch(self):
        replies = self.answers("gather", [{"indices": [i, 2 * i]} for i in range(32)])
        self.assertEqual([reply.json() for reply in replies], [self.rows(i, 2 * i) for i in range(32)])

    def test_bags_of_one_table_are_one_launch(self):
        for bags, rows in (("offsets", [0, 2]), ("segment_ids", [0, 0, 1])):
            replies = self.answers("embedding_bag", [{"indices": [i, i + 1, 2 * i], bags: rows} for i in range(32)])
            for i, reply in enumerate(replies):
                sums = [[a + b for a, b in zip(TABLE[i], TABLE[i + 1])], TABLE[2 * i]]
                self.assertEqual(reply.json()["output"]["data"], sums, (bags, i))

    def test_searches_of_one_table_are_one_launch(self):
        replies = self.answers("search", [{"queries": TABLE[i], "k": 1, "metric": "l2"} for i in range(32)])
        self.assertEqual([reply.json()["outputs"]["indices"]["data"] for reply in replies], [[i] for i in range(32)])
        replies = self.answers("search", [{"queries": [TABLE[i], TABLE[0]], "k": 1, "metric": "l2"} for i in range(32)])
        self.assertEqual([reply.json()["outputs"]["indices"]["data"] for reply in replies], [[[i], [0]] for i in range(32)])

    def test_bad_bags_fail_one_request(self):
        bodies = [{"indices": [i, 1], "offsets": [0], "bounds": "error"} for i in range(16)]
        bodies[3] = {"indices": [0, 1, -1, 100], "offsets": [0], "bounds": "error"}
        bodies[7] = {"indices": [0, 1], "offsets": [0, 5]}
        bodies[9] = {"indices": [0, 1], "segment_ids": [1, 0], "num_segments": 2}
        for i, reply in enumerate(self.answers("embedding_bag", bodies, on_device=14)):  # bad bags do not reach it
            if i == 3:
                self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", input="indices", position=[2], index=-1, bad_count=2)
            elif i == 7:
                self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", input="offsets", position=[1], index=5)
            elif i == 9:
                self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", input="segment_ids", position=[1], index=0)
            else:
                self.assertEqual(reply.json()["output"]["data"], [[a + b for a, b in zip(TABLE[i], TABLE[1])]])

    def program(self, *steps, **gather):
        """a program that picks the rows `ids` of the table for each row of its batch, and passes them on as "rows" """
        return {"inputs": {"ids": {"dtype": "int64", "shape": ["b", 2]}},
                "steps": [{"op": "gather", "params": {"ref": "table"}, "indices": "$ids", **gather, "as": "rows"}, *steps], "outputs": ["result"]}

    def test_calls_of_a_stored_program_are_one_launch_whatever_their_numbers_of_rows(self):
        program = self.program({"op": "reduce_sum", "x": "$rows", "axes": [1], "as": "sums"},
                               {"op": "einsum", "equation": "bd,df->bf", "inputs": ["$sums", [[1, 0], [0, 1], [1, 1], [2, 0]]], "as": "products"},
                               {"op": "subtract", "x": "$products", "y": [1.0, 100.0], "as": "result"})
        calls = [[[i + r, 2 * r] for r in range(1 + i % 3)] for i in range(32)]
        replies = self.answers("programs/sums", [{"ids": ids} for ids in calls], program=program)
        for ids, reply in zip(calls, replies):
            sums = [[a + b for a, b in zip(TABLE[i], TABLE[j])] for i, j in ids]
            self.assertEqual(reply.json()["outputs"]["result"]["data"], [[s[0] + s[2] + 2 * s[3] - 1, s[1] + s[2] - 100] for s in sums])

    def test_a_bad_index_fails_one_call_of_a_program(self):
        program = self.program({"op": "negative", "x": "$rows", "as": "result"}, bounds="error")
        bodies = [{"ids": [[i, 1], [2, 100 if i == 7 else 0]]} for i in range(16)]
        for i, reply in enumerate(self.answers("programs/rows", bodies, program=program)):
            if i == 7:
                self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", step=0, position=[1, 1], index=100, bound=100)
            else:
                self.assertEqual(reply.json()["outputs"]["result"]["data"], [[[-x for x in TABLE[j]] for j in row] for row in bodies[i]["ids"]])

    def test_each_call_of_a_program_is_told_of_its_own_replaced_indices(self):
        program = self.program({"op": "negative", "x": "$rows", "as": "result"}, bounds="zero")
        replies = self.answers("programs/rows", [{"ids": [[i, 1], [200 + i, -1 if i == 3 else 0]]} for i in range(8)], program=program)
        for i, reply in enumerate(replies):
            self.assertEqual(reply.json()["bounds"], [{"step": 0, "policy": "zero", "replaced": 2 if i == 3 else 1}])

    def test_calls_with_other_arguments_or_rows_that_depend_on_each_other_are_launched_one_by_one(self):
        best = self.program({"op": "reduce_sum", "x": "$rows", "axes": [1], "as": "sums"},
                            {"op": "top_k", "x": "$sums", "k": {"attr": "k", "default": 1}, "as": {"values": "result"}})
        replies = self.answers("programs/best", [{"ids": [[i, i]], "k": 1 + i % 2} for i in range(5)], program=best, batches=3)
        for i, reply in enumerate(replies):
            self.assertEqual(reply.json()["outputs"]["result"]["data"], [[2 * x for x in reversed(TABLE[i])][:1 + i % 2]])
        for steps in ({"op": "softmax", "x": "$rows", "axis": 0, "as": "result"},), ({"op": "reshape", "x": "$rows", "shape": [2, 4], "as": "flat"},
                                                                                    {"op": "softmax", "x": "$flat", "axis": 0, "as": "result"}):
            replies = self.answers("programs/mixed", [{"ids": [[1, 1]]}] * 4, program=self.program(*steps), batches=4)
            for reply in replies:
                self.assertStatus(reply, 200)

    def test_calls_that_omit_a_policy_are_not_merged_with_calls_that_set_it(self):
        program = self.program({"op": "negative", "x": "$rows", "as": "result"}, bounds={"attr": "mode", "default": "clip"})
        bodies = [{"ids": [[100, 0]], **({"mode": "zero"} if i % 2 else {})} for i in range(5)]
        for i, reply in enumerate(self.answers("programs/modes", bodies, program=program, batches=3)):
            row = [0.0] * 4 if i % 2 else TABLE[99]
            self.assertEqual(reply.json()["outputs"]["result"]["data"][0][0], [-x for x in row])

    def test_a_program_that_accepts_one_number_of_rows_is_launched_one_by_one(self):
        program = self.program({"op": "reshape", "x": "$rows", "shape": [1, 2, 2, 2], "as": "result"})
        for i, reply in enumerate(self.answers("programs/one", [{"ids": [[i, 0]]} for i in range(4)], program=program, batches=4)):
            self.assertEqual(reply.json()["outputs"]["result"]["data"], [[[TABLE[i][:2], TABLE[i][2:]], [TABLE[0][:2], TABLE[0][2:]]]])

    def test_one_bad_index_fails_one_request(self):
        bodies = [{"indices": [i, 100 if i == 7 else 0], "bounds": "error"} for i in range(16)]
        for i, reply in enumerate(self.answers("gather", bodies)):
            if i == 7:
                self.assertProblem(reply, 422, "INDEX_OUT_OF_BOUNDS", position=[1], index=100, bound=100)
            else:
                self.assertEqual(reply.json(), self.rows(i, 0))


class Faults(DeviceTest):
    def send_all(self, daemon, client, n):
        """n connections that have sent a lookup each: all have arrived at the device, on which two are at once"""
        sockets = [Raw(daemon) for _ in range(n)]
        for raw in sockets:
            self.addCleanup(raw.close)
            raw.send(http_request("POST", "/v1/gather", json.dumps(lookup(1)).encode()))
        self.wait_for_queue(client, in_flight=2, waiting=n - 2)
        return sockets

    def test_waiting_requests_are_refused_after_the_drain_timeout(self):
        with GatedDaemon("--gpu", "reference", "--batch-limit", "1", "--drain-timeout-ms", "0", "--gpu-hang-ms", HOUR_MS) as daemon, \
                Client(daemon) as client:
            self.put_table(client)
            self.assertEqual(client.post("/v1/gather", lookup(1)).json(), self.rows(1))  # the table is on the device
            with daemon.gates.closed("device") as gate:
                sockets = self.send_all(daemon, client, 12)
                for _ in range(2):
                    gate.arrival().release()  # the work of one request
                self.wait_for_queue(client, in_flight=2, waiting=8)
                self.wait_until(lambda: metric(daemon, 'tensord_requests_total{op="gather",code="200",transport="json"}') == 3)
                with daemon.clock.stopped():  # the second is not over before all replies are read
                    daemon.send_signal(signal.SIGTERM)
                    self.wait_until(lambda: sum(not raw.is_silent() for raw in sockets) == 10)
                    daemon.clock.advance(1.1)  # ends the second that launches in flight have
                    replies = replies_of(sockets)
            # Two were computed; two are on the device until a second after the timeout; the others wait. A request that comes back
            # from the device waits for a worker again, and is refused for the drain if none has taken it by then.
            self.assertEqual(collections.Counter(reply.status for reply in replies), {200: 2, 503: 10})
            codes = collections.Counter(reply.json()["code"] for reply in replies if reply.status == 503)
            self.assertEqual(set(codes) - {"DEVICE_UNAVAILABLE"}, {"DRAINING"})
            self.assertGreaterEqual(codes["DRAINING"], 8)
            self.assertEqual(daemon.wait(), 0)

    def test_the_queue_timeout_of_v2_ends_at_the_launch(self):
        body = json.dumps({"inputs": [{"name": "indices", "datatype": "INT32", "shape": [1], "data": [2]}],
                           "parameters": {"params.ref": "table", "device": "gpu", "timeout": 300_000_000}}).encode()
        request = http_request("POST", "/v2/models/gather/infer", body, ["X-Request-Timeout-Ms: " + HOUR_MS])
        with GatedDaemon("--gpu", "reference", "--gpu-hang-ms", HOUR_MS, *PATIENT) as daemon, Client(daemon) as client, \
                Raw(daemon) as launched, Raw(daemon) as queued:
            self.put_table(client)
            with daemon.gates.closed("device") as gate:
                launched.send(request)
                gate.arrival()
                queued.send(request)
                self.wait_for_queue(client, in_flight=1, waiting=1)
                daemon.clock.advance(301)
                reply = queued.reply()
                self.assertEqual((reply.status, reply.json()["code"]), (504, "DEADLINE_EXCEEDED"))
            self.assertStatus(launched.reply(), 200)

    def test_idle_staging_memory_is_returned_to_the_budget(self):
        with GatedDaemon("--gpu", "reference", "--gpu-hang-ms", HOUR_MS) as daemon, Client(daemon) as client:
            self.put_table(client)
            self.assertStatus(client.post("/v1/gather", lookup(*range(100))), 200)
            self.assertGreater(self.gpu(client)["memory"]["staging"], 0)
            daemon.clock.advance(6)
            self.wait_for(client, lambda gpu: gpu["memory"]["staging"] == 0)

    def test_device_gpu_is_refused_while_the_device_is_lost_and_reopened(self):
        with GatedDaemon("--gpu", "reference:lose_at=3", "--gpu-retry-ms", HALF_HOUR_MS, *PATIENT) as daemon, \
                Client(daemon) as client:
            self.put_table(client)
            self.assertEqual([client.post("/v1/gather", lookup(i)).status for i in range(2)], [200, 200])
            for i in range(2):
                self.assertProblem(client.post("/v1/gather", lookup(i)), 503, "DEVICE_UNAVAILABLE")
            self.assertEqual((self.gpu(client)["state"], self.gpu(client)["times_opened"]), ("unavailable", 1))
            daemon.clock.advance(1801)
            self.wait_for(client, lambda gpu: gpu["state"] == "ready")
            self.assertEqual(client.post("/v1/gather", lookup(5)).json(), self.rows(5))
            self.assertEqual(self.gpu(client)["times_opened"], 2)

    def test_device_auto_falls_back_to_the_cpu(self):
        # Large enough that auto chooses the device, whose costs are zero.
        n = 300
        body = safetensors({"inputs.0": ("float32", (n, n), bytes(4 * n * n)), "inputs.1": ("float32", (n, n), bytes(4 * n * n))})
        with Daemon("--gpu", "reference:lose_at=2", "--gpu-retry-ms", HOUR_MS) as daemon, Client(daemon) as client:
            for _ in range(4):
                reply = client.request("POST", "/v1/einsum?equation=ij,jk->ik", body, BINARY_HEADERS)
                self.assertStatus(reply, 200)
            self.assertEqual(self.gpu(client)["state"], "unavailable")
            self.assertEqual(self.gpu(client)["requests_given_back"], 1)

    def test_a_request_on_a_hanging_device_is_504_and_the_device_is_reopened(self):
        with GatedDaemon("--gpu", "reference:hang_at=1", "--gpu-hang-ms", HOUR_MS, "--gpu-retry-ms", "1", *PATIENT) as daemon, \
                Client(daemon) as client, Raw(daemon) as hung:
            self.put_table(client)
            hung.send(http_request("POST", "/v1/gather", json.dumps(lookup(1)).encode(), ["X-Request-Timeout-Ms: " + HALF_HOUR_MS]))
            self.wait_for_queue(client, in_flight=1)
            daemon.clock.advance(1801)
            self.assertProblem(hung.reply(), 504, "DEADLINE_EXCEEDED")
            self.assertEqual((self.gpu(client)["state"], self.gpu(client)["times_opened"]), ("ready", 1))
            # Not an hour at once, which the call to the device that is being made would seem to have taken.
            daemon.clock.advance(1801)
            self.wait_for(client, lambda gpu: gpu["times_opened"] == 2)
            self.assertEqual(client.post("/v1/gather", lookup(5)).json(), self.rows(5))

    def hang_in_a_free(self, daemon, client):
        """The device's copy of a table that is replaced is freed. Returns while a thread hangs in that."""
        with daemon.gates.closed("hang") as gate:
            self.put_table(client)
            self.assertEqual(client.post("/v1/gather", lookup(1)).json(), self.rows(1))
            self.put_table(client)
            daemon.clock.advance(1)  # the device's thread looks for such copies from time to time
            gate.arrival()

    def test_a_device_whose_free_does_not_return_is_reopened(self):
        with GatedDaemon("--gpu", "reference:hang_free=1", "--gpu-hang-ms", HALF_HOUR_MS, "--gpu-retry-ms", "1", *PATIENT) as daemon, \
                Client(daemon) as client:
            daemon.at_start = None  # the memory of a device that was left behind still counts
            self.hang_in_a_free(daemon, client)
            self.assertStatus(client.post("/v1/gather", lookup(5, device="auto")), 200)
            self.assertEqual(self.gpu(client)["times_opened"], 1)
            daemon.clock.advance(1801)
            self.wait_for(client, lambda gpu: gpu["times_opened"] == 2)
            self.assertEqual(client.post("/v1/gather", lookup(5)).json(), self.rows(5))

    def test_the_end_does_not_wait_for_a_free_that_does_not_return(self):
        # Nor for handlers of exit, as drivers have them, that wait for it.
        with GatedDaemon("--gpu", "reference:hang_free=1,hang_exit=1", "--gpu-hang-ms", HOUR_MS) as daemon:
            with Client(daemon) as client:
                self.hang_in_a_free(daemon, client)
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)
            self.assertEqual([event["event"] for event in daemon.events()][-1], "stopped")

    def test_device_gpu_without_device_memory_is_503(self):
        with Daemon("--gpu", "reference:fail_alloc=1", "--gpu-retry-ms", HOUR_MS) as daemon, Client(daemon) as client:
            self.put_table(client)
            self.assertProblem(client.post("/v1/gather", lookup(1)), 503, "MEMORY_EXHAUSTED")
            self.assertStatus(client.post("/v1/gather", lookup(1, device="auto")), 200)

    def test_under_faults_each_request_gets_one_reply(self):
        with Daemon("--gpu", "reference:launch_us=2000,lose_at=20", "--gpu-retry-ms", "1") as daemon, Client(daemon) as client:
            self.put_table(client)
            counts, lock = {}, threading.Lock()

            def send_one(worker):
                rng = random.Random(SEED + worker)
                with Client(daemon) as own:
                    for _ in range(40):
                        i = rng.randrange(100)
                        reply = own.post("/v1/gather", lookup(i))
                        if reply.status == 200:
                            self.assertEqual(reply.json(), self.rows(i))
                        with lock:
                            counts[reply.status] = counts.get(reply.status, 0) + 1
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                for result in [pool.submit(send_one, w) for w in range(16)]:
                    result.result()
            self.assertEqual(sum(counts.values()), 16 * 40)
            self.assertLessEqual(set(counts), {200, 503})
            self.assertGreaterEqual(counts[200], 19)  # one of each launch before the loss
            self.wait_for(client, lambda gpu: gpu["state"] == "ready")
            self.assertEqual(self.gpu(client)["times_opened"], 2)
            self.assertEqual(client.post("/v1/gather", lookup(5)).json(), self.rows(5))

    def wait_until_stored(self, client, name):
        self.wait_until(lambda: client.request("GET", "/v1/tensors/" + name).status == 200, f"{name} is stored")

    def test_an_upload_to_a_hanging_device_occupies_no_worker_and_ends_at_its_deadline(self):
        with GatedDaemon("--gpu", "reference:hang_at=1", "--gpu-hang-ms", DAY_MS, "--workers", "1", "--drain-timeout-ms", "1",
                         *PATIENT) as daemon, \
                Client(daemon) as client, Raw(daemon) as hung, Raw(daemon) as upload:
            daemon.at_start = None  # a request hangs to the end
            self.put_table(client)
            hung.send(http_request("POST", "/v1/gather", json.dumps(lookup(1)).encode()))
            self.wait_for_queue(client, in_flight=1)
            upload.send(http_request("PUT", "/v1/tensors/late?device=gpu", json.dumps(TABLE).encode(),
                                     ["X-Request-Timeout-Ms: " + HALF_HOUR_MS]))
            self.wait_until_stored(client, "late")
            self.assertStatus(client.request("PUT", "/v1/tensors/other", TABLE), 201)  # by the only worker
            daemon.clock.advance(1801)
            reply = upload.reply()
            self.assertStatus(reply, 201)  # it is kept, and the client's time is over
            self.assertEqual(reply.json()["device"], "cpu")

    def test_the_drain_timeout_ends_the_waiting_for_a_hung_device(self):
        with GatedDaemon("--gpu", "reference", "--gpu-hang-ms", DAY_MS, "--drain-timeout-ms", "0") as daemon:
            with Client(daemon) as client, Raw(daemon) as hung, Raw(daemon) as upload, Raw(daemon) as waiting:
                self.put_table(client)
                self.assertEqual(client.post("/v1/gather", lookup(1)).json(), self.rows(1))  # the table is on the device
                with daemon.gates.closed("device"), daemon.clock.stopped():  # the second is not over before all replies are read
                    hung.send(http_request("POST", "/v1/gather", json.dumps(lookup(1)).encode()))
                    self.wait_for_queue(client, in_flight=1)
                    upload.send(http_request("PUT", "/v1/tensors/late?device=gpu", json.dumps(TABLE).encode()))
                    self.wait_for_queue(client, in_flight=2)
                    waiting.send(http_request("POST", "/v1/gather", json.dumps(lookup(2)).encode()))
                    self.wait_for_queue(client, in_flight=2, waiting=1)
                    daemon.send_signal(signal.SIGTERM)
                    self.assertProblem(waiting.reply(), 503, "DRAINING")
                    daemon.clock.advance(1.1)  # ends the second that launches in flight have
                    self.assertEqual([reply.status for reply in replies_of((hung, upload))], [503, 201])
            self.assertEqual(daemon.wait(), 0)

    def test_clients_that_do_not_read_their_answers_leave_the_device_to_others(self):
        rows = [i % 100 for i in range(1 << 20)]  # replies of 16 MiB, more than the socket buffers
        body = safetensors({"indices": ("int32", (len(rows),), pack("int32", rows))}, {"params.ref": "table"})
        request = http_request("POST", "/v1/gather?device=gpu", body, [f"Content-Type: {SAFETENSORS}"])
        with Daemon("--gpu", "reference", "--gpu-staging", "96M") as daemon, Client(daemon) as client, contextlib.ExitStack() as silent:
            self.put_table(client)
            for i in range(12):  # more than the staging memory holds
                silent.enter_context(Raw(daemon)).send(request)
                self.wait_for(client, lambda gpu: gpu["requests"] == i + 1 and gpu["queue"]["in_flight"] == 0)
            for _ in range(3):
                reply = client.request("POST", "/v1/gather?device=gpu", body, BINARY_HEADERS)
                self.assertStatus(reply, 200)
                self.assertTrue(read_safetensors(reply.body)[0]["output"][2][-16:] == pack("float32", TABLE[rows[-1]]))

    def test_device_gpu_above_the_device_memory_is_422(self):
        for options, resource in ((("--gpu-memory", "16M"), "gpu_memory_bytes"), (("--gpu-staging", "16M"), "gpu_staging_bytes")):
            with self.subTest(resource), Daemon("--gpu", "reference", *options) as daemon, Client(daemon) as client:
                body = safetensors({"params": ("uint8", (5, 4 << 20), bytes(20 << 20)), "indices": ("int32", (1,), pack("int32", [4]))})
                problem = self.assertProblem(client.request("POST", "/v1/gather?device=gpu", body, BINARY_HEADERS), 422, "RESOURCE_LIMIT",
                                             resource=resource, limit=16 << 20)
                self.assertGreater(problem["needed"], 20 << 20)
                reply = client.request("POST", "/v1/gather?device=auto", body, BINARY_HEADERS)
                self.assertStatus(reply, 200)

    def test_a_stop_answers_accepted_requests(self):
        with GatedDaemon("--gpu", "reference", "--gpu-hang-ms", HOUR_MS, "--drain-timeout-ms", HOUR_MS) as daemon:
            with daemon.gates.closed("device") as gate, Raw(daemon) as computed, Raw(daemon) as waiting:
                request = http_request("POST", "/v1/gather", json.dumps(lookup(1)).encode(), ["X-Request-Timeout-Ms: " + HOUR_MS])
                with Client(daemon) as client:
                    self.put_table(client)
                    computed.send(request)
                    gate.arrival()
                    waiting.send(request)
                    self.wait_for_queue(client, in_flight=1, waiting=1)
                daemon.send_signal(signal.SIGTERM)
                daemon.wait_log(lambda event: event["event"] == "draining")
                gate.open()
                self.assertEqual([reply.json() for reply in replies_of((computed, waiting))], [self.rows(1)] * 2)
            self.assertEqual(daemon.wait(), 0)
