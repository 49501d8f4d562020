"""Slow clients, disconnects, half-closed and idle connections, and many connections."""
import contextlib, threading, time
from daemon import *

BODY = b'{"params":[1,2],"indices":[1]}'
ANSWER = ("int32", [1], [2])
ONE_WORKER = ("--workers", "1", "--inline-limit-us", "0", "--log-level", "debug")


class SlowClients(HttpTest):
    def test_a_body_sent_a_few_bytes_at_a_time_is_accepted(self):
        request = http_request("POST", "/v1/gather", BODY)
        with Raw(self.daemon) as raw:
            for i in range(0, len(request), 8):
                raw.send(request[i:i + 8])
                time.sleep(0.01)
            self.assertOutput(raw.reply(), *ANSWER)

    def test_slow_clients_do_not_delay_others(self):
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(Raw(self.daemon)) for _ in range(50)]
            request = http_request("POST", "/v1/gather", BODY)
            for i, raw in enumerate(slow):
                raw.send(request[:i + 5])
            began = time.monotonic()
            with Client(self.daemon) as client:
                for _ in range(100):
                    self.assertServes(client)
            self.assertLess(time.monotonic() - began, WAIT_LIMIT / 4)
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
                time.sleep(0.01)
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
            daemon = shared(*options)
            for _ in range(20):
                with Raw(daemon, timeout=3 * SCALE) as raw:
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
            with Raw(self.daemon, timeout=3 * SCALE) as raw:
                raw.send(http_request("POST", "/v1/gather", BODY)[:n])
                raw.socket.shutdown(socket.SHUT_WR)
                reply = raw.reply()
                self.assertTrue(reply is None or reply.status == 400, str(reply))

    def test_incomplete_requests_of_disconnected_clients_do_not_delay_the_shutdown(self):
        daemon = Daemon()
        for n in (5, 60, len(http_request("POST", "/v1/gather", BODY)) - 1) * 20:
            with Raw(daemon) as raw:
                raw.send(http_request("POST", "/v1/gather", BODY)[:n])
        with Client(daemon) as client:
            self.assertServes(client)
        began = time.monotonic()
        daemon.stop()
        self.assertLess(time.monotonic() - began, 5 * SCALE)

    def test_a_body_of_too_many_tiny_chunks_is_refused(self):
        with Raw(self.daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(100):
                raw.send(b"1\r\n \r\n" * 1000)
            raw.send(b"0\r\n\r\n")
            self.assertProblem(raw.reply(), 400, "MALFORMED_REQUEST")

    def test_a_queued_request_of_a_disconnected_client_is_dropped(self):
        with Daemon(*ONE_WORKER) as daemon:
            slow = SlowWork(daemon, 0.5 * SCALE)
            with Raw(daemon, timeout=5 * WAIT_LIMIT) as first:
                first.send(slow.http(["X-Request-Id: first"]))
                time.sleep(0.1 * SCALE)
                with Raw(daemon) as second:
                    second.send(slow.http(["X-Request-Id: second"]))
                    time.sleep(0.05 * SCALE)
                event = daemon.wait_log(lambda e: e.get("request_id") == "second", "a line about the second request", 5 * WAIT_LIMIT)
                self.assertNotEqual(event.get("status"), 200, f"the request was computed although its client had disconnected: {event}")
                self.assertEqual(event.get("event"), "request_dropped", str(event))
                self.assertLess(event.get("compute_ms", 0), 1000 * 0.4 * SCALE)
                self.assertStatus(first.reply(), 200)
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
    options = ("--idle-timeout-ms", "1000")

    def closed_after(self, raw):
        began = time.monotonic()
        rest = raw.rest()
        return time.monotonic() - began, rest

    def test_idle_connections_are_closed_after_the_timeout(self):
        with Raw(self.daemon) as fresh, Raw(self.daemon) as used, Raw(self.daemon) as half:
            used.send(http_request("POST", "/v1/gather", BODY))
            self.assertOutput(used.reply(), *ANSWER)
            half.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
            began = time.monotonic()
            for raw in (fresh, used, half):
                rest = raw.rest()
                self.assertTrue(rest == b"" or rest.startswith(b"HTTP/1.1 4"), rest)
                self.assertLess(time.monotonic() - began, 6 * SCALE)
            self.assertGreater(time.monotonic() - began, 0.5)

    def test_a_timeout_may_be_below_a_second(self):
        with Daemon("--idle-timeout-ms", "500") as daemon, Raw(daemon) as raw:
            raw.send(http_request("GET", "/healthz"))
            self.assertStatus(raw.reply(), 200)
            self.assertEqual(raw.rest(), b"")

    def test_a_connection_that_sends_is_not_idle(self):
        request = http_request("POST", "/v1/gather", BODY)
        with Raw(self.daemon) as raw:
            raw.send(request[:-6])
            for byte in request[-6:]:
                time.sleep(0.4)
                raw.send(bytes([byte]))
            self.assertOutput(raw.reply(), *ANSWER)

    def test_waiting_for_a_worker_is_not_idle(self):
        with Daemon("--idle-timeout-ms", "1000", "--workers", "1", "--inline-limit-us", "0") as daemon:
            slow = SlowWork(daemon, 0.8 * SCALE)
            with Raw(daemon, timeout=5 * WAIT_LIMIT) as a, Raw(daemon, timeout=5 * WAIT_LIMIT) as b, Raw(daemon, timeout=5 * WAIT_LIMIT) as c:
                for raw in (a, b, c):
                    raw.send(slow.http())
                self.assertEqual([reply and reply.status for reply in replies_of((a, b, c))], [200] * 3)
