"""A daemon with several addresses of --listen."""
import contextlib, json, os, signal, socket, subprocess
from daemon import *
from gates import GatedDaemon

BODY = b'{"params":[1,2],"indices":[1]}'
GATHER = http_request("POST", "/v1/gather", BODY)
HOUR = "3600000"  # a timeout that no machine reaches by being slow


class Address:
    """where a client connects to"""

    def __init__(self, daemon, text):
        host, port = text.rsplit(":", 1)
        self.host, self.port, self.tls = host.strip("[]").replace("0.0.0.0", "127.0.0.1"), int(port), daemon.tls


def addresses(daemon):
    """those that the log says, in its order"""
    daemon.wait_log(lambda e: e["event"] == "ready")
    return [Address(daemon, e["address"]) for e in daemon.events() if e["event"] == "listening"]


class Addresses(HttpTest):
    def expect_answers(self, daemon, *hosts):
        """expects one address of each host, and answers at it"""
        found = addresses(daemon)
        self.assertEqual([address.host for address in found], list(hosts))
        for address in found:
            with Raw(address) as raw:
                raw.send(GATHER)
                self.assertOutput(raw.reply(), "int32", [1], [2])
        self.assertEqual(len({(address.host, address.port) for address in found}), len(hosts))

    def status(self, address, host, method="GET", path="/v1/tensors"):
        with Raw(address) as raw:
            raw.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            return raw.reply().status

    def is_refused(self, address):
        try:  # without TLS: a connection that the daemon does not accept any more has no handshake
            socket.create_connection((address.host, address.port), WAIT_LIMIT).close()
            return False
        except ConnectionRefusedError:
            return True

    def test_requests_are_answered_at_each_address_whatever_source_names_it(self):
        file = os.path.join(temporary_folder(), "tensord.json")
        with open(file, "w", encoding="utf-8") as f:
            json.dump({"listen": ["127.0.0.1:0", "127.0.0.2:0"]}, f)
        for options, env in ((("--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0"), {}), (("--listen=127.0.0.1:0,127.0.0.2:0",), {}),
                             ((), {"TENSORD_LISTEN": "127.0.0.1:0, 127.0.0.2:0"}), ((), {"TENSORD_CONFIG": file})):
            with self.subTest(options=options, env=env), Daemon(*options, listen=None, env=env) as daemon:
                self.expect_answers(daemon, "127.0.0.1", "127.0.0.2")

    def test_port_0_is_another_port_each_time(self):
        with Daemon("--listen=127.0.0.1:0", "--listen=127.0.0.1:0") as daemon:
            self.expect_answers(daemon, "127.0.0.1", "127.0.0.1")

    def test_ipv4_and_ipv6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as e:
            self.skipTest(f"no IPv6 here: {e}")
        with Daemon("--listen=127.0.0.1:0", "--listen=[::1]:0") as daemon:
            self.expect_answers(daemon, "127.0.0.1", "::1")

    def test_host_is_checked_on_connections_to_a_loopback_address_alone(self):
        for order in ((0, 1), (1, 0)):
            texts = ("127.0.0.1:0", "0.0.0.0:0")
            with Daemon(*(f"--listen={texts[i]}" for i in order)) as daemon:
                found = addresses(daemon)
                local, open_one = found[order[0]], found[order[1]]
                for _ in range(3):  # whichever I/O thread and socket number a connection gets
                    self.assertEqual(self.status(local, "evil.example"), 403)
                    self.assertEqual(self.status(open_one, "evil.example"), 200)
                    self.assertEqual(self.status(local, "localhost"), 200)
        with Daemon("--allow-host=tensors.example", *(f"--listen={text}" for text in texts)) as daemon:
            for address in addresses(daemon):
                self.assertEqual(self.status(address, "evil.example"), 403)
                self.assertEqual(self.status(address, "tensors.example"), 200)

    def test_each_open_address_without_tokens_is_a_warning(self):
        with Daemon("--listen=127.0.0.1:0", "--listen=0.0.0.0:0", "--listen=127.0.0.2:0", "--listen=0.0.0.0:0") as daemon:
            daemon.wait_log(lambda e: e["event"] == "ready")
            said = [(e["event"], e["address"]) for e in daemon.events() if e["event"].startswith("listening")]
            listening = [address for event, address in said if event == "listening"]
            self.assertEqual([address for event, address in said if event == "listening_without_tokens"], [listening[1], listening[3]])

    def test_all_addresses_share_the_connection_limit_of_a_client(self):
        with Daemon("--listen=127.0.0.1:0", "--listen=127.0.0.2:0", "--client-connections", "1") as daemon:
            first, second = addresses(daemon)
            with Raw(first) as raw:
                raw.send(http_request("GET", "/healthz"))
                self.assertStatus(raw.reply(), 200)
                with Raw(second) as other:
                    other.send(GATHER)
                    self.assertProblem(other.reply(), 429, "CLIENT_LIMIT")

    def test_a_drain_ends_all_addresses_and_answers_what_was_accepted_at_each(self):
        daemon = GatedDaemon("--listen=127.0.0.1:0", "--listen=127.0.0.2:0", "--workers", "1", "--inline-limit-us", "0",
                             "--drain-timeout-ms", HOUR)
        found = addresses(daemon)
        with daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
            accepted = [stack.enter_context(Raw(address)) for address in found]
            accepted[0].send(GATHER)
            gate.arrival()
            accepted[1].send(GATHER)
            self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
            daemon.send_signal(signal.SIGTERM)
            for address in found:
                self.wait_until(lambda address=address: self.is_refused(address))
            gate.open()
            for raw in accepted:
                self.assertOutput(raw.reply(), "int32", [1], [2])
        self.assertEqual(daemon.wait(), 0)

    def test_a_restart_has_all_addresses_again(self):
        ports = free_ports(2)
        options = [f"--listen=127.0.0.1:{port}" for port in ports]
        for _ in range(3):
            with Daemon(*options) as daemon:
                self.expect_answers(daemon, "127.0.0.1", "127.0.0.1")
                self.assertEqual([address.port for address in addresses(daemon)], ports)

    def test_an_address_that_is_taken_ends_the_start_and_is_named(self):
        port, = free_ports(1)
        with Daemon() as daemon:
            taken, free = daemon.address, f"127.0.0.1:{port}"
            for order in ((free, taken), (taken, free)):
                with self.subTest(order=order):
                    result = subprocess.run([BINARY, "--log-format", "json", *(f"--listen={address}" for address in order)], env=environment(),
                                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_LIMIT)
                    events = [json.loads(line) for line in result.stderr.splitlines()]
                    self.assertEqual(result.returncode, 1)
                    self.assertEqual([(e["address"], e["reason"]) for e in events if e["event"] == "listen_failed"], [(taken, "Address already in use")])
                    self.assertFalse([e for e in events if e["event"] in ("listening", "ready")])

    def test_an_address_of_listen_for_the_metrics_is_told_from_one_of_another_process(self):
        port, = free_ports(1)
        for listen, metrics in ((f"127.0.0.1:{port}", f"127.0.0.1:{port}"), (f"0.0.0.0:{port}", f"127.0.0.1:{port}")):
            with self.subTest(listen=listen):
                reason = "Address already in use, possibly by another address of this daemon (--listen, --metrics-listen)"
                options = ["--listen", listen, "--metrics-listen", metrics]
                started, checked = (subprocess.run([BINARY, *options, *more], env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                                   timeout=WAIT_LIMIT) for more in ([], ["--check-config"]))
                self.assertIn(f'listen_failed address={metrics} reason="{reason}', started.stderr)
                self.assertIn(f"error    metrics-listen {metrics}: {reason}", checked.stdout)
                self.assertEqual((started.returncode, checked.returncode), (1, 1))
        with Daemon() as daemon:
            result = subprocess.run([BINARY, "--check-config", "--listen", "127.0.0.1:0", "--metrics-listen", daemon.address], env=environment(),
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_LIMIT)
            self.assertIn(f"error    metrics-listen {daemon.address}: Address already in use; if a running daemon uses it, check with --metrics-listen ", result.stdout)
