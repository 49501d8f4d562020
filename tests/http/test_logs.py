"""The log: its lines whatever clients send, its level, and a reader that does not read."""
import json, os, signal, subprocess, time
from daemon import *

GATHER = {"params": [1, 2], "indices": [1]}


class Level(unittest.TestCase):
    def change(self, daemon, number):
        """the event of the change that this signal makes"""
        before = len([e for e in daemon.events() if e["event"] == "log_level"])
        daemon.send_signal(number)
        deadline = time.monotonic() + WAIT_LIMIT
        while time.monotonic() < deadline:
            changes = [e for e in daemon.events() if e["event"] == "log_level"]
            if len(changes) > before:
                return changes[-1]["from"], changes[-1]["to"]
            time.sleep(0.02)
        self.fail("the change was not logged")

    def test_signals_change_the_level_within_its_bounds(self):
        more, less = signal.SIGUSR1, signal.SIGUSR2
        with Daemon() as daemon, Client(daemon) as client:
            client.post("/v1/gather", GATHER, {"X-Request-Id": "before"})
            self.assertEqual(self.change(daemon, more), ("info", "debug"))
            self.assertEqual(self.change(daemon, more), ("debug", "debug"))
            client.post("/v1/gather", GATHER, {"X-Request-Id": "between"})
            daemon.wait_log(lambda e: e.get("request_id") == "between")
            for step in (("debug", "info"), ("info", "warn"), ("warn", "error"), ("error", "error")):
                self.assertEqual(self.change(daemon, less), step)
            client.post("/v1/gather", GATHER, {"X-Request-Id": "after"})
            self.assertEqual(self.change(daemon, more), ("error", "warn"))
            seen = {e.get("request_id") for e in daemon.events()}
            self.assertFalse({"before", "after"} & seen)

    def test_a_signal_for_the_log_does_not_stop_a_drain(self):
        with Daemon("--drain-delay-ms", "1000") as daemon, Client(daemon) as client:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait_log(lambda e: e["event"] == "draining")
            self.assertEqual(self.change(daemon, signal.SIGUSR1), ("info", "debug"))
            self.assertEqual(client.post("/v1/gather", GATHER).status, 200)


class FullPipe(unittest.TestCase):
    def start(self, stderr, *options):
        """a daemon whose log nobody reads yet, on a port that is free now"""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        process = subprocess.Popen([BINARY, "--listen", f"127.0.0.1:{port}", "--log-format", "json", "--log-level", "debug", *options],
                                   stdin=subprocess.DEVNULL, stderr=stderr, env=environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + WAIT_LIMIT
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        process.host, process.port = "127.0.0.1", port
        return process

    def check(self, reading, writing):
        process = self.start(writing)
        os.close(writing)
        with Client(process) as client:
            for _ in range(3000):  # some 300 bytes each; a pipe holds 64 KiB, a socket 200
                self.assertEqual(client.post("/v1/gather", GATHER).status, 200)
            dropped = self.dropped(client)
            self.assertGreater(dropped, 0)
            lines, stop = [], []
            def read():
                with os.fdopen(reading, "rb") as file:
                    lines.extend(file)
            reader = threading.Thread(target=read)
            reader.start()
            deadline = time.monotonic() + WAIT_LIMIT
            while not any(b'"dropped":' in line for line in list(lines)) and time.monotonic() < deadline:
                client.post("/v1/gather", GATHER)
        process.terminate()
        self.assertEqual(process.wait(WAIT_LIMIT), 0)
        reader.join(WAIT_LIMIT)
        events = [json.loads(line) for line in lines]
        self.assertGreaterEqual(sum(event.get("dropped", 0) for event in events), dropped)
        self.assertEqual(events[-1]["event"], "stopped")

    def dropped(self, client):
        text = client.request("GET", "/metrics").body.decode()
        return int(next(line for line in text.splitlines() if line.startswith("tensord_log_lines_dropped_total ")).split()[1])

    def test_a_pipe_that_nobody_reads_does_not_stop_requests(self):
        self.check(*os.pipe())

    def test_nor_does_a_socket(self):
        ends = socket.socketpair()
        self.check(*(end.detach() for end in ends))


if __name__ == "__main__":
    unittest.main()
