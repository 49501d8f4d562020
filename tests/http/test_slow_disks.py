"""A disk that is slow, as seen by requests that change tables and by all others: the gate "sync" is a call of fsync that does not return."""
import contextlib, json, os, signal

from daemon import JSON, Client, Daemon, HttpTest, Raw, http_request, metric, replies_of, temporary_folder
from gates import GatedDaemon

DISK_THREADS = 4
ROWS = json.dumps([[1.0, 2.0], [3.0, 4.0]])
NEW_ROWS = json.dumps([[9.0, 9.0], [9.0, 9.0]])
EINSUM = json.dumps({"equation": "ij,jk->ik", "inputs": [[[1.0, 2.0]], [[3.0], [4.0]]]})


def put(name, rows=NEW_ROWS, query="", headers=()):
    return http_request("PUT", f"/v1/tensors/{name}{query}", rows.encode(), [f"Content-Type: {JSON}", *headers])


class SlowDisks(HttpTest):
    """Workers never wait for a disk, nor for a change that waits for one."""

    def gated_daemon(self, *options):
        folder = temporary_folder()
        return GatedDaemon("--workers", "1", "--inline-limit-us", "0", "--data-dir", folder, *options), folder

    def start(self, *options):
        daemon, _ = self.gated_daemon(*options)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(daemon)
        client = stack.enter_context(Client(daemon))
        for name in "abcdef":
            self.assertStatus(client.request("PUT", f"/v1/tensors/{name}", ROWS, {"Content-Type": JSON}), 201)
        return daemon, client, stack

    def persist(self, daemon, stack, gate, names):
        """requests that persist tensors, each at the gate"""
        sockets = [stack.enter_context(Raw(daemon)) for _ in names]
        for raw, name in zip(sockets, names):
            raw.send(put(name, query="?persist=1"))
            gate.arrival()
        return sockets

    def rows(self, client, name):
        return client.request("GET", f"/v1/tensors/{name}?response=nested").json()["data"]

    def wait_for_waiting(self, daemon, count):
        self.wait_until(lambda: metric(daemon, "tensord_changes_waiting") == count, f"{count} changes wait")

    def test_the_only_worker_is_free_while_every_thread_for_disks_waits(self):
        daemon, client, stack = self.start()
        with daemon.gates.closed("sync") as gate:
            slow = self.persist(daemon, stack, gate, "abcd"[:DISK_THREADS])
            self.assertStatus(client.post("/v1/einsum", EINSUM), 200)
            self.assertStatus(client.request("PUT", "/v1/tensors/e", NEW_ROWS, {"Content-Type": JSON}), 200)
            self.assertStatus(client.request("GET", "/v1/tensors/a"), 200)
            gate.open()
            for reply in replies_of(slow):
                self.assertStatus(reply, 200)

    def test_a_change_that_waits_for_another_one_holds_no_worker(self):
        daemon, client, stack = self.start()
        with daemon.gates.closed("sync") as gate:
            slow = self.persist(daemon, stack, gate, "a")
            changes = [put("a", ROWS), http_request("DELETE", "/v1/tensors/a"),
                       http_request("POST", "/v1/tensors/a/scatter", json.dumps({"indices": [[0]], "updates": [[5.0, 5.0]]}).encode(),
                                    [f"Content-Type: {JSON}"])]
            waiting = [stack.enter_context(Raw(daemon)) for _ in changes]
            for raw, change in zip(waiting, changes):
                raw.send(change)
            self.wait_for_waiting(daemon, len(changes))
            self.assertStatus(client.post("/v1/einsum", EINSUM), 200)
            gate.open()
            self.assertEqual([reply.status for reply in replies_of(slow + waiting[:2])], [200, 200, 204])
            self.assertIsNotNone(waiting[2].reply())

    def test_a_flip_that_waits_for_another_one_holds_no_worker(self):
        daemon, client, stack = self.start()
        for version in "12":
            self.assertStatus(client.request("PUT", f"/v1/tensors/t@{version}?persist=1", ROWS, {"Content-Type": JSON}), 201)
        flip = lambda version: json.dumps({"set": {"t": f"t@{version}"}}).encode()
        with daemon.gates.closed("sync") as gate, Raw(daemon) as slow, Raw(daemon) as waiting:
            slow.send(http_request("POST", "/v1/aliases?persist=1", flip(1), [f"Content-Type: {JSON}"]))
            gate.arrival()
            waiting.send(http_request("POST", "/v1/aliases", flip(2), [f"Content-Type: {JSON}"]))
            self.wait_for_waiting(daemon, 1)
            self.assertStatus(client.post("/v1/einsum", EINSUM), 200)
            gate.open()
            self.assertEqual([reply.status for reply in replies_of((slow, waiting))], [200, 200])
        self.assertEqual(client.request("GET", "/v1/aliases").json()["aliases"], {"t": "t@2"})

    def test_a_scan_that_waits_for_a_change_holds_no_worker(self):
        daemon, client, stack = self.start()
        self.assertStatus(client.request("PUT", "/v1/tensors/a?persist=1", ROWS, {"Content-Type": JSON}), 200)
        with daemon.gates.closed("sync") as gate:
            slow = self.persist(daemon, stack, gate, "a")
            daemon.send_signal(signal.SIGHUP)
            self.wait_for_waiting(daemon, 1)
            self.assertStatus(client.post("/v1/einsum", EINSUM), 200)
            gate.open()
            self.assertStatus(slow[0].reply(), 200)

    def test_a_deadline_that_passes_while_a_change_waits_is_504_and_nothing_changes(self):
        daemon, client, stack = self.start()
        for version in "12":
            self.assertStatus(client.request("PUT", f"/v1/tensors/t@{version}?persist=1", ROWS, {"Content-Type": JSON}), 201)
        self.assertStatus(client.post("/v1/aliases", {"set": {"t": "t@1"}}), 200)
        limit = "X-Request-Timeout-Ms: 60000"
        with daemon.gates.closed("sync") as gate:
            slow = self.persist(daemon, stack, gate, "ab")
            waiting = [stack.enter_context(Raw(daemon)) for _ in range(3)]
            waiting[0].send(http_request("DELETE", "/v1/tensors/a", headers=[limit]))
            waiting[1].send(put("b", ROWS, headers=[limit]))
            waiting[2].send(http_request("POST", "/v1/gather", json.dumps({"params": [7], "indices": [0], "store": "b"}).encode(),
                                         [f"Content-Type: {JSON}", limit]))
            self.wait_for_waiting(daemon, 3)
            daemon.clock.advance(61)
            for reply in replies_of(waiting):
                problem = self.assertProblem(reply, 504, "DEADLINE_EXCEEDED")
                self.assertIn("nothing was changed", problem["detail"])
            gate.open()
            for reply in replies_of(slow):
                self.assertStatus(reply, 200)
        for name in "ab":
            self.assertEqual(self.rows(client, name), json.loads(NEW_ROWS))

    def test_a_change_that_waits_for_a_free_thread_for_disks_has_a_deadline_too(self):
        daemon, client, stack = self.start()
        with daemon.gates.closed("sync") as gate, Raw(daemon) as late:
            slow = self.persist(daemon, stack, gate, "abcd"[:DISK_THREADS])
            late.send(put("e", query="?persist=1", headers=["X-Request-Timeout-Ms: 60000"]))
            self.wait_until(lambda: metric(daemon, "tensord_disk_queue_jobs") == 1)
            daemon.clock.advance(61)
            self.assertProblem(late.reply(), 504, "DEADLINE_EXCEEDED")
            gate.open()
            for reply in replies_of(slow):
                self.assertStatus(reply, 200)
        self.assertEqual(self.rows(client, "e"), json.loads(ROWS))

    def test_a_full_queue_of_changes_is_429(self):
        daemon, client, stack = self.start("--queue-limit", "1")
        with daemon.gates.closed("sync") as gate, Raw(daemon) as queued, Raw(daemon) as refused:
            slow = self.persist(daemon, stack, gate, "abcd"[:DISK_THREADS])
            queued.send(put("e", query="?persist=1"))
            self.wait_until(lambda: metric(daemon, "tensord_disk_queue_jobs") == 1)
            refused.send(put("f", query="?persist=1"))
            problem = self.assertProblem(refused.reply(), 429, "QUEUE_FULL")
            self.assertIn("change the data folder", problem["detail"])
            self.assertStatus(client.post("/v1/einsum", EINSUM), 200)
            gate.open()
            for reply in replies_of([*slow, queued]):
                self.assertStatus(reply, 200)

    def test_a_stop_does_not_wait_for_a_disk(self):
        daemon, folder = self.gated_daemon("--drain-timeout-ms", "60000")
        with Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/a?persist=1", ROWS, {"Content-Type": JSON}), 201)
        with daemon.gates.closed("sync") as gate, Raw(daemon) as slow, Raw(daemon) as waiting:
            slow.send(put("a", query="?persist=1"))
            gate.arrival()
            waiting.send(put("a", query="?persist=1"))
            self.wait_for_waiting(daemon, 1)
            daemon.send_signal(signal.SIGTERM)
            daemon.wait_log(lambda event: event["event"] == "draining")
            daemon.clock.advance(61)
            daemon.wait_log(lambda event: event["event"] == "drain_cut_short")
            self.assertProblem(waiting.reply(), 503, "DRAINING")
            daemon.clock.advance(4)
            self.assertEqual(daemon.wait(), 0)
            self.assertIn("exit_forced", [event["event"] for event in daemon.events()])
        with Daemon("--data-dir", folder) as again, Client(again) as client:
            self.assertEqual(self.rows(client, "a"), json.loads(ROWS))
        self.assertEqual(sorted(name for name in os.listdir(folder) if not name.startswith(".")), ["a.tensord"])
