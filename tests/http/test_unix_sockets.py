"""Unix sockets: --listen unix:/PATH."""
import json, os, random, signal, socket, stat, subprocess
import certificates
from daemon import *
from gates import GatedDaemon

BODY = {"params": [1, 2], "indices": [1]}
GATHER = http_request("POST", "/v1/gather", json.dumps(BODY).encode())
EVIL = {"Host": "evil.example", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
USER = f"uid:{os.geteuid()}"


def listening():
    """options for a socket in a new folder"""
    return "--listen", "unix:" + os.path.join(temporary_folder(), "tensord.sock")


def run(*arguments):
    """a daemon that is expected to exit"""
    return subprocess.run([BINARY, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_LIMIT, env=environment())


class Tcp:
    """the TCP address of a daemon whose first address is a Unix socket"""

    def __init__(self, daemon):
        daemon.wait_log(lambda e: e["event"] == "ready")
        address = [e["address"] for e in daemon.events() if e["event"] == "listening"][1]
        self.host, port = address.rsplit(":", 1)
        self.port, self.tls = int(port), daemon.tls


class Requests(HttpTest):
    def test_a_socket_instead_of_an_address(self):
        with Daemon(*listening()) as daemon, Client(daemon) as client:
            self.assertOutput(client.post("/v1/gather", BODY), "int32", [1], [2])
            self.assertStatus(client.request("GET", "/readyz"), 200)

    def test_a_socket_beside_an_address(self):
        with Daemon(*listening(), "--listen", "127.0.0.1:0") as daemon:
            for address in (daemon, Tcp(daemon)):
                with Client(address) as client:
                    self.assertOutput(client.post("/v1/gather", BODY), "int32", [1], [2])

    def test_the_file_and_the_environment_name_sockets(self):
        option, address = listening()
        file = os.path.join(temporary_folder(), "tensord.json")
        with open(file, "w", encoding="utf-8") as f:
            json.dump({"listen": [address, "127.0.0.1:0"], "socket-mode": "0600"}, f)
        for env in ({"TENSORD_CONFIG": file}, {"TENSORD_LISTEN": f"{address}, 127.0.0.1:0", "TENSORD_SOCKET_MODE": "600"}):
            with Daemon(listen=None, env=env) as daemon, Client(Tcp(daemon)) as client:
                self.assertEqual(daemon.address, address)
                self.assertEqual(stat.S_IMODE(os.stat(daemon.socket_path).st_mode), 0o600)
                self.assertStatus(client.request("GET", "/healthz"), 200)

    def test_large_bodies_both_ways(self):
        data = random.Random(SEED).randbytes(20 << 20)
        with Daemon(*listening()) as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/t", npy("|u1", [len(data)], data), {"Content-Type": "application/x-npy"}), 201)
            reply = client.request("GET", "/v1/tensors/t", None, {"Accept": "application/x-npy"})
            self.assertTrue(reply.body.endswith(data))

    def test_a_refusal_can_be_read_although_the_body_is_still_sent(self):
        with Daemon(*listening(), "--max-body", "1024") as daemon, Raw(daemon) as raw:
            raw.send(http_request("POST", "/v1/gather", bytes(8 << 20)))
            self.assertProblem(raw.reply(), 413, "PAYLOAD_TOO_LARGE")

    def test_a_malformed_request_is_refused(self):
        with Daemon(*listening()) as daemon, Raw(daemon) as raw:
            raw.send(b"GET /readyz HTTP/1.1\r\n\r\n")
            reply = raw.reply()
            self.assertEqual((reply.status, reply.json()["code"]), (400, "MALFORMED_REQUEST"))

    def test_check_health_asks_the_socket(self):
        with Daemon(*listening()) as daemon:
            result = run("--check-health", "--listen", daemon.address)
            self.assertEqual((result.stdout, result.returncode), (f"tensord: {daemon.address} is alive\n", 0))
        result = run("--check-health", "--listen", daemon.address)
        self.assertEqual((result.stdout, result.returncode), (f"tensord: {daemon.address} is not alive: No such file or directory\n", 1))


class Clients(HttpTest):
    def test_the_client_in_the_log_is_the_user(self):
        with Daemon(*listening(), "--access-log", "on") as daemon, Client(daemon) as client:
            client.request("GET", "/healthz", None, {"X-Forwarded-For": "192.0.2.7"})
            event = daemon.wait_log(lambda e: e["event"] == "request")
            self.assertEqual((event["client"], event.get("forwarded_for")), (USER, None))

    def test_limits_apply_to_the_user(self):
        with Daemon(*listening(), "--listen", "127.0.0.1:0", "--client-connections", "1") as daemon:
            with Raw(daemon) as first, Raw(daemon) as second, Raw(Tcp(daemon)) as other:
                for raw in (first, second, other):
                    raw.send(GATHER)
                self.assertStatus(first.reply(), 200)
                self.assertProblem(second.reply(), 429, "CLIENT_LIMIT")
                self.assertStatus(other.reply(), 200)

    def test_a_user_can_be_a_trusted_proxy(self):
        with Daemon(*listening(), "--access-log", "on", "--trusted-proxy", USER) as daemon, Client(daemon) as client:
            client.request("GET", "/healthz", None, {"X-Forwarded-For": "192.0.2.7"})
            event = daemon.wait_log(lambda e: e["event"] == "request")
            self.assertEqual((event["client"], event.get("forwarded_for")), (USER, "192.0.2.7"))

    def test_a_user_id_that_is_not_a_number_is_refused(self):
        result = run("--trusted-proxy", "uid:www-data")
        self.assertEqual(result.returncode, 2)
        self.assertIn("'uid:www-data' is not an address or prefix like 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32; "
                      "the bits after a prefix must be 0. A user of a Unix socket is written as uid:33", result.stderr)


class Access(HttpTest):
    def status(self, daemon, headers):
        with Client(daemon) as client:
            return client.request("GET", "/v1/tensors", None, headers).status

    def test_host_and_origin_are_not_checked(self):
        with Daemon(*listening(), "--listen", "127.0.0.1:0", "--allow-host", "tensors.example") as daemon:
            self.assertEqual(self.status(daemon, EVIL), 200)
            self.assertEqual(self.status(Tcp(daemon), EVIL), 403)

    def test_they_are_checked_in_requests_that_a_trusted_proxy_forwards(self):
        with Daemon(*listening(), "--trusted-proxy", USER) as daemon:
            self.assertEqual(self.status(daemon, EVIL), 403)
            self.assertEqual(self.status(daemon, {"Host": "tensors.example", "Origin": "https://tensors.example"}), 200)

    def test_tokens_are_needed(self):
        tokens = os.path.join(temporary_folder(), "tokens")
        with open(tokens, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("read 0123456789abcdef0123456789abcdef\n")
        with Daemon(*listening(), "--token-file", tokens) as daemon:
            daemon.at_start = None  # it does not say what it holds without a token
            self.assertEqual(self.status(daemon, {}), 401)
            self.assertEqual(self.status(daemon, {"Authorization": "Bearer 0123456789abcdef0123456789abcdef"}), 200)

    def test_the_socket_has_no_tls_and_needs_no_certificate(self):
        folder = certificates.Folder().authority("authority").sign("server", "server").sign("client", "client")
        options = folder.options(client_ca="authority")
        with Daemon(*options, *listening(), "--listen", "127.0.0.1:0", tls=folder.context("client")) as daemon:
            self.assertEqual(self.status(daemon, {}), 200)
            self.assertEqual(self.status(Tcp(daemon), {}), 200)
            self.assertEqual(run(*options, "--check-health", "--listen", daemon.address).returncode, 0)
            without = Tcp(daemon)
            without.tls = folder.context()
            self.assertEqual(self.status(without, {}), 403)

    def test_the_mode_is_that_of_the_option(self):
        for options, mode in (((), 0o660), (("--socket-mode", "0606"), 0o606)):
            with Daemon(*listening(), *options) as daemon:
                self.assertEqual(stat.S_IMODE(os.stat(daemon.socket_path).st_mode), mode)


class Files(HttpTest):
    def refusal(self, address):
        result = run("--log-format", "json", "--listen", address)
        self.assertEqual(result.returncode, 1)
        return next((e["address"], e["reason"]) for e in map(json.loads, result.stderr.splitlines()) if e["event"] == "listen_failed")

    def test_the_file_is_removed_at_the_end_and_stays_during_a_reload(self):
        with Daemon(*listening()) as daemon, Client(daemon) as client:
            inode = os.stat(daemon.socket_path).st_ino
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_log(lambda e: e["event"] == "ready")
            self.assertStatus(client.request("GET", "/readyz"), 200)
            self.assertEqual(os.stat(daemon.socket_path).st_ino, inode)
        self.assertFalse(os.path.exists(daemon.socket_path))

    def test_a_file_left_by_a_crash_is_replaced(self):
        options = listening()
        daemon = Daemon(*options)
        daemon.process.kill()
        daemon.wait()
        self.assertTrue(stat.S_ISSOCK(os.stat(daemon.socket_path).st_mode))
        with Daemon(*options) as following, Client(following) as client:
            self.assertOutput(client.post("/v1/gather", BODY), "int32", [1], [2])

    def test_a_second_daemon_does_not_start_and_leaves_the_first_one_alone(self):
        with Daemon(*listening()) as daemon:
            self.assertEqual(self.refusal(daemon.address), (daemon.address, "Address already in use"))
            checked = run("--check-config", "--listen", daemon.address)
            self.assertIn(f"error    listen {daemon.address}: Address already in use; if a running daemon uses it, check with --listen 127.0.0.1:0 ", checked.stdout)
            with Client(daemon) as client:
                self.assertOutput(client.post("/v1/gather", BODY), "int32", [1], [2])

    def test_a_file_that_is_not_a_socket_is_kept(self):
        path = os.path.join(temporary_folder(), "tensord.sock")
        with open(path, "w", encoding="ascii") as file:
            file.write("kept")
        self.assertEqual(self.refusal("unix:" + path), ("unix:" + path, "a file that is not a socket has this path; expected a socket or no file"))
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "kept")

    def test_a_missing_folder_is_an_error(self):
        address = "unix:" + os.path.join(temporary_folder(), "missing", "tensord.sock")
        self.assertEqual(self.refusal(address), (address, "the folder of the socket does not exist; create it first"))

    def test_an_invalid_path_is_an_error(self):
        for address in ("unix:tensord.sock", "unix:@tensord", "unix:/" + 107 * "x"):
            result = run("--listen", address)
            self.assertEqual(result.returncode, 2)
            self.assertIn("or a Unix socket like unix:/run/tensord/tensord.sock, with an absolute path of at most 107 bytes", result.stderr)

    def test_a_check_of_the_configuration_leaves_no_file(self):
        option, address = listening()
        checked = run("--check-config", option, address)
        self.assertIn(f"ok       listen {address}: can be bound\n", checked.stdout)
        self.assertFalse(os.path.exists(address[len("unix:"):]))

    def test_a_successor_starts_while_the_daemon_drains_and_keeps_its_own_file(self):
        options = listening()
        daemon = GatedDaemon(*options, "--workers", "1", "--inline-limit-us", "0", "--drain-timeout-ms", "3600000")
        with daemon.gates.closed("compute") as gate, Raw(daemon) as accepted:
            accepted.send(GATHER)
            gate.arrival()
            daemon.send_signal(signal.SIGTERM)
            self.wait_until(lambda: not os.path.exists(daemon.socket_path))
            with Daemon(*options) as following:
                gate.open()
                self.assertOutput(accepted.reply(), "int32", [1], [2])
                self.assertEqual(daemon.wait(), 0)
                with Client(following) as client:
                    self.assertOutput(client.post("/v1/gather", BODY), "int32", [1], [2])

    def test_a_socket_of_a_service_manager_is_used_and_its_file_is_kept(self):
        path = os.path.join(temporary_folder(), "tensord.sock")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            for _ in range(2):
                with Daemon(listener=listener) as daemon, Client(daemon) as client:
                    self.assertEqual(daemon.socket_path, path)
                    self.assertOutput(client.post("/v1/gather", BODY), "int32", [1], [2])
                self.assertTrue(os.path.exists(path))
