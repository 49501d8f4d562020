"""Restarts on one listening socket, which the test owns as a service manager does; and what the manager is told."""
import array, collections, json, os, signal, socket, subprocess, tempfile, threading
from daemon import *
from gates import GatedDaemon


def listening(family=socket.AF_INET, kind=socket.SOCK_STREAM, listen=True):
    listener = socket.socket(family, kind)
    listener.bind(("127.0.0.1", 0) if family == socket.AF_INET else "")
    if listen:
        listener.listen(256)
    return listener


class Address:
    """where clients connect to"""

    def __init__(self, listener):
        self.host, self.port = listener.getsockname()


class Clients:
    """Keep-alive connections that ask without retries, and connect again only when a reply closes them."""

    def __init__(self, listener, count=8):
        self.address, self.outcomes, self.ended = Address(listener), collections.Counter(), threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        request = http_request("POST", "/v1/gather", b'{"params":[10,20,30],"indices":[2,0]}')
        while not self.ended.is_set():
            try:
                with Raw(self.address) as raw:
                    closed = False
                    while not closed and not self.ended.is_set():
                        raw.send(request)
                        reply = raw.reply()
                        self.outcomes[reply and reply.status] += 1
                        closed = reply is None or reply.headers.get("Connection") == "close"
            except (AssertionError, OSError) as e:
                self.outcomes[repr(e)] += 1

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(WAIT_LIMIT)
        return self.outcomes


class InheritedSocket(unittest.TestCase):
    def restart(self, overlap):
        """how requests end while daemons serve the same socket in turn"""
        with listening() as listener:
            daemon = GatedDaemon(listener=listener)
            clients = Clients(listener)
            try:
                for _ in range(4):
                    seen = sum(clients.outcomes.values())
                    following = GatedDaemon(listener=listener) if overlap else None
                    with daemon.clock.stopped():  # the daemon does not give up a connection whose thread is slow
                        daemon.stop()
                    daemon = following or GatedDaemon(listener=listener)
                    eventually(lambda: sum(clients.outcomes.values()) >= seen + 100, "replies after a restart")
            finally:
                outcomes = clients.end()
            daemon.stop()
        self.assertGreater(outcomes[200], 400)
        self.assertEqual(set(outcomes), {200}, outcomes)

    def test_a_restart_without_overlap_loses_no_request(self):
        self.restart(overlap=False)

    def test_a_restart_with_overlap_loses_no_request(self):
        self.restart(overlap=True)

    def test_an_inherited_socket_wins_over_the_option(self):
        with listening() as listener, Daemon(listener=listener, listen="127.0.0.1:1,127.0.0.2:1") as daemon:
            self.assertEqual(daemon.port, listener.getsockname()[1])
            daemon.wait_log(lambda e: e["event"] == "ready")
            self.assertEqual([e["socket"] for e in daemon.events() if e["event"] == "listening"], ["inherited"])

    def test_several_sockets_are_inherited_together(self):
        with listening() as first, listening() as second, Daemon(listener=[first, second], listen="127.0.0.1:1") as daemon:
            daemon.wait_log(lambda e: e["event"] == "ready")
            self.assertEqual([(e["address"].rsplit(":", 1)[1], e["socket"]) for e in daemon.events() if e["event"] == "listening"],
                             [(str(listener.getsockname()[1]), "inherited") for listener in (first, second)])
            for listener in (first, second):
                with Raw(Address(listener)) as raw:
                    raw.send(http_request("POST", "/v1/gather", b'{"params":[10,20,30],"indices":[2,0]}'))
                    self.assertEqual(raw.reply().status, 200)

    def test_a_socket_for_another_process_is_left_alone(self):
        with Daemon(env={"LISTEN_PID": "1", "LISTEN_FDS": "1"}) as daemon:
            self.assertNotIn("socket", next(e for e in daemon.events() if e["event"] == "listening"))

    def test_what_cannot_be_listened_on_is_refused(self):
        cases = ((listening(listen=False), 1, "descriptor 3 is not a listening stream socket"),
                 (listening(kind=socket.SOCK_DGRAM, listen=False), 1, "descriptor 3 is not a listening stream socket"),
                 (listening(family=socket.AF_UNIX), 1, "is an abstract Unix socket, which has no permissions; expected a path"),
                 (listening(), 2, "descriptor 4 is not"),
                 (listening(), 17, "LISTEN_FDS is not a number of listening sockets from 1 to 16"),
                 (listening(), "many", "LISTEN_FDS is not a number of listening sockets from 1 to 16"))
        for listener, count, reason in cases:
            with self.subTest(reason=reason, count=count), listener:
                result = subprocess.run(passing(listener, [BINARY, "--listen", "127.0.0.1:0"], count), pass_fds=[listener.fileno()],
                                        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_LIMIT, env=environment())
                self.assertEqual(result.returncode, 1)
                self.assertIn("listen_failed", result.stderr)
                self.assertIn(reason, result.stderr)


class ServiceManager(unittest.TestCase):
    """the other end of NOTIFY_SOCKET"""

    def expect(self, address, name):
        """address: where the manager listens, name: as NOTIFY_SOCKET says it; both with the place of a folder"""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, tempfile.TemporaryDirectory() as folder:
            manager.bind(address.format(folder))
            manager.settimeout(WAIT_LIMIT)
            with GatedDaemon("--data-dir", folder, env={"NOTIFY_SOCKET": name.format(folder)}) as daemon:
                self.assertEqual(manager.recv(4096), b"READY=1")
                daemon.send_signal(signal.SIGHUP)
                self.assertRegex(manager.recv(4096), rb"^RELOADING=1\nMONOTONIC_USEC=\d+$")
                self.assertEqual(manager.recv(4096), b"READY=1")
                daemon.sweep()  # after which the daemon has looked several times whether it has read the folder: the manager is told once
                daemon.stop()
                self.assertEqual(manager.recv(4096), b"STOPPING=1")

    def test_the_manager_is_told_about_start_reload_and_stop(self):
        self.expect("{}/notify", "{}/notify")

    def test_its_socket_may_be_in_the_abstract_namespace(self):
        self.expect("\0{}", "@{}")

    def test_a_manager_that_is_gone_is_ignored(self):
        for name in ("/nonexistent/notify", "@tensord-test-nobody", "", "relative", "/" + 200 * "x"):
            with Daemon(env={"NOTIFY_SOCKET": name}):
                pass


class StoredIndex(unittest.TestCase):
    """the index of the keys in X.keys.npy, stored beside that file"""

    KEYS = 65536
    INDEX = ".words.keys.npy.index.tensord"

    def setUp(self):
        self.folder = temporary_folder()
        keys = array.array("q", range(10**12, 10**12 + 7 * self.KEYS, 7))
        for name, descr, raw in (("words.npy", "<i4", array.array("i", range(self.KEYS)).tobytes()),
                                 ("words.keys.npy", "<i8", keys.tobytes())):
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(npy(descr, [self.KEYS], raw))

    def look_up(self, client):
        body = {"params": {"ref": "words"}, "queries": [10**12 + 7 * 4711, 1], "missing": "zero"}
        return client.request("POST", "/v1/lookup", json.dumps(body).encode(), {"Content-Type": JSON})

    def events(self):
        """what a daemon logs about indices before it is ready; it finds the row of a key"""
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            reply = self.look_up(client)
            self.assertEqual(reply.json()["outputs"]["output"]["data"], [4711, 0])
            return [(event["event"], event.get("reason")) for event in daemon.events() if event["event"].startswith("key_index")]

    def test_only_the_first_start_builds_it(self):
        self.assertEqual(self.events(), [("key_index_stored", None)])
        before = os.stat(os.path.join(self.folder, self.INDEX))
        self.assertEqual(self.events(), [])
        self.assertEqual(os.stat(os.path.join(self.folder, self.INDEX)).st_ino, before.st_ino)

    def test_a_damaged_one_is_replaced(self):
        self.events()
        with open(os.path.join(self.folder, self.INDEX), "r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 1]))
        self.assertEqual(self.events(), [("key_index_refused", "it is damaged"), ("key_index_stored", None)])
        self.assertEqual(self.events(), [])

    def test_one_that_is_truncated_while_it_is_served_is_built_again(self):
        self.events()
        with Daemon("--data-dir", self.folder) as daemon, Client(daemon) as client:
            os.truncate(os.path.join(self.folder, self.INDEX), 5000)
            self.assertEqual(self.look_up(client).status, 503)
            eventually(lambda: self.look_up(client).status == 200, "that the index is built again")
        self.assertEqual(self.events(), [])
