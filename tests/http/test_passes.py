"""Searches of one table, alone or as steps of programs, that share a pass over it: server/calls/passes.c."""
import contextlib
from gates import GatedDaemon
from test_tensors import *

COLUMNS, ROWS = 16, 20_000  # so many that a search is queued


def vector(i):
    return [float((i * 7 + c) % 5 - 2) for c in range(COLUMNS)]


class PassTest(TensorTest):
    options = ("--workers", "1")  # a leader that is held at a gate keeps all others waiting
    gated = True

    def setUp(self):
        super().setUp()
        self.put_table(self.daemon)
        self.addCleanup(self.request, "DELETE", "/v1/tensors/vectors")

    def put_table(self, daemon):
        values = [float((i * 31 % 257 + i // 7) % 11 - 5) for i in range(ROWS * COLUMNS)]
        with Client(daemon) as client:
            reply = client.request("PUT", "/v1/tensors/vectors", safetensors({"t": ("float32", (ROWS, COLUMNS), pack("float32", values))}),
                                   {"Content-Type": SAFETENSORS})
        self.assertStatus(reply, 201)

    def body(self, i, **more):
        return {"queries": vector(i), "k": 1 + i % 4, **more}

    def sent(self, stack, body, headers=(), source=None):
        raw = stack.enter_context(Raw(self.daemon, source=source))
        raw.send(http_request("POST", "/v1/tensors/vectors/search", json.dumps(body).encode(), headers))
        return raw

    def wait_for_waiting(self, n):
        self.wait_until(lambda: metric(self.daemon, "tensord_pass_waiting") == n)

    @contextlib.contextmanager
    def passing(self, bodies, headers=()):
        """A search that is being computed, and others that wait for the next pass."""
        with self.daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
            first = self.sent(stack, self.body(0))
            gate.arrival()
            others = []
            for body in bodies:
                others.append(self.sent(stack, body, headers))
                self.wait_for_waiting(len(others))
            yield gate, first, others

    def assertPassAsAlone(self, bodies, alone):
        """A first call and these share a pass, and get the replies that each gets alone."""
        before = metric(self.daemon, "tensord_pass_members_total")
        with self.passing(bodies) as (gate, first, others):
            gate.let_pass()
            gate.arrivals[0].release()
            for raw, wanted in zip([first, *others], alone):
                reply = raw.reply()
                self.assertStatus(reply, 200)
                self.assertEqual(reply.json()["outputs"], wanted["outputs"])
        self.assertEqual(metric(self.daemon, "tensord_pass_members_total") - before, len(bodies))


class Passes(PassTest):
    def test_searches_that_wait_are_computed_together_and_as_alone(self):
        bodies = [self.body(i, **({"exclude": [i]} if i % 3 == 0 else {})) for i in range(1, 8)]
        bodies += [{"rows": [4, 9], "k": 3}, {"rows": 7, "k": 2, "exclude_self": False}]
        alone = [self.post("/v1/tensors/vectors/search", body).json() for body in [self.body(0), *bodies]]
        self.assertPassAsAlone(bodies, alone)
        self.wait_for_waiting(0)

    def test_each_keeps_its_own_error(self):
        bodies = [self.body(1), {"rows": [ROWS], "k": 1}, self.body(2, exclude=[-1]), self.body(3)]
        with self.passing(bodies) as (gate, first, others):
            gate.open()
            self.assertStatus(first.reply(), 200)
            replies = replies_of(others)
            self.assertProblem(replies[1], 422, "INDEX_OUT_OF_BOUNDS", input="rows", position=[0], index=ROWS, bound=ROWS)
            self.assertProblem(replies[2], 422, "INDEX_OUT_OF_BOUNDS", input="exclude", position=[0], index=-1, bound=ROWS)
            for at in (0, 3):
                self.assertStatus(replies[at], 200)

    def test_an_error_of_the_leader_is_its_own(self):
        with self.daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
            leader = self.sent(stack, {"rows": [ROWS], "k": 1})
            gate.arrival()
            other = self.sent(stack, self.body(1))
            self.wait_for_waiting(1)
            gate.open()
            self.assertProblem(leader.reply(), 422, "INDEX_OUT_OF_BOUNDS", input="rows")
            self.assertStatus(other.reply(), 200)

    def test_searches_that_do_much_work_or_other_work_do_not_wait(self):
        with self.daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
            first = self.sent(stack, self.body(0))
            gate.arrival()
            others = [self.sent(stack, body) for body in (self.body(1, metric="l2"), self.body(1, candidates=list(range(5000))), {"queries": [vector(i) for i in range(5)], "k": 1},
                                                           {"queries": vector(1), "k": 1025})]
            self.wait_until(lambda: metric(self.daemon, "tensord_queue_jobs") == len(others))
            self.assertEqual(metric(self.daemon, "tensord_pass_waiting"), 0)
            gate.open()
            for reply in replies_of([first, *others]):
                self.assertStatus(reply, 200)

    def test_a_deadline_passes_while_a_search_waits(self):
        with self.passing([self.body(1)], ["X-Request-Timeout-Ms: 60000"]) as (gate, first, others):
            self.daemon.clock.advance(61)
            gate.open()
            self.assertStatus(first.reply(), 200)
            self.assertProblem(others[0].reply(), 504, "DEADLINE_EXCEEDED")

    def test_a_search_does_not_wait_for_one_behind_the_jobs_of_another_client(self):
        with self.daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
            first = self.sent(stack, self.body(0, metric="l2"))
            gate.arrival()
            queued = []
            for body, source in ((self.body(0, metric="cosine"), None), (self.body(1), None), (self.body(2), "127.0.0.2")):
                queued.append(self.sent(stack, body, source=source))
                self.wait_until(lambda: metric(self.daemon, "tensord_queue_jobs") == len(queued))
            queued.append(self.sent(stack, self.body(3)))
            self.wait_for_waiting(1)
            gate.open()
            for reply in replies_of([first, *queued]):
                self.assertStatus(reply, 200)

    def test_a_client_that_leaves_while_its_search_waits(self):
        with self.passing([self.body(1), self.body(2)]) as (gate, first, others):
            others[0].close()
            gate.open()
            self.assertStatus(first.reply(), 200)
            self.assertStatus(others[1].reply(), 200)
        self.wait_for_waiting(0)


class Programs(PassTest):
    """Programs that search a table share the pass, and run their other steps alone."""

    def program(self, i, steps_before=(), query="$query", k=None, **search):
        return {"inputs": {"query": vector(i)},
                "steps": [*steps_before,
                          {"op": "search", "params": {"ref": "vectors"}, "queries": query, "k": k or 1 + i % 4, **search, "as": {"scores": "scores", "indices": "rows"}},
                          {"op": "gather", "params": {"ref": "vectors"}, "indices": "$rows", "as": "found"}],
                "outputs": ["found", "scores"]}

    def sent(self, stack, body, headers=(), source=None):
        raw = stack.enter_context(Raw(self.daemon, source=source))
        path = "/v1/programs/run" if "steps" in body else "/v1/programs/nearest"
        raw.send(http_request("POST", path, json.dumps(body).encode(), headers))
        return raw

    def body(self, i, **more):
        return self.program(i, **more)

    def store(self):
        text = self.program(0)
        text["inputs"] = {"query": {"dtype": "float32", "shape": [COLUMNS]}}
        text["steps"][0]["k"] = {"attr": "k", "default": 2}
        self.assertStatus(self.request("PUT", "/v1/programs/nearest", json.dumps(text).encode()), 201)
        self.addCleanup(self.request, "DELETE", "/v1/programs/nearest")

    def test_programs_that_wait_are_computed_together_and_as_alone(self):
        self.store()
        negate = {"op": "negative", "x": "$query", "as": "negated"}
        bodies = [self.program(1), self.program(2, [negate], "$negated"), self.program(3, exclude=[5, 9]), {"query": vector(4)}, {"query": vector(5), "k": 7}]
        alone = [self.post("/v1/programs/run" if "steps" in body else "/v1/programs/nearest", body).json() for body in [self.program(0), *bodies]]
        self.assertPassAsAlone(bodies, alone)

    def test_each_keeps_its_own_error_with_the_step(self):
        before = self.program(2, [{"op": "gather", "params": {"ref": "vectors"}, "indices": "$row", "as": "rows_before"}], "$rows_before")
        before["inputs"] = {"row": [ROWS]}
        after = self.program(4)
        after["steps"][1]["params"] = "$query"  # the rows of the table are out of bounds for the query
        bodies = [self.program(1), before, self.program(3, exclude=[-1]), after]
        with self.passing(bodies) as (gate, first, others):
            gate.open()
            self.assertStatus(first.reply(), 200)
            replies = replies_of(others)
            self.assertStatus(replies[0], 200)
            self.assertProblem(replies[1], 422, "INDEX_OUT_OF_BOUNDS", step=0, input="indices", index=ROWS)
            self.assertProblem(replies[2], 422, "INDEX_OUT_OF_BOUNDS", step=0, input="exclude", index=-1)
            self.assertProblem(replies[3], 422, "INDEX_OUT_OF_BOUNDS", step=1, input="indices", bound=COLUMNS)

    def test_each_step_is_timed(self):
        body = self.program(1, [{"op": "negative", "x": "$query", "as": "negated"}], "$negated") | {"timing": True}
        with self.passing([body]) as (gate, first, others):
            gate.open()
            self.assertNotIn("steps", first.reply().json())
            self.assertEqual([step["step"] for step in others[0].reply().json()["steps"]], [0, 1, 2])

    def test_programs_that_do_much_other_work_or_search_what_they_compute_do_not_wait(self):
        much = self.program(1)
        much["steps"].append({"op": "reduce_sum", "x": {"ref": "vectors"}, "as": "sum"})
        much["outputs"].append("sum")
        computed = self.program(2)
        computed["steps"].insert(0, {"op": "abs", "x": {"ref": "vectors"}, "as": "table"})
        computed["steps"][1]["params"] = "$table"
        with self.daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
            first = self.sent(stack, self.program(0))
            gate.arrival()
            others = [self.sent(stack, body) for body in (much, computed, computed, self.program(1, metric="l2"))]
            self.wait_until(lambda: metric(self.daemon, "tensord_queue_jobs") == len(others))
            self.assertEqual(metric(self.daemon, "tensord_pass_waiting"), 0)
            gate.open()
            for reply in replies_of([first, *others]):
                self.assertStatus(reply, 200)


class Collecting(PassTest):
    """After a pass of one second, the next pass waits for as many calls as the first computed and left waiting, here four."""

    @contextlib.contextmanager
    def collecting(self):
        with self.daemon.clock.stopped(), contextlib.ExitStack() as stack:
            with self.daemon.gates.closed("check") as gate:
                first = self.sent(stack, self.body(0))
                gate.arrival()
                others = []
                for i in range(1, 4):
                    others.append(self.sent(stack, self.body(i)))
                    self.wait_for_waiting(i)
                self.daemon.clock.advance(1)
            self.assertStatus(first.reply(), 200)
            self.wait_for_waiting(2)  # the other one leads
            yield stack, others

    def test_a_pass_starts_when_as_many_calls_are_there_as_before(self):
        before = metric(self.daemon, "tensord_pass_members_total")
        with self.collecting() as (stack, others):
            self.assertTrue(all(other.is_silent() for other in others))
            others.append(self.sent(stack, self.body(4)))
            for reply in replies_of(others):
                self.assertStatus(reply, 200)
        self.assertEqual(metric(self.daemon, "tensord_pass_members_total") - before, 3)

    def test_a_pass_waits_only_for_a_small_part_of_the_time_of_the_last_one(self):
        with self.collecting() as (_, others):
            self.daemon.clock.advance(0.002)
            for reply in replies_of(others):
                self.assertStatus(reply, 200)


class TwoWorkers(PassTest):
    options = ("--workers", "2")

    def test_a_deadline_ends_the_wait_before_the_pass_ends(self):
        with self.passing([self.body(1)], ["X-Request-Timeout-Ms: 60000"]) as (gate, first, others):
            self.daemon.clock.advance(61)
            self.assertProblem(others[0].reply(), 504, "DEADLINE_EXCEEDED")
            self.assertTrue(first.is_silent())
            self.assertEqual(metric(self.daemon, "tensord_pass_waiting"), 0)


class Drain(PassTest):
    def test_searches_that_wait_are_answered_before_the_end(self):
        shared, self.daemon = self.daemon, GatedDaemon(*self.options, "--drain-timeout-ms=3600000")
        self.put_table(self.daemon)
        with self.passing([self.body(i) for i in range(1, 5)]) as (gate, first, others):
            self.daemon.send_signal()
            self.daemon.wait_log(lambda e: e.get("event") == "draining")
            gate.open()
            for reply in replies_of([first, *others]):
                self.assertStatus(reply, 200)
        self.assertEqual(self.daemon.wait(), 0)
        self.daemon = shared  # has a table to delete
