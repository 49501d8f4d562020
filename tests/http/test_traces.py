"""Spans of requests, as a collector of OpenTelemetry gets them; and collectors that fail, which no request may notice."""
import contextlib, fcntl, json, os, re, subprocess, sys, tempfile, time
from collector import Collector, attributes, respond
from daemon import *
from gates import GatedDaemon

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
GATHER = {"params": [1.5, 2.5], "indices": [1]}
CACHE = os.environ.get("TENSORD_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tensord")
VENV = os.path.join(CACHE, "traces-venv")
INTERNAL, SERVER, ERROR = 1, 2, 2  # numbers of the protocol

# Parses bodies, one a line, as the protocol's own messages; unknown members are errors.
PARSER = """
import sys
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
for line in sys.stdin:
    json_format.Parse(line, ExportTraceServiceRequest())
"""


def traced(collector, *options, sample="on", endpoint=None):
    daemon = Daemon("--otlp-endpoint", endpoint or collector.endpoint, "--trace-sample", sample, *options)
    daemon.at_start = None  # a connection to the collector stays open
    return daemon


def counts(client):
    """{result: spans} of the metrics"""
    text = client.request("GET", "/metrics").body.decode()
    return {k: int(v) for k, v in re.findall(r'^tensord_spans_total\{result="(\w+)"\} (\d+)$', text, re.M)}


def is_named(name):
    return lambda span: span["name"] == name


def of_request(request_id):
    return lambda span: "attributes" in span and attributes(span).get("tensord.request_id") == request_id


class Spans(unittest.TestCase):
    def test_a_request_is_a_span_with_the_attributes_of_the_conventions(self):
        before = time.time_ns()
        with Collector() as collector, traced(collector) as daemon, Client(daemon) as client:
            client.post("/v1/gather", GATHER, {"X-Request-Id": "one", "User-Agent": "test/1 \"\x7f"})
            span = collector.wait_span(of_request("one"))
            self.assertRegex(span["traceId"], "^[0-9a-f]{32}$")
            self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
            self.assertNotIn("parentSpanId", span)
            self.assertNotIn("status", span)
            self.assertEqual((span["name"], span["kind"], span["flags"]), ("POST /v1/{op}", SERVER, 0x101))
            self.assertLessEqual(before, int(span["startTimeUnixNano"]))
            self.assertLess(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
            self.assertLessEqual(int(span["endTimeUnixNano"]), time.time_ns())
            self.assertEqual(attributes(span), {
                "http.request.method": "POST", "http.route": "/v1/{op}", "url.scheme": "http", "url.path": "/v1/gather",
                "client.address": "127.0.0.1", "network.peer.address": "127.0.0.1", "server.address": daemon.host,
                "server.port": daemon.port, "user_agent.original": "test/1 \"\x7f", "http.request.body.size": 38,
                "tensord.request_id": "one", "tensord.op": "gather", "tensord.transport": "json", "tensord.device": "cpu",
                "tensord.inputs": "params[2] indices[1]", "tensord.dtype": "float32", "http.response.status_code": 200,
                "http.response.body.size": 55})

    def test_the_client_is_an_address_and_the_token_a_name(self):
        with tempfile.NamedTemporaryFile("w") as tokens, Collector() as collector:
            tokens.write("read a-token-0123456789 name=shop\n")
            tokens.flush()
            with traced(collector, "--token-file", tokens.name, "--trusted-proxy", "127.0.0.1") as daemon, Client(daemon) as client:
                client.post("/v1/gather", GATHER, {"X-Request-Id": "one", "Authorization": "Bearer a-token-0123456789",
                                                   "X-Forwarded-For": "2001:db8:1:2:3::4"})
                span = attributes(collector.wait_span(of_request("one")))
        self.assertEqual((span["client.address"], span["network.peer.address"], span["tensord.token"]),
                         ("2001:db8:1:2:3::4", "127.0.0.1", "shop"))

    def test_its_children_are_the_stages_in_order_within_its_time(self):
        square = {"equation": "ij,jk->", "inputs": [{"ref": "square"}, {"ref": "square"}]}
        for limit, path, body, stages in (
                ("1000000", "/v1/gather", GATHER, ["decode", "compute", "encode"]),
                ("0", "/v1/gather", GATHER, ["queue", "decode", "admit", "compute", "encode"]),
                ("20", "/v1/einsum", square, ["decode", "admit", "queue", "compute", "encode"])):
            with self.subTest(stages), Collector() as collector, \
                    traced(collector, "--inline-limit-us", limit) as daemon, Client(daemon) as client:
                client.request("PUT", "/v1/tensors/square", tensor("float32", [300, 300], bytes(360000)))
                self.assertEqual(client.post(path, body, {"X-Request-Id": "one"}).status, 200)
                span = collector.wait_span(of_request("one"))
                children = [s for s in collector.spans() if s.get("parentSpanId") == span["spanId"]]
                self.assertEqual([s["name"] for s in children], stages)
                at = int(span["startTimeUnixNano"])
                for child in children:
                    self.assertEqual((child["traceId"], child["kind"], child["flags"]), (span["traceId"], INTERNAL, 0x101))
                    self.assertLessEqual(at, int(child["startTimeUnixNano"]))
                    at = int(child["endTimeUnixNano"])
                    self.assertLess(int(child["startTimeUnixNano"]), at)
                self.assertLessEqual(at, int(span["endTimeUnixNano"]))
                self.assertEqual(len({s["spanId"] for s in [span, *children]}), len(stages) + 1)

    def test_the_resource_names_the_daemon_and_its_instance(self):
        instances = set()
        for _ in range(2):
            with Collector() as collector, traced(collector, "--otlp-header", "api-key=s3cret=,X-Other=a b") as daemon, \
                    Client(daemon) as client:
                client.request("GET", "/v1/ops")
                collector.wait_span(is_named("GET /v1/ops"))
                line, headers, body = collector.requests[0]
                self.assertEqual(line, "POST /v1/traces")
                self.assertEqual((headers["content-type"], headers["api-key"], headers["x-other"]),
                                 ("application/json", "s3cret=", "a b"))
                self.assertRegex(headers["user-agent"], r"^tensord/\d")
                resource = attributes(json.loads(body)["resourceSpans"][0]["resource"])
                self.assertEqual(set(resource), {"service.name", "service.version", "service.instance.id"})
                self.assertEqual(resource["service.name"], "tensord")
                self.assertRegex(resource["service.instance.id"], r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
                instances.add(resource["service.instance.id"])
                self.assertNotIn("s3cret", "\n".join(daemon.lines))
        self.assertEqual(len(instances), 2)

    def test_the_path_of_the_base_address_is_kept(self):
        with Collector() as collector, traced(collector, endpoint=collector.endpoint + "/base/") as daemon, Client(daemon) as client:
            client.request("GET", "/v1/ops")
            collector.wait_span(is_named("GET /v1/ops"))
            self.assertEqual(collector.requests[0][0], "POST /base/v1/traces")

    def test_an_address_that_ends_in_the_path_of_the_protocol_is_the_same_one(self):
        for end in ("/v1/traces", "/v1/traces/"):
            with self.subTest(end=end), Collector() as collector, traced(collector, endpoint=collector.endpoint + end) as daemon, Client(daemon) as client:
                client.request("GET", "/v1/ops")
                collector.wait_span(is_named("GET /v1/ops"))
                self.assertEqual(collector.requests[0][0], "POST /v1/traces")

    def test_errors_of_the_server_alone_are_errors_of_the_span(self):
        with Collector() as collector, traced(collector) as daemon, Client(daemon) as client:
            client.post("/v1/gather", {"params": [1], "indices": [5]}, {"X-Request-Id": "client's"})
            client.post("/v1/gather", {"device": "gpu", **GATHER}, {"X-Request-Id": "server's"})
            client.request("BREW", "/nowhere", headers={"X-Request-Id": "unknown"})
            bad = collector.wait_span(of_request("client's"))
            self.assertEqual(attributes(bad)["tensord.code"], "INDEX_OUT_OF_BOUNDS")
            self.assertEqual(attributes(bad)["http.response.status_code"], 422)
            self.assertNotIn("error.type", attributes(bad))
            self.assertNotIn("status", bad)
            failed = collector.wait_span(of_request("server's"))
            self.assertEqual(attributes(failed)["error.type"], "DEVICE_UNAVAILABLE")
            self.assertEqual(attributes(failed)["http.response.status_code"], 503)
            self.assertEqual(failed["status"]["code"], ERROR)
            self.assertIn("gpu", failed["status"]["message"])
            unknown = collector.wait_span(of_request("unknown"))
            self.assertEqual(unknown["name"], "HTTP")
            self.assertEqual(attributes(unknown)["http.request.method"], "_OTHER")
            self.assertEqual(attributes(unknown)["http.request.method_original"], "BREW")
            self.assertNotIn("http.route", attributes(unknown))

    def test_every_body_is_a_message_of_the_protocol(self):
        python = os.path.join(VENV, "bin", "python")
        run = lambda *command, **options: subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        imports = "import opentelemetry.proto.collector.trace.v1.trace_service_pb2"
        os.makedirs(CACHE, exist_ok=True)
        with open(VENV + ".lock", "wb") as lock:  # another run of the tests waits until it is complete
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(python):
                made = run(sys.executable, "-m", "venv", VENV)
                if made.returncode:
                    self.skipTest(f"cannot make a virtual environment: {made.stdout[-300:]}")
            if run(python, "-c", imports).returncode:
                made = run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "opentelemetry-proto")
                if made.returncode:
                    self.skipTest(f"opentelemetry-proto cannot be installed: {made.stdout[-300:]}")
        with Collector() as collector, traced(collector, "--inline-limit-us", "0") as daemon, Client(daemon) as client:
            for i in range(20):
                client.post("/v1/gather", GATHER, {"traceparent": SAMPLED, "tracestate": "a=1, b@c=\"2\\",
                                                   "X-Request-Id": f"{i}", "User-Agent": "\xe9\x01<>"})
                client.post("/v1/gather", {"device": "gpu", **GATHER})
                client.request("GET", "/nowhere/%22%5C%0A")
            client.request("GET", "/v1/ops", headers={"X-Request-Id": "last"})
            collector.wait_span(of_request("last"))
            bodies = b"\n".join(body for _, _, body in collector.requests)
            self.assertEqual(run(python, "-c", PARSER, input=bodies.decode()).stdout, "")
            unknown = bodies.decode().replace('"kind"', '"kin"', 1)
            self.assertIn("kin", run(python, "-c", PARSER, input=unknown).stdout)  # the parser is strict


class Sampling(unittest.TestCase):
    def test_the_flag_of_traceparent_wins_over_the_fraction(self):
        for sample in "on", "off":
            with self.subTest(sample), Collector() as collector, traced(collector, sample=sample) as daemon, \
                    Client(daemon) as client:
                client.request("GET", "/v1/ops", headers={"X-Request-Id": "no", "traceparent": UNSAMPLED})
                client.request("GET", "/v1/ops", headers={"X-Request-Id": "free"})
                client.request("GET", "/v1/ops", headers={"X-Request-Id": "yes", "traceparent": SAMPLED, "tracestate": "vendor=x"})
                span = collector.wait_span(of_request("yes"))
                self.assertEqual((span["traceId"], span["parentSpanId"], span["flags"]), (TRACE, PARENT, 0x301))
                self.assertEqual(span["traceState"], "vendor=x")
                ids = [attributes(s)["tensord.request_id"] for s in collector.spans() if "attributes" in s]
                self.assertEqual(ids, ["free", "yes"] if sample == "on" else ["yes"])

    def test_an_invalid_traceparent_is_none_and_an_invalid_tracestate_is_dropped(self):
        with Collector() as collector, traced(collector) as daemon, Client(daemon) as client:
            client.request("GET", "/v1/ops", headers={"X-Request-Id": "a", "traceparent": SAMPLED + "x", "tracestate": "a=1"})
            client.request("GET", "/v1/ops", headers={"X-Request-Id": "b", "traceparent": SAMPLED, "tracestate": "no"})
            first, second = collector.wait_span(of_request("a")), collector.wait_span(of_request("b"))
            self.assertNotIn("parentSpanId", first)
            self.assertNotEqual(first["traceId"], TRACE)
            self.assertEqual(second["traceId"], TRACE)
            self.assertNotIn("traceState", first)
            self.assertNotIn("traceState", second)

    def test_without_a_collector_there_are_no_counts(self):
        with Daemon("--trace-sample", "on") as daemon, Client(daemon) as client:
            self.assertEqual(counts(client), {})


class Failures(unittest.TestCase):
    """No request notices what the collector does, the counts say what was lost, and the stop is bounded."""

    def check(self, endpoint, done, stops_by_itself=True):
        """done(counts) becomes true; the log of the daemon"""
        with GatedDaemon("--otlp-endpoint", endpoint, "--trace-sample", "on", "--drain-timeout-ms", "86400000") as daemon:
            daemon.at_start = None  # a connection to the collector may be open
            with Client(daemon) as client:
                for _ in range(20):
                    self.assertEqual(client.post("/v1/gather", GATHER).status, 200)
                self.advance_until(daemon, lambda: done(counts(client)), 1)
            if not stops_by_itself:  # within seconds of its clock: the drain timeout is a day
                with daemon.gates.closed("exit"):  # seconds of its clock may be too short for this machine
                    daemon.send_signal()
                    self.advance_until(daemon, lambda: any(e["event"] == "spans_lost" for e in daemon.events()), 1)
                self.assertEqual(daemon.wait(), 0)
            daemon.stop()
            return daemon.events()

    def advance_until(self, daemon, condition, seconds):
        """advances the clock in such steps: the exporter sends a batch each second, and waits before it tries again"""
        def is_so():
            daemon.clock.advance(seconds)
            return condition()
        eventually(is_so)

    @contextlib.contextmanager
    def one_batch(self, collector):
        """a daemon whose clock stands still, and that has begun to send the spans of about 20 requests; without time, they have no stages"""
        with GatedDaemon("--otlp-endpoint", collector.endpoint, "--trace-sample", "on") as daemon:
            daemon.at_start = None  # a connection to the collector stays open
            with daemon.clock.stopped(), Client(daemon) as client:
                for _ in range(20):
                    self.assertEqual(client.post("/v1/gather", GATHER).status, 200)
                self.advance_until(daemon, lambda: collector.requests, 1)
                yield daemon, client

    def batches(self, collector):
        """the number of spans in each"""
        return [body.count(b'"spanId"') for _, _, body in list(collector.requests)]

    def reason(self, events):
        event = next(e for e in events if e["event"] == "traces_not_exported")
        self.assertRegex(event["url"], "^http://.*[0-9]/v1/traces$")
        return event["reason"]

    def lost(self, events):
        return next(e for e in events if e["event"] == "spans_lost")

    def test_nobody_listens(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # nobody else can listen there
            events = self.check(f"http://127.0.0.1:{taken.getsockname()[1]}", lambda c: c["exported"] == 0)
        self.assertGreaterEqual(self.lost(events)["failed"], 20)

    def test_the_name_does_not_exist(self):
        events = self.check("http://collector.invalid:4318", lambda c: c["exported"] == 0, stops_by_itself=False)
        self.assertGreaterEqual(self.lost(events)["failed"], 20)

    def test_a_collector_that_does_not_answer_in_http(self):
        def hang(collector, connection):
            collector.closed.wait()
        def reset(collector, connection):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        def garbage(collector, connection):
            connection.sendall(b"\x00\xff" * 5000)
        for behave, requests in ((hang, 1), (reset, 2), (garbage, 2)):
            with self.subTest(behave.__name__), Collector(lambda n, connection: behave(collector, connection)) as collector:
                events = self.check(collector.endpoint, lambda c: len(collector.requests) >= requests, stops_by_itself=behave is not hang)
                self.assertGreaterEqual(self.lost(events)["failed"], 20)

    def test_a_refused_batch_is_not_sent_again(self):
        with Collector(lambda n, connection: respond(connection, 400)) as collector:
            events = self.check(collector.endpoint, lambda c: c["failed"] >= 60)
            self.assertEqual(self.reason(events), "status 400")
            bodies = [body for _, _, body in collector.requests]
            self.assertEqual(len(set(bodies)), len(bodies))

    def test_a_busy_collector_gets_the_batch_again_when_it_says(self):
        def busy(n, connection):
            return respond(connection, 503, ["Retry-After: 20"]) if n == 0 else respond(connection)
        with Collector(busy) as collector, self.one_batch(collector) as (daemon, client):
            daemon.wait_log(lambda e: e["event"] == "traces_not_exported")
            refused = daemon.clock.advanced()
            self.advance_until(daemon, lambda: len(collector.requests) > 1, 0.5)
            self.assertGreaterEqual(daemon.clock.advanced() - refused, 20)
            eventually(lambda: counts(client) == {"exported": sum(self.batches(collector)[1:]), "dropped": 0, "failed": 0})
            self.assertEqual(self.reason(daemon.events()), "status 503")
            daemon.wait_log(lambda e: e["event"] == "traces_exported_again")
            self.assertEqual(collector.requests[0][2], collector.requests[1][2])

    def test_rejected_spans_are_counted(self):
        reply = json.dumps({"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}).encode()
        with Collector(lambda n, connection: respond(connection, body=reply)) as collector:
            with self.one_batch(collector) as (_, client):
                rejected = lambda: sum(min(n, 3) for n in self.batches(collector))
                eventually(lambda: counts(client) == {"exported": sum(self.batches(collector)) - rejected(), "dropped": 0, "failed": rejected()})
                self.assertGreater(self.batches(collector)[0], 3)  # the span of the last reply may come with the next one

    def test_an_endless_reply_is_read_to_a_bound(self):
        def endless(n, connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while not collector.closed.is_set():
                connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            return False
        with Collector(endless) as collector:
            self.check(collector.endpoint, lambda c: c["exported"] >= 60)

    def test_a_redirection_is_not_followed(self):
        with Collector() as other:
            to = f"Location: {other.endpoint}/v1/traces"
            with Collector(lambda n, connection: respond(connection, 307, [to])) as collector:
                events = self.check(collector.endpoint, lambda c: c["failed"] >= 60)
            self.assertEqual(self.reason(events), "status 307")
            self.assertEqual(other.requests, [])

    def test_the_last_spans_are_sent_before_it_ends(self):
        with Collector() as collector:
            with traced(collector) as daemon, Client(daemon) as client:
                client.post("/v1/gather", GATHER, {"X-Request-Id": "last"})
            self.assertTrue(any(map(of_request("last"), collector.spans())))


class Options(unittest.TestCase):
    def refusal(self, *options):
        done = subprocess.run([BINARY, "--check-config", *options], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment(), timeout=WAIT_LIMIT)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_an_address_that_is_none_is_refused(self):
        for endpoint in "localhost:4318", "ftp://localhost", "http://", "http:///v1", "http://a b", "http://u:p@h:1", "http://h?x=1", \
                "http://h#f", "http://h/" + "x" * 2048, "http://h\n":
            with self.subTest(endpoint):
                self.assertIn("otlp-endpoint: ", self.refusal("--otlp-endpoint", endpoint))

    def test_a_header_that_is_none_is_refused_without_its_value(self):
        for header in "s3cret", "=s3cret", "a b=s3cret", "k=s3cret,other", "a=", "a=s3cret\r\nB: c":
            with self.subTest(header):
                message = self.refusal("--otlp-endpoint", "http://localhost:4318", "--otlp-header", header)
                self.assertIn("otlp-header: ", message)
                self.assertIn("otlp-header: ", self.refusal("--otlp-header", header))  # also without a collector
                self.assertNotIn("s3cret", message)


if __name__ == "__main__":
    unittest.main()
