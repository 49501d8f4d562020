"""GET /metrics: what is counted, in which of the two formats, and that it answers when nothing else does."""
import contextlib, http.client, json, os, re, shutil, socket, subprocess, threading
from daemon import *
from gates import GatedDaemon

GATHER = b'{"params":[1,2,3,4],"indices":[1,3]}'
AS_JSON = {"Content-Type": JSON}
OUT_OF_BOUNDS = b'{"params":[1,2,3,4],"indices":[1,9]}'
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? ([0-9.]+)')


def samples(text):
    """{'name{label="value",...}': number}"""
    out = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.fullmatch(line)
        if not match or line.rsplit(" ", 1)[0] in out:
            raise AssertionError(f"malformed or repeated: {line}")
        out[line.rsplit(" ", 1)[0]] = float(match.group(3))
    return out


class MetricsTest(HttpTest):
    def metrics(self, accept=None):
        reply = self.get("/metrics", headers={"Accept": accept} if accept else {})
        self.assertStatus(reply, 200)
        return samples(reply.body.decode())

    def change(self, work):
        """what work() adds to the samples that it changes"""
        before = self.metrics()
        work()
        after = self.metrics()
        return {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}


class Documentation(MetricsTest):
    def test_each_metric_is_documented(self):
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "metrics.md"), encoding="utf-8") as document:
            documented = re.findall(r"`((?:tensord|process)_[a-z_]+)`", document.read())
        for name in re.findall(r"(?m)^# TYPE (\S+) ", self.get("/metrics").body.decode()):
            self.assertTrue(any(name in (known, known + "_total") for known in documented),
                            f"docs/metrics.md has no {name}")


class Reloads(unittest.TestCase):
    def test_a_reload_that_fails_is_counted_until_one_succeeds(self):
        folder = temporary_folder()
        tokens, tables = os.path.join(folder, "tokens"), os.path.join(folder, "tables")
        aliases = os.path.join(tables, "aliases.json")
        def write(path, text):
            with open(path + ".new", "w", encoding="ascii") as file:
                file.write(text)
            os.rename(path + ".new", path)
        def successful(daemon):
            with Client(daemon) as client:
                now = samples(client.request("GET", "/metrics", headers={"Authorization": "Bearer " + "t" * 16}).body.decode())
            return {what: now[f'tensord_last_reload_successful{{what="{what}"}}'] for what in ("tokens", "data_dir", "aliases")} | {"problems": now["tensord_data_dir_problems"]}
        os.mkdir(tables)
        write(tokens, "read " + "t" * 16 + "\n")
        with Daemon("--token-file", tokens, "--data-dir", tables) as daemon:
            daemon.at_start = None  # which would ask without a token
            right = {"tokens": 1, "data_dir": 1, "aliases": 1, "problems": 0}
            self.assertEqual(successful(daemon), right)
            write(tokens, "nothing\n")
            write(aliases, "{")
            daemon.send_signal(signal.SIGHUP)
            eventually(lambda: successful(daemon) == {**right, "tokens": 0, "aliases": 0, "problems": 1}, "what failed")
            write(tokens, "read " + "t" * 16 + "\n")
            os.remove(aliases)
            os.rename(tables, tables + ".away")
            daemon.send_signal(signal.SIGHUP)
            eventually(lambda: successful(daemon) == {**right, "data_dir": 0, "aliases": 0, "problems": 1}, "a folder that is not there")
            os.rename(tables + ".away", tables)
            daemon.send_signal(signal.SIGHUP)
            eventually(lambda: successful(daemon) == right, "the repaired state")


    def test_files_that_are_not_served_are_problems_until_they_are_repaired_or_removed(self):
        folder = temporary_folder()
        def path(i):
            return os.path.join(folder, f"t{i:02}.npy")
        def put(i):
            with open(path(i) + ".new", "wb") as file:
                file.write(npy("<i4", (2,), struct.pack("<2i", i, i)))
            os.rename(path(i) + ".new", path(i))
        n, listed = 70, 64
        for i in range(n):
            put(i)
        with Daemon("--data-dir", folder) as daemon, Client(daemon) as client:
            def problems():
                return samples(client.request("GET", "/metrics").body.decode())["tensord_data_dir_problems"]
            self.assertEqual(problems(), 0)
            for i in range(n):
                os.truncate(path(i), 20)
            daemon.send_signal(signal.SIGHUP)
            eventually(lambda: problems() == n, "the problems")
            self.assertEqual(client.request("GET", "/v1/tensors/t00").status, 503)
            document = client.request("GET", "/v1/aliases").json()
            self.assertEqual([problem["source"] for problem in document["problems"]], [f"t{i:02}.npy" for i in range(listed)])
            self.assertEqual(document["problems_not_listed"], n - listed)
            for i in range(n - 1):
                os.remove(path(i)) if i % 2 else put(i)
            daemon.send_signal(signal.SIGHUP)
            eventually(lambda: problems() == 1, "the end of all problems but one")
            document = client.request("GET", "/v1/aliases").json()
            self.assertEqual([problem["source"] for problem in document["problems"]], ["t69.npy"])
            self.assertNotIn("problems_not_listed", document)


class Requests(MetricsTest):
    def requests(self, work):
        return {name[len("tensord_requests_total"):]: n for name, n in self.change(work).items()
                if name.startswith("tensord_requests_total") and 'op="metrics"' not in name}

    def test_each_form_of_a_request_is_counted_by_op_and_status(self):
        def work():
            for _ in range(3):
                self.assertStatus(self.post("/v1/gather", GATHER, AS_JSON), 200)
            self.assertStatus(self.post("/v1/gather", OUT_OF_BOUNDS, AS_JSON), 422)
            binary = safetensors({"params": ("int32", (2,), pack("int32", [1, 2])), "indices": ("int32", (1,), pack("int32", [1]))})
            self.assertStatus(self.post("/v1/gather", binary, {"Content-Type": SAFETENSORS}), 200)
            self.assertStatus(self.get("/nothing"), 404)
            self.assertStatus(self.get("/healthz"), 200)
        self.assertEqual(self.requests(work), {'{op="gather",code="200",transport="json"}': 3,
                                               '{op="gather",code="422",transport="json"}': 1,
                                               '{op="gather",code="200",transport="safetensors"}': 1,
                                               '{op="none",code="404",transport="none"}': 1,
                                               '{op="health",code="200",transport="none"}': 1})

    def test_changes_of_tensors_are_operations_of_their_own(self):
        body = npy("<f4", [2], bytes(8))

        def work():
            self.assertStatus(self.request("PUT", "/v1/tensors/metered", body, {"Content-Type": "application/x-npy"}), 201)
            self.assertStatus(self.request("GET", "/v1/tensors/metered", headers={"Accept": "application/x-npy"}), 200)
            self.assertStatus(self.get("/v1/tensors"), 200)
            self.assertStatus(self.post("/v1/tensors/metered/scatter", b'{"indices":[[1]],"updates":[2]}', AS_JSON), 200)
            self.assertStatus(self.request("DELETE", "/v1/tensors/metered"), 204)
        self.assertEqual(self.requests(work), {'{op="put_tensor",code="201",transport="npy"}': 1,
                                               '{op="get_tensor",code="200",transport="npy"}': 1,
                                               '{op="list_tensors",code="200",transport="none"}': 1,
                                               '{op="scatter",code="200",transport="json"}': 1,
                                               '{op="delete_tensor",code="204",transport="none"}': 1})

    def test_errors_are_counted_by_their_code(self):
        def work():
            self.post("/v1/gather", OUT_OF_BOUNDS, AS_JSON)
            self.post("/v1/gather", OUT_OF_BOUNDS, AS_JSON)
            self.post("/v1/einsum", b'{"equation":"ij->k","inputs":[[[1]]]}', AS_JSON)
            self.get("/nothing")
        errors = {name: n for name, n in self.change(work).items() if name.startswith("tensord_errors_total")}
        self.assertEqual(errors, {'tensord_errors_total{op="gather",error="INDEX_OUT_OF_BOUNDS"}': 2,
                                  'tensord_errors_total{op="einsum",error="INVALID_EQUATION"}': 1,
                                  'tensord_errors_total{op="none",error="NOT_FOUND"}': 1})

    def test_requests_that_are_no_http_are_counted(self):
        def work():
            for request in (b"GET /v1/ops HTTP/9.9\r\n\r\n", b"GET /v1/ops HTTP/1.1\r\nHost: a\r\nX: " + 40_000 * b"x" + b"\r\n\r\n"):
                with socket.create_connection((self.daemon.host, self.daemon.port), timeout=WAIT_LIMIT) as raw:
                    raw.sendall(request)
                    while raw.recv(1 << 16):
                        pass
        changes = self.change(work)
        self.assertEqual(changes['tensord_errors_total{op="none",error="MALFORMED_REQUEST"}'], 2)
        self.assertEqual(changes['tensord_requests_total{op="none",code="400",transport="none"}'], 2)

    def test_requests_that_are_not_complete_in_time_are_counted(self):
        with GatedDaemon("--header-timeout-ms", "600000") as daemon:
            with Raw(daemon) as raw:
                raw.send(b"GET /v1/ops HTTP/1.1\r\n")
                raw.wait_until_read()
                daemon.sweep()  # the time of a request begins when the daemon first looks at it
                daemon.clock.advance(601)
                self.assertStatus(raw.reply(), 408)
            with Client(daemon) as client:
                counted = samples(client.request("GET", "/metrics").body.decode())
        self.assertEqual(counted['tensord_errors_total{op="none",error="REQUEST_TIMEOUT"}'], 1)
        self.assertEqual(counted['tensord_requests_total{op="none",code="408",transport="none"}'], 1)

    def test_requests_on_all_io_threads_are_counted(self):
        clients, each = 24, 20

        def send(_):
            with Client(self.daemon) as client:
                for _ in range(each):
                    client.post("/v1/gather", GATHER, AS_JSON)
        changes = self.change(lambda: in_threads(clients, send))
        self.assertEqual(changes['tensord_requests_total{op="gather",code="200",transport="json"}'], clients * each)
        self.assertEqual(changes['tensord_request_duration_seconds_count{op="gather"}'], clients * each)
        self.assertEqual(changes['tensord_request_bytes_total{op="gather"}'], clients * each * len(GATHER))

    def test_the_series_of_an_op_begin_with_its_first_request(self):
        def series(metrics):
            return {name.partition("{")[0] for name in metrics if 'op="top_k"' in name and "_bucket" not in name}
        with Daemon() as daemon, Client(daemon) as client:
            self.assertEqual(series(samples(client.request("GET", "/metrics").body.decode())), set())
            client.request("POST", "/v1/top_k", b"{}")
            counted = series(samples(client.request("GET", "/metrics").body.decode()))
            self.assertEqual(counted, {"tensord_requests_total", "tensord_errors_total", "tensord_request_bytes_total", "tensord_reply_bytes_total",
                                       "tensord_request_duration_seconds_sum", "tensord_request_duration_seconds_count"})
            client.request("POST", "/v1/top_k", b'{"x":[1],"k":1}')
            counted = series(samples(client.request("GET", "/metrics").body.decode()))
            self.assertIn("tensord_stage_duration_seconds_count", counted)

    def test_an_op_has_no_series_before_its_first_request(self):
        with Daemon() as daemon, Client(daemon) as client:
            ops = [op["name"] for op in client.request("GET", "/v1/ops").json()["ops"]]
            client.request("GET", "/metrics")
            self.assertStatus(client.post("/v1/add", b'{"x":[1],"y":2}', AS_JSON), 200)
            counted = samples(client.request("GET", "/metrics").body.decode())
        named = [re.findall(r'"(\w+)"', name) for name in counted]
        self.assertEqual({op for labels in named for op in labels if op in ops}, {"add"})
        self.assertEqual(sum("add" in labels for labels in named), 125)  # docs/metrics.md

    def test_durations_and_stages_have_the_time_of_the_request(self):
        with GatedDaemon("--workers", "1", "--inline-limit-us", "0") as daemon:
            for stage, seconds in (("decode", 3), ("compute", 7), ("encode", 13)):
                with daemon.gates.closed(stage) as gate, Raw(daemon) as raw:
                    raw.send(http_request("POST", "/v1/gather", GATHER))
                    gate.arrival()
                    daemon.clock.advance(seconds)
                    gate.open()
                    self.assertStatus(raw.reply(), 200)
            with Client(daemon) as client:
                counted = samples(client.request("GET", "/metrics").body.decode())
        whole = counted['tensord_request_duration_seconds_sum{op="gather"}']
        stages = {stage: counted[f'tensord_stage_duration_seconds_sum{{op="gather",stage="{stage}"}}']
                  for stage in ("decode", "queue", "compute", "encode")}
        for stage, seconds in (("decode", 3), ("compute", 7), ("encode", 13)):
            self.assertGreaterEqual(stages[stage], seconds)
        self.assertLessEqual(sum(stages.values()), whole)
        self.assertEqual(counted['tensord_stage_duration_seconds_count{op="gather",stage="compute"}'], 3)
        self.assertEqual(counted['tensord_request_duration_seconds_bucket{op="gather",le="+Inf"}'], 3)
        self.assertEqual(counted['tensord_stage_duration_seconds_bucket{op="gather",stage="encode",le="10"}'], 2)  # not that of 13 s

    def test_stages_have_buckets_by_op(self):
        def work():
            for _ in range(5):
                self.assertStatus(self.post("/v1/concat", b'{"inputs":[[1],[2]],"axis":0}', AS_JSON), 200)
            self.assertStatus(self.post("/v1/concat", b'{"inputs":[[1],["a"]],"axis":0}', AS_JSON), 422)
        changes = self.change(work)
        for stage in ("decode", "queue", "compute", "encode"):
            labels = f'op="concat",stage="{stage}"'
            self.assertEqual(changes[f"tensord_stage_duration_seconds_count{{{labels}}}"], 5)
            self.assertEqual(changes[f'tensord_stage_duration_seconds_bucket{{{labels},le="+Inf"}}'], 5)
        start = 'tensord_stage_duration_seconds_bucket{op="concat",stage="decode",le="'
        bounds = [name[len(start):-2] for name in self.metrics() if name.startswith(start)]
        self.assertEqual((len(bounds), bounds[0], bounds[-2:]), (23, "0.000001", ["10", "+Inf"]))

    def test_ops_that_are_not_used_and_requests_without_stages_have_no_samples_of_stages(self):
        with Daemon() as daemon, Client(daemon) as client:
            for path in ("/healthz", "/metrics", "/v1/ops", "/nothing"):
                client.request("GET", path)
            client.post("/v1/cast", b'{"params":[1],"dtype":"nothing"}', AS_JSON)
            self.assertNotIn(b"\ntensord_stage_duration_seconds", client.request("GET", "/metrics").body)
            client.post("/v1/gather", GATHER, AS_JSON)
            stages = [name for name in samples(client.request("GET", "/metrics").body.decode()) if name.startswith("tensord_stage_duration_seconds")]
        self.assertEqual(len(stages), 4 * (23 + 2))
        self.assertTrue(all('op="gather"' in name for name in stages))


class TableReads(MetricsTest):
    @contextlib.contextmanager
    def fresh(self, *options):
        """a daemon of its own, whose tables have not been read; they are deleted at the end"""
        shared_daemon = self.daemon
        try:
            with Daemon(*options) as self.daemon:
                yield
                for table in self.get("/v1/tensors").json()["tensors"]:
                    self.assertStatus(self.request("DELETE", "/v1/tensors/" + table["name"]), 204)
        finally:
            self.daemon = shared_daemon

    def put(self, name, rows, columns=4):
        body = npy("float32", (rows, columns), bytes(4 * rows * columns))
        self.assertIn(self.request("PUT", "/v1/tensors/" + name, body, {"Content-Type": "application/x-npy"}).status, (200, 201))

    def reads(self):
        """{table: (rows, bytes)}"""
        now = self.metrics()
        tables = re.findall(r'tensord_table_rows_read_total\{table="([^"]*)"\}', "\n".join(now))
        return {table: tuple(int(now[f'tensord_table_{what}_read_total{{table="{table}"}}']) for what in ("rows", "bytes")) for table in tables}

    def look_up(self, op, table, indices, status=200, **more):
        self.assertStatus(self.post("/v1/" + op, {"params": {"ref": table}, "indices": indices, **more}), status)

    def test_lookups_count_rows_and_bytes_by_table(self):
        with self.fresh():
            self.put("users", 10)
            self.put("items", 10, 2)
            self.assertEqual(self.reads(), {})
            self.look_up("gather", "users", [1, 2, 2])
            self.look_up("gather", "users", [[1], [2]])
            self.look_up("gather_nd", "items", [[1, 0], [2, 1], [3, 1]])
            self.look_up("gather", "users", [99], status=422)
            lookup = {"params": {"ref": "items"}, "keys": list(range(10, 20)), "queries": [[11, 12], [19, 11]]}
            self.assertStatus(self.post("/v1/lookup", lookup), 200)
            self.assertStatus(self.post("/v1/lookup", {**lookup, "queries": [1]}), 422)
            self.post("/v1/gather", GATHER, AS_JSON)
            self.post("/v1/einsum", {"equation": "ij->i", "inputs": [{"ref": "users"}]})
            self.assertEqual(self.reads(), {"users": (5, 80), "items": (7, 44)})

    def test_a_bag_reads_all_of_its_rows(self):
        with self.fresh():
            self.put("items", 10, 2)
            self.look_up("embedding_bag", "items", [1, 2, 2, 9, 0], offsets=[0, 4])
            self.assertEqual(self.reads(), {"items": (5, 40)})
            self.look_up("embedding_bag", "items", [], offsets=[0, 0])
            self.assertEqual(self.reads(), {"items": (5, 40)})

    def test_lookups_by_key_read_rows(self):
        with self.fresh():
            self.assertStatus(self.request("PUT", "/v1/tensors/keyed", {"tensor": [[1, 2], [3, 4], [5, 6]], "keys": ["a", "b", "c"]}), 201)
            self.assertStatus(self.request("PUT", "/v1/tensors/halves", {"dtype": "float16", "data": [[1, 2], [3, 4]]}), 201)
            self.look_up("gather", "keyed", {"keys": ["c", "a"]})
            self.assertEqual(self.reads(), {"keyed": (2, 16)})
            self.look_up("gather", "halves", [1], dtype="float64")
            self.assertEqual(self.reads(), {"keyed": (2, 16), "halves": (1, 4)})
            for path, body in (("/v1/tensors/keyed/find", {}), ("/v1/find", {"keys": {"ref": "keyed.keys"}})):
                self.assertStatus(self.post(path, {"queries": ["a"], **body}), 200)
            self.assertEqual((self.reads()["keyed"], self.lookups()["keyed"]), ((2, 16), (3, 0)))

    def lookups(self):
        """{table: (succeeded, failed)}"""
        found = {}
        for sample, value in self.metrics().items():
            match = re.fullmatch(r'tensord_table_lookups_total\{table="([^"]*)",result="(\w+)"\}', sample)
            if match:
                found.setdefault(match[1], {})[match[2]] = int(value)
        return {table: (counts["succeeded"], counts["failed"]) for table, counts in found.items()}

    def test_lookups_are_counted_by_table_and_result(self):
        with self.fresh():
            self.put("users", 10)
            self.put("items", 10, 2)
            self.assertEqual(self.lookups(), {})
            self.look_up("gather", "users", [1, 2])
            self.look_up("gather_nd", "users", [[1]])
            self.look_up("gather", "users", [99], status=422)
            self.assertStatus(self.post("/v1/tensors/items/gather", {"indices": [10]}), 422)
            self.assertStatus(self.post("/v1/tensors/items/gather", {"index": [1]}), 400)
            self.assertStatus(self.post("/v1/tensors/nothing/gather", {"indices": [1]}), 404)
            self.post("/v1/einsum", {"equation": "ij->i", "inputs": [{"ref": "users"}]})
            self.assertEqual(self.lookups(), {"users": (2, 1), "items": (0, 2)})

    def test_counts_go_on_when_a_table_is_replaced_or_deleted(self):
        with self.fresh():
            self.put("t", 10)
            self.look_up("gather", "t", [1])
            self.put("t", 20)
            self.look_up("gather", "t", [19])
            self.assertStatus(self.request("DELETE", "/v1/tensors/t"), 204)
            self.assertEqual(self.reads(), {"t": (2, 32)})
            self.put("t", 5, 1)
            self.look_up("gather", "t", [0, 1])
            self.assertEqual(self.reads(), {"t": (4, 40)})

    def test_workers_and_oip_count_too(self):
        with self.fresh("--inline-limit-us", "0", "--io-threads", "4"):
            self.put("t", 10)
            for _ in range(8):
                self.look_up("gather", "t", [1, 2])
            infer = {"parameters": {"params.ref": "t"}, "inputs": [{"name": "indices", "datatype": "INT32", "shape": [1], "data": [2]}]}
            self.assertStatus(self.post("/v2/models/gather/infer", infer), 200)
            self.assertEqual(self.reads(), {"t": (17, 17 * 16)})


class Waiting(MetricsTest):
    options = ("--workers", "1", "--inline-limit-us", "0")
    gated = True

    def test_waiting_requests_and_the_oldest_of_them(self):
        with self.daemon.gates.closed("compute") as gate, Raw(self.daemon) as first, Raw(self.daemon) as second:
            first.send(http_request("POST", "/v1/gather", GATHER))
            gate.arrival()
            second.send(http_request("POST", "/v1/gather", GATHER))
            self.wait_until(lambda: self.metrics()["tensord_queue_jobs"] == 1)
            self.daemon.clock.advance(5)
            # Three work, the request for the metrics as well. The reply to the one before may have arrived before it is counted as sent.
            self.wait_until(lambda: self.metrics()['tensord_connections{phase="working"}'] == 3)
            metrics = self.metrics()
            self.assertEqual(metrics["tensord_queue_jobs"], 1)
            self.assertEqual(metrics["tensord_requests_in_flight"], 2)
            self.assertGreaterEqual(metrics["tensord_queue_oldest_seconds"], 5)
            self.assertGreater(metrics["tensord_queue_work_seconds"], 0)
            gate.open()
            self.assertStatus(first.reply(), 200)
            self.assertStatus(second.reply(), 200)
        self.assertEqual(self.metrics()["tensord_queue_jobs"], 0)
        self.assertEqual(self.metrics()["tensord_queue_oldest_seconds"], 0)


class Gauges(MetricsTest):
    def test_resident_tensors_and_their_bytes(self):
        before = self.metrics()
        self.request("PUT", "/v1/tensors/held", npy("<f4", [1000], bytes(4000)), {"Content-Type": "application/x-npy"})
        after = self.metrics()
        self.assertEqual(after["tensord_tensors"] - before["tensord_tensors"], 1)
        self.assertGreaterEqual(after['tensord_tensor_bytes{place="memory"}'] - before['tensord_tensor_bytes{place="memory"}'], 4000)
        self.request("DELETE", "/v1/tensors/held")

    def test_the_process(self):
        metrics = self.metrics()
        pid = self.daemon.process.pid
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        threads, started_s = int(fields[17]), int(fields[19]) / os.sysconf("SC_CLK_TCK")
        with open("/proc/stat") as stat:
            booted = next(int(line.split()[1]) for line in stat if line.startswith("btime "))
        self.assertEqual(metrics["process_threads"], threads)
        self.assertGreater(metrics["process_resident_memory_bytes"], 1 << 20)
        self.assertGreater(metrics["process_cpu_seconds_total"], 0)
        self.assertAlmostEqual(metrics["process_start_time_seconds"], booted + started_s, delta=2)  # btime is in whole seconds
        self.assertGreater(metrics["process_max_fds"], metrics["process_open_fds"])


class Formats(MetricsTest):
    def test_prometheus_text_is_the_default(self):
        for accept in (None, "*/*", "text/plain", "application/openmetrics-text;q=0.3,text/plain;q=0.5"):
            reply = self.get("/metrics", headers={"Accept": accept} if accept else {})
            self.assertEqual(reply.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8", accept)
            self.assertNotIn(b"# EOF", reply.body)
            self.assertIn(b"# TYPE tensord_requests_total counter\n", reply.body)

    def test_openmetrics_for_clients_that_prefer_it(self):
        reply = self.get("/metrics", headers={"Accept": OPENMETRICS})
        self.assertEqual(reply.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(reply.body.endswith(b"\n# EOF\n"))
        self.assertIn(b"# TYPE tensord_requests counter\n", reply.body)
        self.assertIn(b"\ntensord_requests_total{", reply.body)

    def test_head_and_a_query(self):
        reply = self.request("HEAD", "/metrics")
        self.assertStatus(reply, 200)
        self.assertEqual(reply.body, b"")
        self.assertStatus(self.post("/metrics", b"", {}), 405)

    def test_promtool_finds_nothing_wrong(self):
        if not shutil.which("promtool"):
            self.skipTest("no promtool: install Debian's prometheus")
        self.post("/v1/gather", GATHER, AS_JSON)
        self.post("/v1/gather", OUT_OF_BOUNDS, AS_JSON)
        for _ in range(2):
            done = subprocess.run(["promtool", "check", "metrics"], input=self.get("/metrics").body, capture_output=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))


class AtALimit(MetricsTest):
    options = ("--connection-limit", "4", "--client-connections", "2")

    def test_metrics_are_answered_beyond_the_limit_on_connections(self):
        with Client(self.daemon) as first, Client(self.daemon) as second, Client(self.daemon) as third:
            for client in (first, second):
                self.assertStatus(client.request("GET", "/healthz"), 200)
            reply = third.request("GET", "/metrics")
            self.assertStatus(reply, 200)
            self.assertEqual(samples(reply.body.decode())["tensord_connections_restricted"], 1)


class EveryOp(HttpTest):
    def test_the_document_has_room_for_all_ops(self):
        with Daemon() as server, Client(server) as client:
            for op in client.request("GET", "/v1/ops").json()["ops"]:
                example = client.request("GET", op["href"]).json()["examples"][0]["request"]
                reply = client.request("POST", f"/v1/{op['name']}", example)
                self.assertEqual(reply.status, 200, reply.body[:300])
                for body in (b"{}", b"[", b"x" * 100):
                    client.request("POST", f"/v1/{op['name']}", body)
            reply = client.request("GET", "/metrics")
            self.assertEqual(reply.status, 200, reply.body[:300])
            self.assertEqual(reply.body.count(b'stage="encode",le="+Inf"'), len(client.request("GET", "/v1/ops").json()["ops"]))


class AnotherAddress(HttpTest):
    def daemon_with_metrics(self, *options):
        daemon = Daemon("--metrics-listen", "127.0.0.1:0", *options)
        address = next(event["address"] for event in daemon.events() if event["event"] == "metrics_listening")
        return daemon, int(address.rsplit(":", 1)[1])

    def ask(self, port, method, path, headers={}, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_LIMIT)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def test_it_has_metrics_and_health_alone(self):
        daemon, port = self.daemon_with_metrics()
        with daemon:
            status, body = self.ask(port, "GET", "/metrics")
            self.assertEqual(status, 200)
            self.assertEqual(samples(body.decode())["tensord_tensors"], 0)
            for path in ("/healthz", "/readyz"):
                self.assertEqual(self.ask(port, "GET", path)[0], 200)
            for method, path, body in (("GET", "/v1/tensors", None), ("POST", "/v1/gather", GATHER), ("GET", "/v1/ops", None),
                                       ("PUT", "/v1/tensors/x", bytes(100_000)), ("GET", "/nothing", None)):
                self.assertEqual(self.ask(port, method, path, AS_JSON, body)[0], 404, path)
            self.assertEqual(self.ask(port, "POST", "/metrics", {}, b"")[0], 405)
            with Client(daemon) as client:
                reply = client.request("GET", "/metrics")
                self.assertEqual(reply.status, 200)
                counted = samples(reply.body.decode())
            self.assertEqual(counted['tensord_requests_total{op="metrics",code="200",transport="none"}'], 1)  # the one before
            self.assertEqual(counted['tensord_requests_total{op="health",code="200",transport="none"}'], 2)

    def test_it_answers_while_all_connections_of_the_other_are_taken(self):
        daemon, port = self.daemon_with_metrics("--connection-limit", "4")
        with daemon:
            clients = [Raw(daemon) for _ in range(100)]
            try:
                for _ in range(10):
                    self.assertEqual(self.ask(port, "GET", "/metrics")[0], 200)
            finally:
                for client in clients:
                    client.close()

    def test_it_answers_while_a_client_opens_more_connections_than_it_has(self):
        daemon, port = self.daemon_with_metrics()
        with daemon:
            clients = []
            try:
                for i in range(200):
                    clients.append(socket.create_connection(("127.0.0.1", port), timeout=WAIT_LIMIT))
                    if i % 2:
                        clients[-1].sendall(b"GET /metrics HT")  # and never more
                    if i % 20 == 19:
                        self.assertEqual(self.ask(port, "GET", "/metrics")[0], 200)
                with Client(daemon) as client:
                    self.assertEqual(client.request("GET", "/readyz").status, 200)
            finally:
                for client in clients:
                    client.close()

    def test_it_answers_while_the_memory_is_exhausted(self):
        daemon, port = self.daemon_with_metrics("--memory-limit", "1M", "--client-memory", "1M", "--tensor-quota", "1M")
        with daemon, Client(daemon) as client, Raw(daemon) as upload:
            upload.send(b"PUT /v1/tensors/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        b"Content-Length: 700000\r\n\r\n" + bytes(690_000))
            self.wait_until(lambda: json.loads(client.request("GET", "/readyz").body)["memory"]["in_use"] >= 700_000)
            for _ in range(20):  # the reserve is given back
                self.assertEqual(self.ask(port, "GET", "/metrics")[0], 200)
                self.assertStatus(client.request("GET", "/metrics"), 200)

    def test_pages_of_other_sites_are_refused(self):
        daemon, port = self.daemon_with_metrics()
        with daemon:
            self.assertEqual(self.ask(port, "GET", "/metrics", {"Host": "evil.example"})[0], 403)
            self.assertEqual(self.ask(port, "GET", "/metrics", {"Origin": "http://evil.example"})[0], 403)

    def test_requests_on_one_connection_and_broken_ones(self):
        daemon, port = self.daemon_with_metrics()
        with daemon:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_LIMIT)
            for _ in range(5):
                connection.request("GET", "/metrics")
                self.assertEqual(connection.getresponse().read()[:6], b"# HELP")
            connection.close()
            for garbage in (b"\0\0\0\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"):
                with socket.create_connection(("127.0.0.1", port), timeout=WAIT_LIMIT) as raw:
                    raw.sendall(garbage)
            self.assertEqual(self.ask(port, "GET", "/metrics")[0], 200)

    def test_it_may_be_asked_until_the_daemon_has_ended(self):
        def scrape(address, scraped):
            while True:
                try:
                    with socket.create_connection(address, timeout=WAIT_LIMIT) as raw:
                        raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        while raw.recv(1 << 20):
                            scraped.set()
                            raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                except ConnectionRefusedError:
                    return
                except OSError:
                    pass  # a connection that the daemon has closed

        for _ in range(5):
            daemon, port = self.daemon_with_metrics()
            began = [threading.Event() for _ in range(4)]
            scrapers = [threading.Thread(target=scrape, args=(("127.0.0.1", p), event))
                        for p, event in zip((port, port, port, daemon.port), began)]
            for scraper in scrapers:
                scraper.start()
            for event in began:
                event.wait(WAIT_LIMIT)
            daemon.stop()  # fails if it crashed
            for scraper in scrapers:
                scraper.join()
