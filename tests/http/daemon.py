"""Shared by all tests of the daemon: the process, HTTP clients, and tensors as bytes.  Standard library only.

Daemon      starts tensord on a free port, collects its log, stops it and checks how it ended.
HttpTest    a unittest.TestCase with a shared daemon and assertions about replies.
Raw         a socket that sends exact bytes and reads one HTTP reply at a time.
safetensors, read_safetensors, npy, tensor, raw_strings   writers and readers of the formats.

Environment: TD_TEST_BINARY is the path of the daemon, TD_TEST_SEED seeds the random tests; with TD_TEST_TLS=1 all daemons have a certificate, and Client and Raw use TLS.
"""
import atexit, base64, concurrent.futures, contextlib, http.client, json, os, random, shutil, signal, socket, ssl, struct, subprocess, sys
import tempfile, threading, time, unittest

import holdings

HERE = os.path.dirname(os.path.abspath(__file__))
BINARY = os.environ.get("TD_TEST_BINARY") or os.path.join(HERE, "..", "..", "build", "tensord")
SEED = int(os.environ.get("TD_TEST_SEED", "1"))
TLS = os.environ.get("TD_TEST_TLS") == "1"
WAIT_LIMIT = 300  # seconds; ends a test that waits for what does not happen
POLL_S = 0.005  # between two looks at a state that no event announces
JSON, SAFETENSORS, PROBLEM = "application/json", "application/vnd.safetensors", "application/problem+json"


def temporary_folder(prefix="tensord-test-"):
    """the path of an empty folder, which is removed after the tests"""
    path = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


_claims = []


def free_ports(count):
    """Ports that stay free while a daemon restarts: the kernel assigns none of them to others. No other process of the
    tests gets one of them as long as this one runs."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first, last = map(int, file.read().split())
    candidates = [port for port in range(10240, 65536) if not first <= port <= last] or list(range(10240, 65536))
    random.SystemRandom().shuffle(candidates)
    found = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            probe, claim, port = stack.enter_context(socket.socket()), socket.socket(socket.AF_UNIX), candidates.pop()
            try:
                claim.bind(f"\0tensord-test-port-{port}")  # an abstract name: one process has it, and no file is left
                probe.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
            _claims.append(claim)
            found.append(port)
    return found


# ---------------------------------------------------------------- the process
def environment(**extra):
    """the environment of a daemon: that of the tests, without options of tensord"""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TENSORD_")}
    env.update(extra)
    return env


def passing(listeners, command, count=None):
    """the command with these sockets, or this one, as the descriptors from 3 on, as a service manager passes them"""
    launch = ("import fcntl, os, sys; held = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 64) for fd in sys.argv[1].split(',')]; "
              "[os.dup2(fd, 3 + i) for i, fd in enumerate(held)]; [os.close(fd) for fd in held]; "
              "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2]); os.execv(sys.argv[3], sys.argv[3:])")
    listeners = listeners if isinstance(listeners, (list, tuple)) else [listeners]
    numbers = ",".join(str(listener.fileno()) for listener in listeners)
    return [sys.executable, "-c", launch, numbers, str(len(listeners) if count is None else count), *command]


def with_default(name, value, options):
    """the options, and this one unless they have it: an option may be given only once, and --listen adds an address"""
    given = any(option == name or option.startswith(name + "=") for option in options)
    return options if given else (name, value, *options)


class Daemon:
    """A running tensord.  The caller passes further options."""
    failures = []  # errors of daemons that ended, for the runner to report

    def __init__(self, *options, listen="127.0.0.1:0", env=None, log_format="json", listener=None, tls=None):
        """listen: where, unless the options say it; None: as `env` says.  tls: the context of its clients, if the options have a
        certificate"""
        if TLS and not tls and "--tls-certificate" not in options:
            import certificates  # which imports this module
            options, tls = (*certificates.shared().options(), *options), certificates.shared().context()
        self.tls = tls
        command = [self.program(), *(with_default("--listen", listen, options) if listen else options)]
        if "--log-format" not in options and log_format:
            command += ["--log-format", log_format]
        inherited = listener if isinstance(listener, (list, tuple)) else [listener] if listener else []
        if inherited:
            command = passing(inherited, command)
        self.options, self.lines, self.stopped, self.stopping = options, [], False, False
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env=environment(**(env or {})),
                                        pass_fds=[passed.fileno() for passed in inherited])
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.address = None
        start = self.wait_log(lambda e: e.get("event") == "listening", what="a line with the event listening")
        self.address = start["address"]
        self.socket_path = self.address[len("unix:"):] if self.address.startswith("unix:") else None
        host, port = ("localhost", 0) if self.socket_path else self.address.rsplit(":", 1)
        self.host = host.strip("[]").replace("0.0.0.0", "127.0.0.1")  # which the certificates have
        self.port = int(port)
        self.at_start = holdings.empty(self)  # None: the end of the test does not compare it

    def program(self):
        return BINARY

    def _read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def events(self):
        """the log so far, as objects; lines that are not JSON objects are skipped"""
        with self.changed:
            lines = list(self.lines)
        out = []
        for line in lines:
            try:
                event = json.loads(line)
                if isinstance(event, dict):
                    out.append(event)
            except ValueError:
                pass
        return out

    def wait_log(self, wanted, what="a log line", seconds=WAIT_LIMIT):
        """waits for the first log event that `wanted` accepts"""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events():
                if wanted(event):
                    return event
            ended = self.process.poll() is not None and not self.reader.is_alive()
            if ended or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"{what} was not logged; the log ends with:\n" + self.tail())
            with self.changed:
                self.changed.wait(0.05)

    def tail(self, n=15):
        with self.changed:
            return "\n".join(self.lines[-n:])

    def alive(self):
        return self.process.poll() is None

    def send_signal(self, number=signal.SIGTERM):
        self.stopping = self.stopping or number in (signal.SIGTERM, signal.SIGINT)
        self.process.send_signal(number)

    def wait(self, seconds=WAIT_LIMIT):
        """waits for the process to end; its exit status"""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the daemon did not end within {seconds:.0f} s; its log ends with:\n{self.tail()}") from None
        self.reader.join(WAIT_LIMIT)
        self.process.stderr.close()
        self.stopped = True
        return status

    def stop(self, number=signal.SIGTERM):
        """stops the daemon; raises if it had crashed, failed, or printed a sanitizer report"""
        if self.stopped:
            return
        died = not self.alive()
        if not died:
            self.send_signal(number)
        status = self.wait(WAIT_LIMIT + 30)  # longer than the drain timeout
        report = [l for l in self.lines if "Sanitizer" in l or "runtime error:" in l]
        if died or status != 0 or report:
            raise AssertionError(f"the daemon {'had ended' if died else 'ended'} with status {status}"
                                 f" (options {' '.join(self.options) or 'none'}); its log ends with:\n" + self.tail(60))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            try:
                if self.at_start and self.alive():
                    holdings.expect_given_back(self, self.at_start, WAIT_LIMIT)
            finally:
                self.stop()
        else:  # the test has failed already: report how the daemon ended, without hiding that error
            try:
                self.stop()
            except AssertionError as e:
                Daemon.failures.append(str(e))


_shared = {}


def shared(*options, gated=False):
    """one daemon per set of options, started once per test file"""
    daemon = _shared.get((options, gated))
    if daemon is None or not daemon.alive():
        import gates  # which imports this module
        daemon = _shared[options, gated] = (gates.GatedDaemon if gated else Daemon)(*options)
    return daemon


def stop_shared():
    """stops the shared daemons; a list of their errors"""
    bad = []
    for daemon in _shared.values():
        try:
            daemon.stop()
        except AssertionError as e:
            bad.append(str(e))
    _shared.clear()
    bad += Daemon.failures
    Daemon.failures = []
    return bad


# ---------------------------------------------------------------- tensors
SAFETENSORS_NAMES = {"bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8",
                     "uint16": "U16", "uint32": "U32", "uint64": "U64", "float16": "F16", "bfloat16": "BF16",
                     "float32": "F32", "float64": "F64", "complex64": "C64"}
API_NAMES = {v: k for k, v in SAFETENSORS_NAMES.items()}
FORMATS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H",
           "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d"}
SIZES = {"bfloat16": 2, "complex64": 8, "complex128": 16, **{k: struct.calcsize("<" + v) for k, v in FORMATS.items()}}
NPY_NAMES = {"bool": "|b1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint8": "|u1",
             "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "float16": "<f2", "float32": "<f4",
             "float64": "<f8", "complex64": "<c8", "complex128": "<c16"}


def pack(dtype, values):
    """values -> little-endian bytes"""
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def raw_strings(values):
    """byte strings -> the bytes of the base64 form: for each string its length, then its bytes"""
    return b"".join(struct.pack("<I", len(v)) + v for v in values)


def tensor(dtype, shape, raw):
    """a JSON tensor with its data in base64"""
    return {"dtype": dtype, "shape": list(shape), "base64": base64.b64encode(raw).decode()}


def safetensors(tensors, metadata=None, pad=0):
    """{name: (dtype, shape, bytes)} -> a file"""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": SAFETENSORS_NAMES.get(dtype, dtype), "shape": list(shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + data


def safetensors_file(header_text, data=b""):
    """a file with this header, valid or not"""
    header_text = header_text if isinstance(header_text, bytes) else header_text.encode()
    return struct.pack("<Q", len(header_text)) + header_text + data


def read_safetensors(body):
    """a file -> ({name: (dtype, shape, bytes)}, metadata), strictly"""
    length = struct.unpack_from("<Q", body)[0]
    header = json.loads(body[8:8 + length].decode("utf-8"))
    data = body[8 + length:]
    metadata = header.pop("__metadata__", {})
    out, covered = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == covered and end <= len(data), f"{name} is at {begin}..{end}, {covered} expected"
        dtype, covered = API_NAMES[entry["dtype"]], end
        count = 1
        for d in entry["shape"]:
            count *= d
        assert end - begin == count * SIZES[dtype], f"{name}: {end - begin} bytes for {entry['shape']} of {dtype}"
        out[name] = (dtype, entry["shape"], data[begin:end])
    assert covered == len(data), f"{len(data) - covered} bytes belong to no tensor"
    return out, metadata


def npy(descr, shape, raw, fortran=False, version=1):
    """a .npy file"""
    descr = NPY_NAMES.get(descr, descr)
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}"
    size = 10 if version == 1 else 12
    text += " " * (-(size + len(text) + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin-1") + raw


# ---------------------------------------------------------------- clients
def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("duplicate members: " + ", ".join(k for k, _ in pairs))
    return out


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def type(self):
        return (self.headers.get("Content-Type") or "").split(";")[0].strip().lower()

    def json(self):
        """the body, strictly: UTF-8, no NaN tokens, no duplicate members"""
        return json.loads(self.body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_duplicates)

    def __str__(self):
        return f"{self.status} {self.type} {self.body[:400]!r}"


class Client:
    """a keep-alive connection"""

    def __init__(self, daemon, timeout=WAIT_LIMIT):
        self.connection = holdings.connection_to(daemon, timeout)

    def send(self, method, path, body=None, headers=None):
        self.connection.request(method, path, body, headers or {})

    def receive(self):
        response = self.connection.getresponse()
        return Reply(response.status, response.headers, response.read())

    def request(self, method, path, body=None, headers=None):
        """dicts are sent as JSON"""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
            headers.setdefault("Content-Type", JSON)
        self.send(method, path, body, headers)
        return self.receive()

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def metric(daemon, name):
    """the value of a sample in GET /metrics; name has the labels, if there are any"""
    with Client(daemon) as client:
        text = client.request("GET", "/metrics").body.decode()
    return float(next(line for line in text.splitlines() if line.startswith(name + " ")).rpartition(" ")[2])


def eventually(condition, what="what was waited for"):
    """waits until the condition is true, and returns its value; the limit only ends a hang"""
    deadline = time.monotonic() + WAIT_LIMIT
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen")
        time.sleep(POLL_S)
    return value


def in_threads(n, work):
    """what work(0), work(1), ... return, each in a thread of its own; raises what the first failing one raised"""
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(work, range(n)))


def replies_of(sockets):
    """the replies on these sockets, read concurrently; None where the connection was closed instead"""
    def one(raw):
        try:
            return raw.reply()
        except AssertionError:
            return None
    with concurrent.futures.ThreadPoolExecutor(len(sockets)) as pool:
        return list(pool.map(one, sockets))


def kernel_socket(local, remote):
    """(state, timer, bytes received but not read, bytes sent but not acknowledged) of a connected socket of this machine,
    from sock_diag(7); None if there is none"""
    sock_diag, request, by_family, listening, any_cookie = 4, 1, 20, 10, b"\xff" * 8
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    hosts = b"".join(socket.inet_pton(family, address[0]).ljust(16, b"\0") for address in (local, remote))
    query = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 0xffffffff) + struct.pack("!HH", local[1], remote[1]) \
        + hosts + struct.pack("=I", 0) + any_cookie
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, sock_diag) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(query), by_family, request, 0, 0) + query)
        answer = netlink.recv(65536)
    if struct.unpack_from("=H", answer, 4)[0] != by_family:  # an error
        return None
    state, timer, unread, unacknowledged = struct.unpack_from("=BBx52xII", answer, 17)
    return None if state == listening else (state, timer, unread, unacknowledged)


class Raw:
    """a socket, for requests that a client library would not send"""

    def __init__(self, daemon, timeout=WAIT_LIMIT, source=None):
        """source: the address to connect from, as another client would"""
        if getattr(daemon, "socket_path", None):
            self.socket, self.seen = socket.socket(socket.AF_UNIX), bytearray()
            self.socket.settimeout(timeout)
            self.socket.connect(daemon.socket_path)
            return
        self.socket = socket.create_connection((daemon.host, daemon.port), timeout, (source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.own = self.other = self.socket.getsockname()
        with contextlib.suppress(OSError):  # reset by the server already
            self.other = self.socket.getpeername()
        tls = getattr(daemon, "tls", None)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=daemon.host)
        self.seen = bytearray()

    def send(self, data):
        """False if the server has closed the connection"""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def wait_until_read(self):
        """waits until the daemon has read all that was sent, or has closed the connection"""
        def is_read():
            here, there = kernel_socket(self.own, self.other), kernel_socket(self.other, self.own)
            return not here or not there or (here[3] == 0 and there[2] == 0)
        eventually(is_read, "that the daemon reads what was sent")

    def wait_until_end_arrives(self):
        """after a shutdown: waits until the daemon's kernel knows of it"""
        close_wait = 8
        eventually(lambda: (kernel_socket(self.other, self.own) or [close_wait])[0] == close_wait, "that the end of the stream arrives")

    def wait_until_full(self):
        """waits until the daemon's kernel has filled the client's buffer: it only asks whether there is room again"""
        asking = 4
        eventually(lambda: kernel_socket(self.other, self.own)[1] == asking, "that the client's buffer is full")

    def is_silent(self):
        """True if neither a byte nor the end of the stream has arrived since the last reply"""
        timeout = self.socket.gettimeout()
        self.socket.setblocking(False)
        try:
            self.more()
            return False
        except (BlockingIOError, ssl.SSLWantReadError):
            return not self.seen
        finally:
            self.socket.settimeout(timeout)

    def more(self):
        """reads the bytes that have arrived; False at the end of the stream"""
        try:
            data = self.socket.recv(1 << 18)
        except (ConnectionResetError, BrokenPipeError):
            data = b""
        self.seen += data
        return bool(data)

    def reply(self, head=False):
        """the next reply, or None when the connection was closed instead"""
        while b"\r\n\r\n" not in self.seen:
            if not self.more():
                if self.seen:
                    raise AssertionError(f"the connection was closed inside a reply: {bytes(self.seen[:200])!r}")
                return None
        end = self.seen.index(b"\r\n\r\n") + 4
        top = self.take(end).decode("latin-1")
        lines = top.split("\r\n")
        version, status = lines[0].split(" ")[:2]
        if version not in ("HTTP/1.1", "HTTP/1.0"):
            raise AssertionError(f"not a reply: {top[:200]!r}")
        headers = http.client.HTTPMessage()
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            headers[name] = value.strip()
        length = 0 if head or status.startswith("1") or status in ("204", "304") else headers.get("Content-Length")
        if length is None:
            return Reply(int(status), headers, self.rest())
        while len(self.seen) < int(length):
            if not self.more():
                raise AssertionError(f"the connection was closed inside a body, after {len(self.seen)} bytes: {top[:300]!r}")
        return Reply(int(status), headers, self.take(int(length)))

    def take(self, n):
        """the next n bytes; a large body is moved, not copied, so that other threads need not wait"""
        if n == len(self.seen):
            out, self.seen = self.seen, bytearray()
            return out
        out = bytes(memoryview(self.seen)[:n])
        del self.seen[:n]
        return out

    def rest(self):
        """all bytes until the server closes"""
        while self.more():
            pass
        return self.take(len(self.seen))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def http_request(method, path, body=b"", headers=()):
    """the bytes of a valid request"""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, *headers]).encode() + b"\r\n\r\n" + body


def ring(factors, factor):
    """an einsum of that many square matrices whose labels form a ring, so that every order is expensive"""
    labels = [chr(ord("a") + i) for i in range(factors)]
    terms = [labels[i] + labels[(i + 1) % factors] for i in range(factors)]
    return {"equation": ",".join(terms) + "->", "inputs": [factor] * factors}


# ---------------------------------------------------------------- assertions
def slug(code):
    return code.lower().replace("_", "-")


class HttpTest(unittest.TestCase):
    """A test against a daemon that all tests with the same `options` share; with `gated` it has gates (gates.py)."""
    options = ()
    gated = False
    maxDiff = 2000

    def setUp(self):
        self.daemon = shared(*self.options, gated=self.gated)
        self.addCleanup(self._expect_given_back, self.daemon, holdings.ask(self.daemon, WAIT_LIMIT))
        self.addCleanup(self._still_alive)

    def _expect_given_back(self, daemon, before):
        """after all other clean-ups: what the test has taken is given back"""
        if before and daemon.alive():
            holdings.expect_given_back(daemon, before, WAIT_LIMIT)

    def _still_alive(self):
        if not self.daemon.alive():
            self.fail("the daemon has ended; its log ends with:\n" + self.daemon.tail(60))

    def request(self, method, path, body=None, headers=None):
        with Client(self.daemon) as client:
            return client.request(method, path, body, headers)

    def get(self, path, headers=None):
        return self.request("GET", path, None, headers)

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def wait_until(self, condition, what="what was waited for"):
        return eventually(condition, what)

    def assertStatus(self, reply, status):
        self.assertEqual(reply.status, status, str(reply))

    def assertProblem(self, reply, http_status, code, **members):
        """checks for a complete problem document with this status, code and members, and returns it"""
        self.assertEqual(reply.status, http_status, str(reply))
        problem = self.assertAnyProblem(reply)
        self.assertEqual(problem["code"], code, str(reply))
        for name, value in members.items():
            self.assertEqual(problem.get(name), value, f"member {name} of {reply}")
        return problem

    def assertAnyProblem(self, reply):
        self.assertEqual(reply.type, PROBLEM, str(reply))
        problem = reply.json()
        self.assertEqual(problem.get("status"), reply.status, str(reply))
        self.assertIsInstance(problem.get("code"), str, str(reply))
        self.assertEqual(problem.get("type"), "/problems/" + slug(problem["code"]))
        for member in ("title", "detail", "request_id"):
            self.assertTrue(isinstance(problem.get(member), str) and problem[member], f"no {member}: {reply}")
        self.assertEqual(reply.headers.get("X-Request-Id"), problem["request_id"])
        return problem

    def assertOutput(self, reply, dtype, shape, data):
        """checks for {"output": T} with exactly this dtype, shape and data (as JSON values)"""
        self.assertEqual(reply.status, 200, str(reply))
        self.assertEqual(reply.type, JSON)
        output = reply.json()["output"]
        self.assertEqual((output["dtype"], output["shape"], output.get("data", output.get("base64"))),
                         (dtype, list(shape), data))

    def assertBinary(self, reply, dtype, shape, raw):
        self.assertEqual(reply.status, 200, str(reply))
        self.assertEqual(reply.type, SAFETENSORS)
        tensors, metadata = read_safetensors(reply.body)
        self.assertEqual(list(tensors), ["output"])
        got = tensors["output"]
        self.assertEqual(got[:2], (dtype, list(shape)))
        self.assertTrue(got[2] == raw, f"bytes differ: {got[2][:64]!r}..., {raw[:64]!r}... expected")
        return metadata

    def assertServes(self, client=None):
        """checks that the daemon replies to a valid request"""
        body = {"params": [10, 20, 30], "indices": [2, 0]}
        reply = client.post("/v1/gather", body) if client else self.post("/v1/gather", body)
        self.assertOutput(reply, "int32", [2], [30, 10])
