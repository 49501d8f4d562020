"""Too much at once, too large, too late: each has its answer, and the daemon recovers."""
import contextlib, threading, time
from daemon import *

BODY = b'{"params":[1,2],"indices":[1]}'
QUEUED = ("--workers", "1", "--inline-limit-us", "0")


def crowd(daemon, request, n, timeout=5 * PATIENCE):
    """n times the same request at the same time; the answers"""
    sockets = [Raw(daemon, timeout=timeout) for _ in range(n)]
    try:
        for raw in sockets:
            raw.send(request)
        return answers_of(sockets)
    finally:
        for raw in sockets:
            raw.close()


class Queue(HttpTest):
    options = (*QUEUED, "--queue-limit", "1")

    def test_a_full_queue_is_429_with_retry_after(self):
        slow = SlowWork(self.daemon, 0.3 * SCALE)
        answers = crowd(self.daemon, slow.http(), 8)
        self.assertEqual({a.status for a in answers}, {200, 429}, [a.status for a in answers])
        for answer in answers:
            if answer.status == 429:
                self.assertProblem(answer, 429, "QUEUE_FULL", op="einsum")
                self.assertRegex(answer.headers["Retry-After"], r"^[1-9][0-9]*$")
        self.assertGreaterEqual(sum(a.status == 200 for a in answers), 1)
        self.assertWorks()

    def test_health_answers_while_the_queue_is_full(self):
        slow = SlowWork(self.daemon, 0.3 * SCALE)
        with Raw(self.daemon, timeout=5 * PATIENCE) as a, Raw(self.daemon, timeout=5 * PATIENCE) as b:
            a.send(slow.http())
            b.send(slow.http())
            for path in ("/healthz", "/readyz", "/v1/ops"):
                began = time.monotonic()
                self.assertStatus(self.get(path), 200)
                self.assertLess(time.monotonic() - began, 0.25 * SCALE)
            self.assertIn(a.answer().status, (200, 429))
            self.assertIn(b.answer().status, (200, 429))


class DeviceQueue(HttpTest):
    options = ("--gpu", f"reference:launch_us={int(200000 * SCALE)}", "--batch-limit", "1", "--queue-limit", "3")

    def test_the_queue_limit_bounds_what_waits_for_a_device_too(self):
        request = http_request("POST", "/v1/gather", b'{"params":[1,2],"indices":[1],"device":"gpu"}')
        answers = crowd(self.daemon, request, 12)
        self.assertGreaterEqual(sum(a.status == 200 for a in answers), 3)
        refused = [a for a in answers if a.status != 200]
        self.assertGreater(len(refused), 0)
        for answer in refused:
            self.assertProblem(answer, 429, "QUEUE_FULL", op="gather")
            self.assertRegex(answer.headers["Retry-After"], r"^[1-9][0-9]*$")
        self.assertWorks()


class SmallBesideLarge(HttpTest):
    options = ("--workers", "1")

    def test_tiny_requests_are_answered_while_the_worker_is_busy(self):
        slow = SlowWork(self.daemon, 0.5 * SCALE)
        with Raw(self.daemon, timeout=5 * PATIENCE) as raw, Client(self.daemon) as client:
            raw.send(slow.http())
            time.sleep(0.05 * SCALE)
            began = time.monotonic()
            for _ in range(20):
                self.assertWorks(client)
            self.assertLess(time.monotonic() - began, 0.4 * SCALE)
            self.assertStatus(raw.answer(), 200)


    def test_large_requests_are_not_overtaken_by_those_that_come_later(self):
        with Daemon(*QUEUED) as daemon, contextlib.ExitStack() as stack:
            slow = SlowWork(daemon, 0.2 * SCALE)
            sockets = [stack.enter_context(Raw(daemon, timeout=5 * PATIENCE)) for _ in range(4)]
            for raw in sockets:
                raw.send(slow.http())
                time.sleep(0.02 * SCALE)
            order = []

            def read(i):
                self.assertStatus(sockets[i].answer(), 200)
                order.append(i)
            threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(order, [0, 1, 2, 3])


class Deadlines(HttpTest):
    options = QUEUED

    def test_a_deadline_that_passes_in_the_queue_is_504(self):
        slow = SlowWork(self.daemon, 0.4 * SCALE)
        with Raw(self.daemon, timeout=5 * PATIENCE) as first, Raw(self.daemon, timeout=5 * PATIENCE) as second:
            first.send(slow.http())
            time.sleep(0.1 * SCALE)
            second.send(slow.http(["X-Request-Timeout-Ms: 1"]))
            self.assertProblem(second.answer(), 504, "DEADLINE_EXCEEDED", op="einsum")
            self.assertStatus(first.answer(), 200)

    def test_a_deadline_in_time_changes_nothing(self):
        for value in ("60000", "1000000", "86400000"):
            answer = self.ask("POST", "/v1/gather", BODY, {"X-Request-Timeout-Ms": value})
            self.assertOutput(answer, "int32", [1], [2])

    def test_the_default_deadline_holds_for_those_who_bring_none(self):
        with Daemon(*QUEUED, "--default-timeout-ms", str(int(300 * SCALE))) as daemon:
            slow = SlowWork(daemon, 0.2 * SCALE)
            answers = crowd(daemon, slow.http(), 8)
            self.assertIn(504, [a.status for a in answers])
            for answer in answers:
                if answer.status != 200:
                    self.assertProblem(answer, 504, "DEADLINE_EXCEEDED")

    def test_a_malformed_deadline_is_refused(self):
        for value in ("", "x", "-1", "1.5", "0", "1s", "99999999999999999999", "0x10", "1 2"):
            answer = self.ask("POST", "/v1/gather", BODY, {"X-Request-Timeout-Ms": value})
            problem = self.assertProblem(answer, 400, "MALFORMED_REQUEST")
            self.assertIn("X-Request-Timeout-Ms", problem["detail"], value)


class Memory(HttpTest):
    options = ("--memory-limit", "16M")

    def large(self, rows):
        return json.dumps({"params": tensor("uint8", (rows, 1), bytes(rows)), "axis": 1, "response": "base64",
                           "indices": tensor("int32", (10000,), bytes(40000))}).encode()

    def test_work_that_could_never_fit_the_budget_is_refused_for_good(self):
        """422, not 503: to come again later would not help"""
        for _ in range(30):
            answer = self.ask("POST", "/v1/gather", self.large(2000))
            problem = self.assertProblem(answer, 422, "RESOURCE_LIMIT", op="gather", limit=16 << 20)
            self.assertGreater(problem["needed"], 16 << 20)
        for _ in range(30):
            self.assertStatus(self.ask("POST", "/v1/gather", self.large(100)), 200)
        self.assertWorks()

    def wait_until_free(self):
        """nothing of the budget is in use: what others held has come back"""
        deadline = time.monotonic() + PATIENCE
        while self.get("/readyz").json()["memory"]["in_use"] > 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.get("/readyz").json()["memory"]["in_use"], 0)

    def test_work_beyond_what_is_left_of_the_budget_is_503_and_the_budget_comes_back(self):
        """answers that nobody reads hold their memory; who comes meanwhile is told to come again"""
        for _ in range(3):
            self.wait_until_free()
            held = [Raw(self.daemon) for _ in range(8)]
            try:
                for raw in held:
                    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    raw.send(http_request("POST", "/v1/gather", self.large(400)))
                statuses = []
                for raw in held:
                    while b"\r\n" not in raw.seen and raw.more():
                        pass
                    statuses.append(int(raw.seen[9:12]))
                self.assertEqual(set(statuses), {200, 503})
                answer = held[statuses.index(503)].answer()
                self.assertProblem(answer, 503, "MEMORY_EXHAUSTED", op="gather")
                self.assertRegex(answer.headers["Retry-After"], r"^[1-9][0-9]*$")
                self.assertWorks()
            finally:
                for raw in held:
                    raw.close()
            self.wait_until_free()
            self.assertStatus(self.ask("POST", "/v1/gather", self.large(400)), 200)

    def test_a_body_beyond_the_budget_is_refused(self):
        body = safetensors({"params": ("uint8", (1, 30 << 20), bytes(30 << 20)), "indices": ("int32", (0,), b"")})
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}"]))
            answer = raw.answer()
            self.assertIn(answer.status, (413, 422, 503), str(answer))
            self.assertAnyProblem(answer)
        self.assertWorks()

    def test_bodies_that_wait_share_the_budget(self):
        """sixty-four clients that announce 1 MB each and send nearly all of it"""
        body = safetensors({"params": ("uint8", (1, 1 << 20), bytes(1 << 20)), "indices": ("int32", (1,), bytes(4))})
        request = http_request("POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}"])
        crowd_ = [Raw(self.daemon) for _ in range(64)]
        try:
            for raw in crowd_:
                raw.send(request[:-1])
            for raw in crowd_:
                raw.send(request[-1:])
            statuses = []
            for raw in crowd_:
                answer = raw.answer()
                statuses.append(answer.status)
                if answer.status != 200:
                    self.assertProblem(answer, 503, "MEMORY_EXHAUSTED")
            self.assertIn(503, statuses)
        finally:
            for raw in crowd_:
                raw.close()
        for _ in range(20):
            self.assertWorks()
        answer = self.post("/v1/gather", body, {"Content-Type": SAFETENSORS})
        self.assertBinary(answer, "uint8", (1, 1 << 20), bytes(1 << 20))


class MemoryComesBack(HttpTest):
    """/readyz tells what is in use"""

    def test_after_answers_refusals_and_clients_that_left(self):
        for options in ((), QUEUED):
            with Daemon(*options) as daemon, Client(daemon, timeout=5 * PATIENCE) as client:
                large = LargeAnswer(2)
                for _ in range(3):
                    for request in (large.http(), large.http(["X-Request-Timeout-Ms: 20"])):
                        with Raw(daemon) as raw:  # leaves without its answer
                            raw.send(request)
                            time.sleep(0.02)
                    with Raw(daemon) as raw:  # leaves before its request is whole
                        raw.send(large.http()[:30000])
                        time.sleep(0.02)
                    for body, headers in ((large.request, {}), (large.request[:-5], {}), (large.request, {"Content-Encoding": "gzip"}),
                                          ({"params": [1], "indices": [5] * 30000}, {}), (large.request, {"X-Request-Timeout-Ms": "20"}),
                                          (large.request, {"Accept": SAFETENSORS})):
                        client.post("/v1/gather", body, headers)
                deadline = time.monotonic() + 5 * SCALE
                while (used := client.ask("GET", "/readyz").json()["memory"]["in_use"]) and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.assertEqual(used, 0)


    def test_an_announced_length_holds_nothing_by_itself(self):
        with Daemon() as daemon, Client(daemon) as client:
            raws = [Raw(daemon) for _ in range(20)]
            for raw in raws:
                raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n{")
            time.sleep(0.2)
            self.assertLess(client.ask("GET", "/readyz").json()["memory"]["in_use"], 20 * (32 << 10))
            for raw in raws:
                raw.close()


class Sizes(HttpTest):
    options = ("--max-body", "100000", "--max-output", "1M")

    def test_a_length_beyond_the_limit_is_413_before_the_body_is_sent(self):
        for length in (100001, 10 ** 12, (1 << 63) - 1):
            with Raw(self.daemon) as raw:
                raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % length)
                self.assertProblem(raw.answer(), 413, "PAYLOAD_TOO_LARGE", limit=100000)
                self.assertEqual(raw.rest(), b"")

    def test_a_body_of_exactly_the_limit_is_read(self):
        body = BODY + b" " * (100000 - len(BODY))
        self.assertOutput(self.ask("POST", "/v1/gather", body), "int32", [1], [2])
        self.assertProblem(self.ask("POST", "/v1/gather", body + b" "), 413, "PAYLOAD_TOO_LARGE", limit=100000)

    def test_chunks_beyond_the_limit_are_413(self):
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(26):
                raw.send(b"fa0\r\n" + b" " * 4000 + b"\r\n")
            raw.send(b"0\r\n\r\n")
            self.assertProblem(raw.answer(), 413, "PAYLOAD_TOO_LARGE", limit=100000)

    def test_chunks_without_end_are_stopped(self):
        """the refusal comes, or the connection ends, long before the sender is done"""
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            sent, open_ = 0, True
            while open_ and sent < 200 << 20:
                open_ = raw.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
                sent += 65536
            self.assertFalse(open_, f"{sent} bytes were taken")
        self.assertWorks()

    def test_an_output_beyond_the_limit_is_refused_from_its_shape(self):
        body = {"params": tensor("uint8", (300, 1), bytes(300)), "axis": 1, "indices": tensor("int32", (4000,), bytes(16000))}
        problem = self.assertProblem(self.post("/v1/gather", body), 422, "RESOURCE_LIMIT", resource="output_bytes", limit=1 << 20)
        self.assertEqual(problem["needed"], 300 * 4000)
        self.assertEqual(problem["op"], "gather")

    def test_an_output_of_exactly_the_limit_is_computed(self):
        body = {"params": tensor("uint8", (256, 1), bytes(256)), "axis": 1, "indices": tensor("int32", (4096,), bytes(16384)),
                "response": "base64"}
        self.assertStatus(self.post("/v1/gather", body), 200)
        body["params"] = tensor("uint8", (257, 1), bytes(257))
        self.assertProblem(self.post("/v1/gather", body), 422, "RESOURCE_LIMIT")

    def test_outputs_of_absurd_shapes_are_refused_not_attempted(self):
        """a small body whose output would have 10^13 elements and more"""
        params = tensor("uint8", (10000, 1), bytes(10000))
        indices = tensor("int16", (20000, 1), bytes(40000))
        answer = self.post("/v1/gather", {"params": params, "indices": indices, "axis": 1})
        self.assertProblem(answer, 422, "RESOURCE_LIMIT", resource="output_bytes", needed=10000 * 20000)
        empty = {"dtype": "uint8", "shape": [1 << 40, 0, 1 << 40], "base64": ""}
        answer = self.post("/v1/gather", {"params": empty, "indices": tensor("int16", (20000,), bytes(40000)), "axis": 1, "bounds": "zero"})
        self.assertEqual(answer.status, 422, str(answer))
        self.assertAnyProblem(answer)
        self.assertWorks()

    def test_a_long_text_for_no_bytes_is_refused(self):
        """nested lists of empty lists: the tensor has no bytes, its JSON would have gigabytes"""
        params = {"dtype": "int32", "shape": [3000000000, 0], "data": []}
        answer = self.post("/v1/gather", {"params": params, "indices": [], "axis": 1})
        self.assertProblem(answer, 422, "RESOURCE_LIMIT", resource="output_bytes")

    def test_huge_strings_count_by_their_bytes(self):
        body = {"params": ["x" * 2000], "indices": tensor("int16", (20000,), bytes(40000))}
        answer = self.post("/v1/gather", body)
        self.assertEqual(answer.status, 422, str(answer)[:300])
        self.assertProblem(answer, 422, "RESOURCE_LIMIT", resource="output_bytes", limit=1 << 20)
