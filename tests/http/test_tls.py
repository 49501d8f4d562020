"""TLS: certificates, their reload, certificates of clients, and clients that do not finish a handshake."""
import base64, contextlib, json, os, random, re, signal, socket, ssl, subprocess, time, warnings
import certificates
from daemon import *
from gates import GatedDaemon

GATHER = {"params": [1, 2, 3], "indices": [2, 0]}
HELLO = bytes.fromhex("1603010200010001fc0303")  # the beginning of a ClientHello


def are_asleep(pid, name):
    """whether all threads of this name wait for something, rather than run or want to"""
    states = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
            before, after = file.read().rsplit(")", 1)
        if before.endswith("(" + name):
            states.append(after.split()[0])
    if not states:
        raise AssertionError(f"there is no thread {name}")
    return set(states) == {"S"}


def run(*arguments):
    """a daemon that is expected to exit"""
    return subprocess.run([BINARY, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_LIMIT, env=environment())


def served_by(daemon, context):
    """the name in the certificate that a new connection sees"""
    with socket.create_connection((daemon.host, daemon.port), WAIT_LIMIT) as plain, context.wrap_socket(plain, server_hostname="localhost") as session:
        return dict(pair[0] for pair in session.getpeercert()["subject"])["commonName"]


class TlsTest(HttpTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = certificates.Folder().authority("authority").sign("server", "server")
        super().setUpClass()

    def start(self, *options, client=None, kind=Daemon, **arguments):
        return kind(*self.folder.options(**arguments), *options, tls=self.folder.context(client))

    def reload(self, daemon, event="certificate_read"):
        seen = len(daemon.events())
        daemon.send_signal(signal.SIGHUP)
        return daemon.wait_log(lambda e: e.get("event") == event and daemon.events().index(e) >= seen)


class Requests(TlsTest):
    def test_requests_on_a_connection(self):
        with self.start() as daemon, Client(daemon) as client:
            for _ in range(3):
                self.assertEqual(client.post("/v1/gather", GATHER).json()["output"]["data"], [3, 1])
            self.assertProblem(client.post("/v1/gather", {"params": [1], "indices": [5]}), 422, "INDEX_OUT_OF_BOUNDS")

    def test_large_bodies_both_ways(self):
        data = random.Random(SEED).randbytes(20 << 20)
        with self.start() as daemon, Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/t", npy("|u1", [len(data)], data), {"Content-Type": "application/x-npy"}), 201)
            self.assertEqual(client.request("GET", "/v1/tensors/t", None, {"Accept": "application/x-npy"}).body[-len(data):], data)

    def test_replies_of_all_sizes_arrive_whole(self):
        # The server holds the records of a reply until it has several. A reply must never wait for the next one.
        data = random.Random(SEED).randbytes(3 << 20)
        lengths = [1, 100, 16383, 16384, 16385, 65536, 98304, 3 << 20]
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.start() as daemon:
                daemon.tls.minimum_version = daemon.tls.maximum_version = version
                with Client(daemon) as client:
                    for length in lengths:
                        self.assertStatus(client.request("PUT", f"/v1/tensors/t{length}", npy("|u1", [length], data[:length]), {"Content-Type": "application/x-npy"}), 201)
                    for length in lengths:
                        self.assertStatus(client.request("HEAD", f"/v1/tensors/t{length}", None, {"Accept": "application/x-npy"}), 200)
                        self.assertEqual(client.request("GET", f"/v1/tensors/t{length}", None, {"Accept": "application/x-npy"}).body[-length:], data[:length])

    def test_only_tls_1_2_and_1_3(self):
        with self.start() as daemon:
            for version, works in ((ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_1, False)):
                context = self.folder.context()
                context.set_ciphers("DEFAULT@SECLEVEL=0")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    context.minimum_version = context.maximum_version = version
                if works:
                    self.assertEqual(served_by(daemon, context), "server")
                else:
                    with self.assertRaises(ssl.SSLError):
                        served_by(daemon, context)

    def test_http_1_1_is_negotiated(self):
        context = self.folder.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        with self.start() as daemon, socket.create_connection((daemon.host, daemon.port), WAIT_LIMIT) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as session:
                self.assertEqual(session.selected_alpn_protocol(), "http/1.1")

    def test_each_address_has_the_same_tls(self):
        with self.start("--listen=127.0.0.1:0", "--listen=127.0.0.2:0") as daemon:
            daemon.wait_log(lambda e: e["event"] == "ready")
            addresses = [event["address"].split(":") for event in daemon.events() if event["event"] == "listening"]
            self.assertEqual([host for host, _ in addresses], ["127.0.0.1", "127.0.0.2"])
            for host, port in addresses:
                with socket.create_connection((host, int(port)), WAIT_LIMIT) as plain, \
                        self.folder.context().wrap_socket(plain, server_hostname="localhost") as session:
                    session.sendall(http_request("GET", "/healthz"))
                    self.assertTrue(session.recv(100).startswith(b"HTTP/1.1 200"), host)

    def test_an_rsa_key(self):
        self.folder.sign("rsa", "server", rsa=True)
        with self.start(name="rsa") as daemon:
            self.assertEqual(served_by(daemon, self.folder.context()), "rsa")

    def test_metrics_have_the_certificate_and_the_handshakes(self):
        with self.start() as daemon, Client(daemon) as client:
            with contextlib.suppress(OSError), socket.create_connection((daemon.host, daemon.port), WAIT_LIMIT) as plain:
                plain.sendall(HELLO[:3] + bytes(100))
                self.assertEqual(plain.recv(100)[:1], b"\x15")  # an alert
            text = client.request("GET", "/metrics").body.decode()
            expires = float(re.search(r"(?m)^tensord_tls_certificate_expires_seconds (\S+)$", text)[1])
            self.assertAlmostEqual(expires - time.time(), 30 * 86400, delta=3600)
            self.assertIn('\ntensord_tls_handshakes_total{result="complete"} ', text)
            self.assertIn('\ntensord_tls_handshakes_total{result="failed"} 1\n', text)

    def test_plain_http_is_told_to_use_https(self):
        with self.start("--access-log", "on") as daemon:
            for request in http_request("GET", "/healthz"), http_request("PUT", "/v1/tensors/t", b"[" + b"1," * 20000 + b"1]"):
                with Raw(Other(daemon, None)) as plain:
                    plain.send(request)
                    reply = plain.rest()
                    self.assertTrue(reply.startswith(b"HTTP/1.1 400 "), reply)
                    self.assertIn(b'"detail":"this is a port for HTTPS, and the request is HTTP; write https:// in the URL"', reply)
                event = daemon.wait_log(lambda event: "HTTPS" in event.get("detail", ""))
                self.assertEqual((event["client"], event["code"]), ("127.0.0.1", "MALFORMED_REQUEST"))

    def test_the_drain_answers_what_is_running(self):
        with self.start("--workers", "1", "--inline-limit-us", "0", "--drain-timeout-ms", "3600000", kind=GatedDaemon) as daemon:
            with daemon.gates.closed("compute") as gate, Raw(daemon) as raw:
                raw.send(http_request("POST", "/v1/gather", json.dumps(GATHER).encode()))
                gate.arrival()
                daemon.send_signal(signal.SIGTERM)
                daemon.wait_log(lambda e: e["event"] == "draining")
                gate.open()
                reply = raw.reply()
                self.assertStatus(reply, 200)
                self.assertEqual(reply.headers["Connection"].lower(), "close")
            self.assertEqual(daemon.wait(WAIT_LIMIT), 0)


class Files(TlsTest):
    def assertRefused(self, options, *words):
        for check in ((), ("--check-config",)):
            result = run("--listen", "127.0.0.1:0", *check, *options)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result)
            for word in words:
                self.assertIn(word, result.stderr)

    def test_wrong_files_are_refused_with_option_and_file(self):
        folder, server, key = self.folder, self.folder.file("server.pem"), self.folder.file("server.key")
        folder.key("other")
        for name, content in (("empty", b""), ("noise", random.Random(SEED).randbytes(1000)), ("nul", b"\0" * 100),
                              ("cut", open(server, "rb").read()[:300]), ("large", b"x" * ((1 << 20) + 1))):
            with open(folder.file(name), "wb") as file:
                file.write(content)
            path = folder.file(name)
            self.assertRefused(["--tls-certificate", path, "--tls-key", key], "tls-certificate: ", path)
            self.assertRefused(["--tls-certificate", server, "--tls-key", path], "tls-key: ", path)
            self.assertRefused([*folder.options(), "--tls-client-ca", path], "tls-client-ca: ", path)
        self.assertRefused(["--tls-certificate", server, "--tls-key", folder.file("other.key")], "tls-key: ", "other.key is not the key of --tls-certificate")
        certificates.openssl("ec", "-in", key, "-aes128", "-passout", "pass:secret", "-out", folder.file("locked.key"))
        self.assertRefused(["--tls-certificate", server, "--tls-key", folder.file("locked.key")], "tls-key: ", "locked.key", "has no unencrypted PEM key")
        self.assertRefused(["--tls-certificate", "/nonexistent", "--tls-key", key], "--tls-certificate: cannot read /nonexistent: No such file")
        self.assertRefused(["--tls-certificate", folder.path, "--tls-key", key], "tls-certificate: ", "not a regular file")

    def test_the_options_need_each_other(self):
        server, key = self.folder.file("server.pem"), self.folder.file("server.key")
        self.assertRefused(["--tls-certificate", server], "tls-certificate: it is given, but --tls-key is missing; HTTPS needs both")
        self.assertRefused(["--tls-key", key], "tls-key: it is given, but --tls-certificate is missing; HTTPS needs both")
        self.assertRefused(["--tls-client-ca", server], "tls-client-ca: it is given, but --tls-certificate and --tls-key are missing; HTTPS needs both")

    def test_a_certificate_that_expires_and_an_exposed_key_are_warnings(self):
        self.folder.sign("soon", "server", days=3)
        os.chmod(self.folder.file("soon.key"), 0o644)
        with self.start(name="soon") as daemon:
            events = {event["event"]: event for event in daemon.events()}
            self.assertEqual((events["certificate_expires"]["level"], events["certificate_expires"]["reason"]), ("warn", "it expires within two weeks"))
            self.assertEqual((events["key_exposed"]["level"], events["key_exposed"]["file"]), ("warn", self.folder.file("soon.key")))
        with self.start() as daemon:
            self.assertFalse({event["event"] for event in daemon.events()} & {"certificate_expires", "key_exposed"})

    def test_sighup_reads_the_certificate_again(self):
        folder = certificates.Folder().authority("authority").sign("server", "server")
        context = folder.context()
        with Daemon(*folder.options(), tls=context) as daemon, Client(daemon) as before:
            self.assertStatus(before.post("/v1/gather", GATHER), 200)
            self.assertEqual(served_by(daemon, context), "server")
            folder.sign("renewed", "server")
            for end in (".pem", ".key"):
                os.replace(folder.file("renewed" + end), folder.file("server" + end))
            self.reload(daemon)
            self.assertEqual(served_by(daemon, context), "renewed")
            self.assertStatus(before.post("/v1/gather", GATHER), 200)  # the open connection goes on
            with open(folder.file("server.pem"), "w", encoding="ascii") as file:
                file.write("half a file")
            kept = self.reload(daemon, "certificate_kept")
            self.assertEqual(kept["level"], "error")
            self.assertIn("tls-certificate: " + folder.file("server.pem"), kept["reason"])
            self.assertEqual(served_by(daemon, context), "renewed")
            self.assertStatus(before.post("/v1/gather", GATHER), 200)


def elements(der):
    """the elements of the content of a DER sequence"""
    while der:
        begin, length = 2, der[1]
        if length > 0x7f:
            begin, length = 2 + length % 0x80, int.from_bytes(der[2:2 + length % 0x80], "big")
        yield der[:begin + length]
        der = der[begin + length:]


def expecting_early_data(pem):
    """OpenSSL's file of a session, changed so that OpenSSL believes that the server accepts early data"""
    first, *lines, last = pem.splitlines()
    der = base64.b64decode("".join(lines))
    limit, content = b"\xaf\x04\x02\x02\x40\x00", der[4:]
    items = [item for item in elements(content) if item[0] != limit[0]] + [limit]
    content = b"".join(sorted(items, key=lambda item: max(item[0], 0xa0)))
    der = b"\x30\x82" + len(content).to_bytes(2, "big") + content
    return "\n".join([first, base64.encodebytes(der).decode().strip(), last, ""])


class Tickets(TlsTest):
    def connect(self, daemon, context, session=None):
        """Returns (whether the session was resumed, a session for a later connection, status) of a request on a new connection."""
        with socket.create_connection((daemon.host, daemon.port), WAIT_LIMIT) as plain, \
                context.wrap_socket(plain, server_hostname="localhost", session=session) as connection:
            connection.sendall(http_request("POST", "/v1/gather", json.dumps(GATHER).encode(), ["Connection: close"]))
            reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            return connection.session_reused, connection.session, int(reply.split()[1])

    def test_a_client_resumes_its_session(self):
        with self.start() as daemon, Client(daemon) as client:
            resumed, session, status = self.connect(daemon, daemon.tls)
            self.assertEqual((resumed, status), (False, 200))
            for _ in range(3):
                resumed, session, status = self.connect(daemon, daemon.tls, session)
                self.assertEqual((resumed, status), (True, 200))
            self.assertIn("\ntensord_tls_resumed_total 3\n", client.request("GET", "/metrics").body.decode())

    def test_a_reload_makes_tickets_useless(self):
        with self.start() as daemon:
            _, session, _ = self.connect(daemon, daemon.tls)
            self.reload(daemon)
            resumed, session, status = self.connect(daemon, daemon.tls, session)
            self.assertEqual((resumed, status), (False, 200))
            self.assertEqual(self.connect(daemon, daemon.tls, session)[::2], (True, 200))

    def test_another_server_does_not_accept_a_ticket(self):
        with self.start() as first, self.start() as second:
            context = self.folder.context()
            _, session, _ = self.connect(first, context)
            self.assertEqual(self.connect(second, context, session)[::2], (False, 200))

    def test_early_data_is_not_accepted(self):
        session, early = self.folder.file("session"), self.folder.file("early")
        request = http_request("GET", "/healthz", headers=["Connection: close"])

        def connect(*options):
            return subprocess.run(["openssl", "s_client", "-connect", f"{daemon.host}:{daemon.port}", "-ign_eof", *options],
                                  input=request, check=True, capture_output=True, timeout=WAIT_LIMIT).stdout.decode()
        with self.start() as daemon, Client(daemon) as client:
            connect("-sess_out", session)
            with open(session, encoding="ascii") as file:
                text = expecting_early_data(file.read())
            with open(session, "w", encoding="ascii") as file:
                file.write(text)
            with open(early, "wb") as file:
                file.write(http_request("PUT", "/v1/tensors/early", b"[1]"))
            shown = connect("-sess_in", session, "-early_data", early)
            for expected in "Reused, TLSv1.3", "Early data was rejected", "HTTP/1.1 200":
                self.assertIn(expected, shown)
            self.assertStatus(client.request("GET", "/v1/tensors/early"), 404)

    def test_tls_1_2_has_no_tickets(self):
        with self.start() as daemon:
            context = self.folder.context()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            _, session, status = self.connect(daemon, context)
            self.assertEqual((session.has_ticket, status), (False, 200))
            self.assertEqual(self.connect(daemon, context, session)[::2], (False, 200))


class Clients(TlsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder.authority("stranger").sign("good", "client").sign("forged", "client", "stranger").sign("late", "client", days=-1)
        cls.folder.sign("misused", "server")

    def assertForbidden(self, daemon, client, version, words):
        context = self.folder.context(client)
        context.maximum_version = version
        with Client(Other(daemon, context)) as connection:
            problem = self.assertProblem(connection.post("/v1/gather", GATHER), 403, "FORBIDDEN")
            self.assertIn(words, problem["detail"])
            for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"):
                self.assertStatus(connection.request("GET", path), 200)

    def test_requests_need_a_certificate_that_the_authority_has_signed(self):
        with self.start(client_ca="authority", client="good") as daemon, Client(daemon) as client:
            self.assertStatus(client.post("/v1/gather", GATHER), 200)
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with self.subTest(version=version):
                    self.assertForbidden(daemon, None, version, "the client has no certificate")
                    self.assertForbidden(daemon, "forged", version, "issuer is unknown")
                    self.assertForbidden(daemon, "late", version, "expired")
                    self.assertForbidden(daemon, "misused", version, "intended purpose")

    def test_a_resumed_session_has_the_certificate_of_the_first(self):
        with self.start(client_ca="authority", client="good") as daemon:
            daemon.at_start = None
            for client, expected in (("good", 200), (None, 403), ("forged", 403)):
                context, session = self.folder.context(client), None
                for resumes in (False, True, True):
                    with self.subTest(client=client, resumes=resumes):
                        resumed, session, status = Tickets.connect(self, daemon, context, session)
                        self.assertEqual((resumed, status), (resumes, expected))

    def test_check_health_needs_none(self):
        with self.start(client_ca="authority", client="good") as daemon:
            result = run("--check-health", "--listen", f"127.0.0.1:{daemon.port}", *self.folder.options())
            self.assertEqual((result.returncode, result.stdout), (0, f"tensord: 127.0.0.1:{daemon.port} is alive\n"))
            result = run("--check-health", "--listen", f"127.0.0.1:{daemon.port}")
            self.assertEqual(result.returncode, 1, result)

    def test_without_an_authority_none_is_asked_for(self):
        with self.start(client="forged") as daemon, Client(daemon) as client:
            self.assertStatus(client.post("/v1/gather", GATHER), 200)

    def test_tokens_are_needed_as_well(self):
        token = "a-token-of-the-tests"
        path = self.folder.file("tokens")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"read {token}\n")
        os.chmod(path, 0o600)
        bearer = {"Authorization": f"Bearer {token}"}
        with self.start("--token-file", path, client_ca="authority", client="good") as daemon:
            daemon.at_start = None  # the question for it would need the token
            with Client(daemon) as client:
                self.assertProblem(client.post("/v1/gather", GATHER), 401, "UNAUTHENTICATED")
                self.assertStatus(client.post("/v1/gather", GATHER, bearer), 200)
            with Client(Other(daemon, self.folder.context())) as client:
                self.assertProblem(client.post("/v1/gather", GATHER, bearer), 403, "FORBIDDEN")

    def test_a_reload_of_the_authority_concerns_open_connections(self):
        folder = certificates.Folder().authority("authority").authority("stranger").sign("server", "server")
        folder.sign("good", "client").sign("forged", "client", "stranger")
        folder.authority("trusted")
        os.replace(folder.file("authority.pem"), folder.file("trusted.pem"))
        with Daemon(*folder.options(client_ca="trusted"), tls=folder.context("good", "trusted")) as daemon, Client(daemon) as client:
            self.assertStatus(client.post("/v1/gather", GATHER), 200)
            os.replace(folder.file("stranger.pem"), folder.file("trusted.pem"))
            self.reload(daemon)
            self.assertProblem(client.post("/v1/gather", GATHER), 403, "FORBIDDEN")
            daemon.at_start = None  # the question for it would be refused


class Other:
    """the same daemon for a client with another context"""

    def __init__(self, daemon, tls):
        self.host, self.port, self.tls = daemon.host, daemon.port, tls


class Session:
    """a client's session over a Raw without TLS, which sends pieces of so many bytes, each after the daemon has read the one before"""

    def __init__(self, context, plain, piece):
        self.received, self.sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.inner = context.wrap_bio(self.received, self.sent, server_hostname="localhost")
        self.plain, self.piece = plain, piece

    def step(self, call, *arguments):
        """(whether the received bytes sufficed, the result)"""
        try:
            done, result = True, call(*arguments)
        except ssl.SSLWantReadError:
            done, result = False, None
        while data := self.sent.read(self.piece):
            self.plain.send(data)
            self.plain.wait_until_read()
        return done, result

    def finish(self, call, *arguments):
        while True:
            done, result = self.step(call, *arguments)
            if done:
                return result
            data = self.plain.socket.recv(1 << 16)
            if not data:
                raise AssertionError("the connection has ended")
            self.received.write(data)


class Hostile(TlsTest):
    def connect(self, daemon):
        return socket.create_connection((daemon.host, daemon.port), WAIT_LIMIT)

    def wait_until_processed(self, daemon, raw):
        """until the daemon has read all bytes, and has done what they ask for"""
        raw.wait_until_read()
        for name in "handshakes", "io":
            self.wait_until(lambda: are_asleep(daemon.process.pid, name), f"the end of the work of {name}")

    def test_half_a_handshake_takes_no_processor_time_and_ends(self):
        with self.start("--header-timeout-ms", "600000", "--idle-timeout-ms", "1200000", kind=GatedDaemon) as daemon:
            for sent in (b"", HELLO[:1], HELLO[:5], HELLO, HELLO + bytes(100)):
                with Raw(Other(daemon, None)) as plain:
                    plain.send(sent)
                    with Client(daemon) as client:
                        self.wait_until(lambda: client.request("GET", "/readyz").json()["open"]["connections"] == 2)
                    self.wait_until_processed(daemon, plain)
                    daemon.sweep()
                    daemon.clock.advance(1201)
                    self.assertEqual(plain.rest(), b"", sent)

    def test_slow_headers_end_without_bytes_that_are_no_records(self):
        with self.start(*self.SLOW, kind=GatedDaemon) as daemon, Raw(daemon) as raw:
            raw.send(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
            raw.wait_until_read()
            daemon.sweep()
            daemon.clock.advance(601)
            with contextlib.suppress(ssl.SSLEOFError):
                self.assertEqual(raw.rest(), b"")

    SLOW = ("--header-timeout-ms", "600000", "--idle-timeout-ms", "0")

    def test_a_connection_that_waits_is_not_ended_by_the_time_for_headers(self):
        for is_seen in False, True:
            with self.subTest(handshake_is_seen=is_seen), self.start(*self.SLOW, kind=GatedDaemon) as daemon, Raw(Other(daemon, None)) as plain:
                session = Session(self.folder.context(), plain, piece=1 << 16)
                session.step(session.inner.do_handshake)
                self.wait_until_processed(daemon, plain)
                if is_seen:
                    daemon.sweep()
                session.finish(session.inner.do_handshake)
                self.wait_until_processed(daemon, plain)  # the client's part of a handshake ends before the daemon's
                daemon.sweep()
                daemon.clock.advance(1201)
                daemon.sweep()
                session.finish(session.inner.write, http_request("GET", "/healthz"))
                self.assertEqual(session.finish(session.inner.read, 12), b"HTTP/1.1 200")

    def test_bytes_that_are_no_handshake(self):
        generator = random.Random(SEED)
        with self.start() as daemon, Client(daemon) as client:
            for i in range(300):
                noise = generator.randbytes(generator.randrange(1, 600))
                if i % 2:
                    noise = HELLO + noise
                with contextlib.suppress(OSError), self.connect(daemon) as plain:
                    plain.sendall(noise)
                    if i % 3:
                        plain.shutdown(socket.SHUT_WR)
                        plain.recv(1000)
            self.assertStatus(client.post("/v1/gather", GATHER), 200)

    def test_a_handshake_that_fails_while_its_socket_is_being_added_is_ended_once(self):
        with self.start(kind=GatedDaemon) as daemon:
            with daemon.gates.closed("watch") as gate, self.connect(daemon) as plain:
                plain.sendall(HELLO[:3] + bytes(100))
                gate.arrival()  # the I/O thread still holds the file
                self.assertEqual(plain.recv(1), b"\x15", "the alert")
                self.wait_until(lambda: are_asleep(daemon.process.pid, "handshakes"), "the end of the thread's work")
            with Client(daemon) as client:
                self.assertStatus(client.post("/v1/gather", GATHER), 200)

    def test_a_handshake_in_pieces(self):
        for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
            context = self.folder.context()
            context.minimum_version = context.maximum_version = version
            with self.subTest(version=version), self.start() as daemon, Raw(Other(daemon, None)) as plain:
                session = Session(context, plain, piece=1)
                session.finish(session.inner.do_handshake)
                session.finish(session.inner.write, http_request("GET", "/healthz"))
                self.assertEqual(session.finish(session.inner.read, 12), b"HTTP/1.1 200")

    def test_silent_handshakes_make_room(self):
        limit = 40
        options = ("--connection-limit", str(limit), "--client-connections", str(limit))
        # The clock stands: a handshake is ended when it has taken as long as headers may.
        with self.start(*options, kind=GatedDaemon) as daemon, daemon.clock.stopped(), contextlib.ExitStack() as stack:
            silent = [stack.enter_context(Raw(Other(daemon, None))) for _ in range(limit)]
            for plain in silent:
                plain.send(HELLO)
            for plain in silent:
                plain.wait_until_read()
            with Client(daemon) as client:  # restricted: health is answered
                self.assertStatus(client.request("GET", "/healthz"), 200)
            with Client(daemon) as client:
                self.assertProblem(client.post("/v1/gather", GATHER), 503, "CONNECTION_LIMIT", limit=limit)

    def test_the_stop_ends_handshakes(self):
        with self.start() as daemon, Raw(Other(daemon, None)) as plain:
            plain.send(HELLO)
            with Client(daemon) as client:
                self.wait_until(lambda: client.request("GET", "/readyz").json()["open"]["connections"] == 2)
            plain.wait_until_read()
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(WAIT_LIMIT), 0)
