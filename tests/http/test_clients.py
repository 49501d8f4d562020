"""Slow clients, disconnects, half-closed and idle connections, and many connections."""
import contextlib
from daemon import *
from gates import GatedDaemon

BODY = b'{"params":[1,2],"indices":[1]}'
ANSWER = ("int32", [1], [2])
ONE_WORKER = ("--workers", "1", "--inline-limit-us", "0")


class SlowClients(HttpTest):
    options = ("--header-timeout-ms", "3600000")

    def test_a_body_sent_a_few_bytes_at_a_time_is_accepted(self):
        request = http_request("POST", "/v1/gather", BODY)
        with Raw(self.daemon) as raw:
            for i in range(0, len(request), 8):
                raw.send(request[i:i + 8])
                raw.wait_until_read()
            self.assertOutput(raw.reply(), *ANSWER)

    def test_slow_clients_do_not_delay_others(self):
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(Raw(self.daemon)) for _ in range(50)]
            request = http_request("POST", "/v1/gather", BODY)
            for i, raw in enumerate(slow):
                raw.send(request[:i + 5])
            for raw in slow:
                raw.wait_until_read()
            with Client(self.daemon) as client:
                for _ in range(100):
                    self.assertServes(client)
            self.assertTrue(all(raw.is_silent() for raw in slow))
            for i, raw in enumerate(slow):
                raw.send(request[i + 5:])
                self.assertOutput(raw.reply(), *ANSWER)

    def test_a_large_reply_read_slowly_is_complete(self):
        params, n = bytes(range(256)) * 16, 4000  # 16 MB, more than the socket buffers
        body = safetensors({"params": ("uint8", (1, 4096), params), "indices": ("int32", (n,), bytes(4 * n))})
        with Raw(self.daemon) as raw:
            raw.send(http_request("POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}"]))
            for _ in range(10):
                raw.seen += raw.socket.recv(1000)
                self.wait_until(lambda: self.get("/readyz").json()["connections"]["sending"] == 1)
            self.assertServes()
            self.assertBinary(raw.reply(), "uint8", (n, 4096), params * n)

    def test_an_upload_interleaved_with_small_requests_is_complete(self):
        rows = [bytes([i]) * 65536 for i in range(64)]
        body = safetensors({"params": ("uint8", (64, 65536), b"".join(rows)), "indices": ("int32", (2,), pack("int32", [63, 5]))})
        request = http_request("POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}"])
        with Raw(self.daemon) as raw, Client(self.daemon) as client:
            for i in range(0, len(request), 1 << 18):
                raw.send(request[i:i + (1 << 18)])
                self.assertServes(client)
            self.assertBinary(raw.reply(), "uint8", (2, 65536), rows[63] + rows[5])


class DisconnectingClients(HttpTest):
    gated = True  # such a daemon looks for disconnected clients more often

    def test_a_disconnect_anywhere_in_a_request_is_harmless(self):
        request = http_request("POST", "/v1/gather", BODY)
        for linger in (False, True):
            for n in range(0, len(request) + 1, 7):
                with Raw(self.daemon) as raw:
                    raw.send(request[:n])
                    if linger:  # a reset instead of an end
                        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.assertServes()

    def test_a_disconnect_during_a_large_reply_is_harmless(self):
        n = 2000
        body = safetensors({"params": ("uint8", (1, 4096), bytes(4096)), "indices": ("int32", (n,), bytes(4 * n))})
        for _ in range(10):
            with Raw(self.daemon) as raw:
                raw.send(http_request("POST", "/v1/gather", body, [f"Content-Type: {SAFETENSORS}"]))
                raw.socket.recv(1000)
        self.assertServes()

    def test_a_half_closed_socket_is_answered_or_closed(self):
        for options in ((), ("--inline-limit-us", "0")):
            daemon = shared(*options, gated=True)
            for _ in range(20):
                with Raw(daemon) as raw:
                    raw.send(http_request("POST", "/v1/gather", BODY))
                    raw.socket.shutdown(socket.SHUT_WR)
                    reply = raw.reply()
                    if reply is not None:
                        self.assertOutput(reply, *ANSWER)
                    self.assertEqual(raw.rest(), b"")
            with Client(daemon) as client:
                self.assertServes(client)

    def test_a_half_closed_socket_during_a_request_is_closed(self):
        for n in (5, 20, 60, len(http_request("POST", "/v1/gather", BODY)) - 1) * 5:
            with Raw(self.daemon) as raw:
                raw.send(http_request("POST", "/v1/gather", BODY)[:n])
                raw.socket.shutdown(socket.SHUT_WR)
                reply = raw.reply()
                self.assertTrue(reply is None or reply.status == 400, str(reply))

    def test_incomplete_requests_of_disconnected_clients_do_not_delay_the_shutdown(self):
        daemon = Daemon("--drain-timeout-ms", "3600000")
        for n in (5, 60, len(http_request("POST", "/v1/gather", BODY)) - 1) * 20:
            with Raw(daemon) as raw:
                raw.send(http_request("POST", "/v1/gather", BODY)[:n])
        with Client(daemon) as client:
            self.assertServes(client)
        daemon.stop()
        self.assertNotIn("drain_cut_short", [event["event"] for event in daemon.events()])

    def test_a_body_of_too_many_tiny_chunks_is_refused(self):
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(100):
                raw.send(b"1\r\n \r\n" * 1000)
            raw.send(b"0\r\n\r\n")
            self.assertProblem(raw.reply(), 400, "MALFORMED_REQUEST")

    def test_a_queued_request_of_a_disconnected_client_is_dropped(self):
        with GatedDaemon(*ONE_WORKER, "--log-level", "debug") as daemon:
            request = [http_request("POST", "/v1/gather", BODY, [f"X-Request-Id: {name}"]) for name in ("first", "second")]
            with daemon.gates.closed("compute") as gate, Raw(daemon) as first, Raw(daemon) as second:
                first.send(request[0])
                arrival = gate.arrival()
                second.send(request[1])
                self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
                second.socket.shutdown(socket.SHUT_RDWR)
                second.wait_until_end_arrives()
                daemon.clock.advance(1)  # after a very short wait the daemon does not look
                arrival.release()
                self.assertOutput(first.reply(), *ANSWER)
                event = daemon.wait_log(lambda e: e.get("request_id") == "second", "a line about the second request")
                self.assertEqual(event["event"], "request_dropped", str(event))  # it has not arrived at the gate
                self.assertEqual(event.get("compute_ms", 0), 0, str(event))
            with Client(daemon) as client:
                self.assertServes(client)


class ManyConnections(HttpTest):
    def test_the_daemon_serves_beside_hundreds_of_idle_connections(self):
        with contextlib.ExitStack() as stack:
            for _ in range(400):
                stack.enter_context(Raw(self.daemon))
            for _ in range(20):
                self.assertServes()

    def test_hundreds_of_connections_are_all_answered(self):
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(Raw(self.daemon)) for _ in range(300)]
            for i, raw in enumerate(sockets):
                raw.send(http_request("POST", "/v1/gather", b'{"params":[%d],"indices":[0]}' % i))
            for i, raw in enumerate(sockets):
                self.assertOutput(raw.reply(), "int32", [1], [i])

    def test_many_requests_on_one_connection(self):
        with Client(self.daemon) as client:
            for i in range(500):
                self.assertOutput(client.post("/v1/gather", {"params": [i, -i], "indices": [1]}), "int32", [1], [-i])


class IdleTimeout(HttpTest):
    options = ("--idle-timeout-ms", "300000", "--min-rate", "0", "--header-timeout-ms", "3600000",
               "--default-timeout-ms", "3600000", *ONE_WORKER)
    gated = True

    def later(self, seconds):
        """the daemon looks at the connections, and so many seconds later again"""
        self.daemon.sweep()
        self.daemon.clock.advance(seconds)
        self.daemon.sweep()

    def test_idle_connections_are_closed_after_the_timeout(self):
        with Raw(self.daemon) as fresh, Raw(self.daemon) as used, Raw(self.daemon) as half:
            used.send(http_request("POST", "/v1/gather", BODY))
            self.assertOutput(used.reply(), *ANSWER)
            half.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
            self.wait_until(lambda: self.get("/readyz").json()["connections"]["receiving"] == 1)
            self.later(200)
            self.assertTrue(all(raw.is_silent() for raw in (fresh, used, half)))
            self.later(101)
            for raw in (fresh, used, half):
                self.assertEqual(raw.rest(), b"")

    def test_a_timeout_may_be_below_a_second(self):
        with GatedDaemon("--idle-timeout-ms", "500") as daemon, daemon.clock.stopped(), Raw(daemon) as raw:
            raw.send(http_request("GET", "/healthz"))
            self.assertStatus(raw.reply(), 200)
            daemon.sweep()
            daemon.clock.advance(0.4)
            daemon.sweep()
            self.assertTrue(raw.is_silent())
            daemon.clock.advance(0.101)
            self.assertEqual(raw.rest(), b"")

    def test_a_connection_that_sends_is_not_idle(self):
        request = http_request("POST", "/v1/gather", BODY)
        with Raw(self.daemon) as raw:
            raw.send(request[:-6])
            for byte in request[-6:]:
                raw.wait_until_read()
                self.later(200)
                self.assertTrue(raw.is_silent())
                raw.send(bytes([byte]))
            self.assertOutput(raw.reply(), *ANSWER)

    def test_waiting_for_a_worker_is_not_idle(self):
        with self.daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(Raw(self.daemon)) for _ in range(3)]
            for raw in sockets:
                raw.send(http_request("POST", "/v1/gather", BODY))
            gate.arrival()
            self.wait_until(lambda: metric(self.daemon, "tensord_queue_jobs") == 2)
            self.later(1000)
            self.assertTrue(all(raw.is_silent() for raw in sockets))
            gate.open()
            for reply in replies_of(sockets):
                self.assertOutput(reply, *ANSWER)
