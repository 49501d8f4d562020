"""Start, configuration, resident tables, and stopping without losing a request."""
import contextlib, json, os, re, shutil, signal, socket, subprocess, tempfile, threading
import gates
from daemon import *
from gates import GatedDaemon

BODY = b'{"params":[1,2],"indices":[1]}'
ONE_WORKER = ("--workers", "1", "--inline-limit-us", "0")
HOUR = "3600000"  # a timeout that no machine reaches by being slow


def run(*arguments, env=None, program=BINARY):
    """runs a daemon that is expected to exit"""
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_LIMIT,
                          env=environment(**(env or {})))


def once(daemon, request):
    """the reply on a connection of its own"""
    with Raw(daemon) as raw:
        raw.send(request)
        return raw.reply()


class Folder:
    """a temporary folder with these files"""

    def __init__(self, **files):
        self.path = tempfile.mkdtemp(prefix="tensord-test-")
        for name, content in files.items():
            self.write(name, content)

    def write(self, name, content):
        with open(os.path.join(self.path, name), "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return os.path.join(self.path, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)


class CommandLine(unittest.TestCase):
    def assertRefused(self, result, *words):
        """checks for exit status 2 and one line with the reason"""
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_help_is_text_of_the_options(self):
        result = run("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"(?m)^ *--listen ")

    def test_with_closed_standard_streams_no_file_gets_the_log(self):
        with tempfile.TemporaryDirectory() as folder:
            close = lambda: (os.close(0), os.close(1), os.close(2))
            process = subprocess.Popen([BINARY, "--listen", "127.0.0.1:0", "--data-dir", folder], preexec_fn=close)
            try:
                streams = [f"/proc/{process.pid}/fd/{i}" for i in range(3)]
                lock = os.path.join(folder, ".tensord.lock")
                eventually(lambda: os.path.exists(lock) and os.path.getsize(lock) > 0)
                self.assertEqual([os.readlink(stream) for stream in streams], ["/dev/null"] * 3)
            finally:
                process.terminate()
                process.wait()
            with open(lock) as f:
                self.assertRegex(f.read(), r"^ *\d+\n$")  # the process id

    def test_version_is_one_line(self):
        result = run("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^tensord \d+\.\d+\.\d+\n$")

    def test_v_is_short_for_version(self):
        self.assertEqual(run("-v").stdout, run("--version").stdout)

    def test_an_unknown_variable_is_a_warning_and_those_of_kubernetes_are_not(self):
        links = {"TENSORD_SERVICE_HOST": "10.0.0.1", "TENSORD_PORT": "tcp://10.0.0.1:80", "TENSORD_PORT_80_TCP_ADDR": "10.0.0.1"}
        with Daemon(env={"TENSORD_WROKERS": "3", "TENSORD_SECRET": "hidden", **links}) as daemon:
            warnings = [event for event in daemon.events() if event["event"] == "unknown_variable"]
            self.assertEqual([(event["level"], event["name"], event.get("did_you_mean")) for event in sorted(warnings, key=lambda e: e["name"])],
                             [("warn", "TENSORD_SECRET", None), ("warn", "TENSORD_WROKERS", "TENSORD_WORKERS")])
            self.assertNotIn("hidden", daemon.tail())

    def test_wrong_options_are_one_line_and_status_2(self):
        for arguments, words in ((["--wrokers", "1"], ["--wrokers: unknown option; did you mean --workers?"]), (["--workers", "many"], ["workers", "many"]),
                                 (["--config", "/nonexistent/file"], ["/nonexistent/file"])):
            with self.subTest(arguments=arguments):
                self.assertRefused(run(*arguments), *words)

    def test_invalid_environment_and_files_are_reported_with_their_source(self):
        self.assertRefused(run(env={"TENSORD_WORKERS": "many"}), "TENSORD_WORKERS", "many")
        with Folder() as folder:
            file = folder.write("tensord.json", '{"wrokers": 1}')
            self.assertRefused(run("--config", file), "tensord.json", "wrokers")

    def test_check_config_reports_and_starts_nothing(self):
        with Folder() as folder:
            result = run("--check-config", "--listen", "127.0.0.1:0", "--config", folder.write("good.json", '{"workers": 2, "max-body": "1M", "log-level": "debug"}'))
            self.assertEqual(result.returncode, 0, result)
            self.assertNotIn("listening", result.stderr)
            self.assertRefused(run("--check-config", "--config", folder.write("bad.json", '{"workers": -2}')), "workers")
        self.assertEqual(run("--check-config", "--listen", "127.0.0.1:0").returncode, 0)
        self.assertRefused(run("--check-config", "--workers", "x"), "workers")

    def test_check_config_warns_of_limits_that_cannot_be_reached(self):
        result = run("--check-config", "--listen", "127.0.0.1:0", "--memory-limit", "1000T", "--client-connections", "20", "--connection-limit", "10")
        self.assertEqual(result.returncode, 0, result)
        self.assertRegex(result.stdout, r"warning  memory-limit 1099511627776000: exceeds the memory of this machine, [0-9]+, and cannot be reached")
        self.assertIn("warning  client-connections 20: exceeds --connection-limit, 10, and cannot be reached", result.stdout)
        result = run("--check-config", "--listen", "127.0.0.1:0", "--memory-limit", "2M", "--tensor-quota", "1G")
        self.assertIn("warning  tensor-quota 1073741824: exceeds --memory-limit, 2097152, and cannot be reached", result.stdout)
        self.assertNotIn("cannot be reached", run("--check-config", "--listen", "127.0.0.1:0", "--memory-limit", "2M").stdout)

    def test_an_address_that_no_interface_has_is_explained(self):
        result = run("--check-config", "--listen", "192.0.2.1:0")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("no interface of this machine has that address. Use 0.0.0.0 or [::] for all", result.stdout)

    def assertHealth(self, alive, why, *arguments, env=None, patient=True):
        """patient: the timeout of two seconds is an hour"""
        folder = temporary_folder("gates-")
        gates.Clock(folder)
        result = run("--check-health", *arguments, env={**(env or {}), "TD_TEST_GATES": folder},
                     program=gates.program() if patient else BINARY)
        self.assertEqual((result.returncode, result.stderr), (0 if alive else 1, ""), result)
        self.assertRegex(result.stdout, rf"^tensord: \S+ is {'' if alive else 'not '}alive{why}\n$")

    def test_check_health_asks_the_daemon_at_the_configured_address(self):
        for host in ("127.0.0.1", "0.0.0.0", "[::]", "localhost"):
            with self.subTest(host=host), Daemon("--listen", f"{host}:0") as daemon:
                self.assertHealth(True, "", "--listen", f"{host}:{daemon.port}")
                self.assertHealth(True, "", env={"TENSORD_LISTEN": f"{host}:{daemon.port}"})
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # the port stays without a listener
            self.assertHealth(False, ": Connection refused", "--listen", f"127.0.0.1:{closed.getsockname()[1]}")
        with Daemon() as daemon, socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            other = f"127.0.0.1:{closed.getsockname()[1]}"
            self.assertHealth(True, "", "--listen", daemon.address, "--listen", other)  # the first address is asked
            self.assertHealth(False, ": Connection refused", "--listen", other, "--listen", daemon.address)
        self.assertHealth(False, ": port 0 stands for any free port; give the actual port", "--listen", "127.0.0.1:0")
        self.assertRefused(run("--check-health", "--workers", "x"), "workers")

    def test_check_health_notices_what_is_no_daemon(self):
        for reply, why in ((b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "the status of the reply is not 200"), (b"SSH-2.0-OpenSSH_9.2\r\n", "the reply is not HTTP"),
                           (b"HTTP/1.1", "the server closed the connection without a reply. If the server uses HTTPS, pass --tls-certificate here too"), (None, "the server does not reply")):
            with self.subTest(reply=reply), socket.create_server(("127.0.0.1", 0)) as server:
                address = f"127.0.0.1:{server.getsockname()[1]}"
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    checked = pool.submit(self.assertHealth, False, f": {why}", "--listen", address, patient=reply is not None)
                    connection, _ = server.accept()
                    if reply:
                        connection.recv(1000)
                        connection.sendall(reply)
                        connection.close()
                    checked.result()
                    connection.close()

    def test_check_config_reports_the_address_and_the_data_folder(self):
        with Folder(**{"bad.npy": "no table"}) as folder:
            folder.write("good.npy", npy("int8", (2,), b"ab"))
            with Daemon("--data-dir", folder.path, listen=f"127.0.0.1:{free_ports(1)[0]}") as daemon:
                result = run("--check-config", "--listen", f"127.0.0.1:{daemon.port}", "--data-dir", folder.path)
                self.assertEqual(result.returncode, 1, result)
                for line in (f"error    listen 127.0.0.1:{daemon.port}: Address already in use", "ok       good.npy: 1 tensor",
                             f"warning  data-dir {folder.path}: can be read; locked by process {daemon.process.pid}, ", "warning  bad.npy: skipped: ",
                             "tensord: the server would not start"):
                    self.assertRegex(result.stdout, "(?m)^" + re.escape(line))
            result = run("--check-config", "--listen", f"127.0.0.1:{daemon.port}", "--data-dir", folder.path)
            self.assertEqual((result.returncode, result.stderr), (0, ""), result)
            self.assertRegex(result.stdout, r"(?m)^ok +data-dir .*: can be read and changed$")
            self.assertTrue(result.stdout.endswith("tensord: the configuration is valid\n"))

    def test_print_config_shows_where_each_value_is_from(self):
        with Folder() as folder:
            file = folder.write("options.json", '{"workers": 2, "max-body": "1M", "otlp-header": "api-key=s3cret"}')
            result = run("--config", file, "--print-config", "--log-level=warn", env={"TENSORD_WORKERS": "3"})
            self.assertEqual((result.returncode, result.stderr), (0, ""), result)
            for line in (r"workers +3 +TENSORD_WORKERS", rf"max-body +1M +max-body in {file}", r"log-level +warn +--log-level", r"queue-limit +1024 +default"):
                self.assertRegex(result.stdout, rf"(?m)^{line}$")
            self.assertNotIn("s3cret", result.stdout)
            self.assertRefused(run("--print-config", "--workers", "x"), "workers", "'x'")

    def test_an_open_address_without_tokens_is_a_warning(self):
        with Folder(**{"tokens": "read 0123456789abcdef\n"}) as folder:
            for address, options, warned in (("0.0.0.0:0", (), True), ("[::]:0", ("--read-only",), True), ("127.0.0.1:0", (), False), ("[::1]:0", (), False),
                                             ("0.0.0.0:0", ("--token-file", folder.path + "/tokens"), False)):
                with self.subTest(address=address, options=options):
                    result = run("--check-config", "--listen", address, *options)
                    self.assertEqual((result.returncode, "warning  listen" in result.stdout), (0, warned), result)
                    with Daemon(*options, listen=address) as daemon:
                        daemon.at_start = None if "--token-file" in options else daemon.at_start
                        daemon.wait_log(lambda e: e["event"] == "ready")
                        events = [e for e in daemon.events() if e["event"] == "listening_without_tokens"]
                        self.assertEqual([(e["level"], e["address"]) for e in events], [("warn", daemon.address)] if warned else [])

    def test_check_config_takes_a_passed_socket_for_the_address(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = "127.0.0.1:%d" % listener.getsockname()[1]
            result = subprocess.run(passing(listener, [BINARY, "--check-config", "--listen", address]), capture_output=True, text=True,
                                    timeout=WAIT_LIMIT, env=environment(), pass_fds=[listener.fileno()])
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("the socket passed by the service manager is used", result.stdout)

    def test_an_unavailable_device_fails_the_start_and_check_config(self):
        with Folder(**{"text.so": "no shared object"}) as folder:
            for device, words in (("auto:x", ["--gpu", "'auto:x'", "one of auto, off, cuda[:OPTIONS]"]), ("off:", ["--gpu", "'off:'"]),
                                  ("", ["--gpu", "''"]), ("/nowhere/plugin.so", ["gpu: ", "/nowhere/plugin.so: ", "No such file"]),
                                  (folder.path + "/text.so:x=1", ["gpu: ", "/text.so: "]),
                                  ("refrence", ["gpu: ", "tensord-gpu-refrence.so", "auto, off, cuda, reference or a path", "did you mean reference?"]),
                                  ("reference:launch_us=x", ["gpu: 'reference:launch_us=x'", 'launch_us is "x"', "a number from 0 to 1000000000"]),
                                  ("reference:launch=1", ["gpu: ", '"launch"', "launch_us, copy_mb_per_s"])):
                for check in ((), ("--check-config",)):
                    with self.subTest(device=device, check=check):
                        self.assertRefused(run("--listen", "127.0.0.1:0", "--gpu", device, *check), *words)
        for device in ("auto", "off", "reference", "reference:launch_us=1000"):
            self.assertEqual(run("--check-config", "--listen", "127.0.0.1:0", "--gpu", device).returncode, 0, device)

    def test_values_may_follow_an_equals_sign(self):
        self.assertEqual(run("--check-config", "--listen=127.0.0.1:0", "--workers=2", "--max-body=1M").returncode, 0)

    def limit(self, *options, env=None):
        """the body limit of a daemon with these options"""
        with Daemon(*options, env=env) as daemon, Raw(daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n")
            return raw.reply().json()["limit"]

    def test_the_command_line_wins_over_the_environment_over_the_file(self):
        with Folder() as folder:
            file = folder.write("tensord.json", '{"max-body": 2000}')
            self.assertEqual(self.limit(), 256 << 20)
            self.assertEqual(self.limit("--config", file), 2000)
            self.assertEqual(self.limit(env={"TENSORD_CONFIG": file}), 2000)
            self.assertEqual(self.limit("--config", file, env={"TENSORD_MAX_BODY": "3K"}), 3072)
            self.assertEqual(self.limit("--config", file, "--max-body", "4M", env={"TENSORD_MAX_BODY": "3K"}), 4 << 20)
            self.assertEqual(self.limit("--max-body", "4M", "--config", file), 4 << 20)

    def connection_limit(self, *options):
        """the lowered limit on connections of a daemon that may open 800 files"""
        command = ["sh", "-c", 'ulimit -n 800; exec "$@"', "sh", BINARY, "--listen", "127.0.0.1:0", "--log-format", "json", *options]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
        with process:
            events = (json.loads(line) for line in process.stderr)
            limit = next(event["limit"] for event in events if event["event"] == "connection_limit_lowered")
            process.terminate()
            process.stderr.read()
        self.assertEqual(process.returncode, 0)
        return limit

    def test_the_limit_on_open_files_lowers_that_on_connections(self):
        """each I/O thread needs two more files"""
        options = ("--connection-limit", "2000")
        self.assertEqual(self.connection_limit(*options, "--io-threads", "2") - 20,
                         self.connection_limit(*options, "--io-threads", "12"))

    def test_too_few_open_files_refuse_the_start(self):
        command = ["sh", "-c", 'ulimit -n 100; exec "$@"', "sh", BINARY, "--listen", "127.0.0.1:0"]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_LIMIT, env=environment())
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(result.stderr, r"too_few_files limit=100 needed=\d+ for_connections=64")

    def test_an_occupied_port_is_one_clear_error_and_a_failure(self):
        with Daemon() as daemon:
            result = run("--listen", daemon.address, "--log-level", "error")
            self.assertEqual(result.returncode, 1)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
            self.assertIn(daemon.address, result.stderr)
            self.assertIn("in use", result.stderr)

    def test_a_missing_data_folder_is_a_failure(self):
        result = run("--listen", "127.0.0.1:0", "--data-dir", "/nonexistent/folder", "--log-level", "error")
        self.assertGreater(result.returncode, 0)  # and not a signal
        self.assertIn("/nonexistent/folder", result.stderr)

    def test_a_file_that_may_not_be_read_names_the_user_and_the_source_of_the_option(self):
        with Folder(**{"tokens": "read 0123456789abcdef\n", "tensord.json": "{}"}) as folder:
            program, user = [BINARY], os.getuid()
            if user == 0:  # the folder of the build may be root's alone
                os.chmod(folder.path, 0o755)
                program, user = ["setpriv", "--reuid", "65534", shutil.copy(BINARY, folder.path)], 65534
            os.mkdir(folder.path + "/tables", 0)
            for name in ("tokens", "tensord.json"):
                os.chmod(f"{folder.path}/{name}", 0)
            for options, variables, said in (
                    (["--token-file", "tokens"], {}, "--token-file: cannot read tokens"),
                    ([], {"TENSORD_TOKEN_FILE": folder.path + "/tokens"}, f"TENSORD_TOKEN_FILE: cannot read {folder.path}/tokens"),
                    (["--config", "tensord.json"], {}, "--config: cannot open tensord.json"),
                    (["--data-dir", "tables"], {}, "--data-dir: cannot read the folder 'tables'")):
                with self.subTest(said):
                    result = subprocess.run([*program, "--listen", "127.0.0.1:0", *options], capture_output=True, text=True, cwd=folder.path,
                                            timeout=WAIT_LIMIT, env={**environment(), **variables})
                    self.assertEqual((result.returncode, result.stderr),
                                     (2, f"tensord: {said}: Permission denied: user ID {user} cannot read it; change the owner or mode (chown, chmod) of the path or its parent folder\n"))

    def test_an_unknown_host_is_a_failure(self):
        host = "x" * 64 + ".invalid"  # no server of names is asked for so long a part
        result = run("--listen", f"{host}:0", "--log-level", "error")
        self.assertGreater(result.returncode, 0)  # and not a signal
        self.assertIn(host, result.stderr)

    def test_the_daemon_listens_on_ipv6(self):
        try:
            socket.socket(socket.AF_INET6).bind(("::1", 0))
        except OSError as e:
            self.skipTest(f"no IPv6 here: {e}")
        with Daemon(listen="[::1]:0") as daemon:
            self.assertTrue(daemon.address.startswith("[::1]:"), daemon.address)
            daemon.host = "::1"
            with Client(daemon) as client:
                self.assertEqual(client.request("GET", "/healthz").status, 200)


class Log(unittest.TestCase):
    def request(self, daemon, headers=None):
        with Client(daemon) as client:
            client.post("/v1/gather", {"params": [1], "indices": [0]}, headers)
            client.post("/v1/gather", {"params": [1], "indices": [0], "device": "gpu"}, {"X-Request-Id": "failing"})

    def test_json_lines_are_objects_with_time_level_and_event(self):
        with Daemon("--log-level", "debug") as daemon:
            self.request(daemon)
            daemon.stop()
            self.assertIn("failing", [event.get("request_id") for event in daemon.events()])
            self.assertEqual(len(daemon.events()), len(daemon.lines), daemon.tail())
            for event in daemon.events():
                self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
                self.assertIn(event["level"], ("error", "warn", "info", "debug"))
                self.assertIsInstance(event["event"], str)

    def test_text_lines_begin_with_time_level_and_event(self):
        process = subprocess.Popen([BINARY, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                                   env=environment())
        try:
            line = process.stderr.readline()
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\S+Z info listening .*address=127\.0\.0\.1:\d+")
        finally:
            process.terminate()
            rest = process.stderr.read()
            process.stderr.close()
            self.assertEqual(process.wait(WAIT_LIMIT), 0, rest)
        for line in rest.splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\S+Z (error|warn|info|debug) \S+")

    def test_requests_are_logged_at_debug_and_server_errors_at_warn(self):
        for level, ordinary, failing in (("debug", 1, 1), ("info", 0, 1)):
            with Daemon("--log-level", level) as daemon:
                self.request(daemon, {"X-Request-Id": "ordinary"})
                daemon.stop()
                found = {name: [e for e in daemon.events() if e.get("request_id") == name] for name in ("ordinary", "failing")}
                self.assertEqual((len(found["ordinary"]), len(found["failing"])), (ordinary, failing), level)
                self.assertEqual(found["failing"][0]["level"], "warn")
                self.assertEqual(found["failing"][0]["status"], 503)
                if ordinary:
                    event = found["ordinary"][0]
                    self.assertEqual((event["level"], event["op"], event["status"]), ("debug", "gather", 200))


class Tables(unittest.TestCase):
    F32 = pack("float32", [1, 2, 3, 4, 5, 6])

    def listed(self, folder):
        with Daemon("--data-dir", folder.path) as daemon, Client(daemon) as client:
            reply = client.request("GET", "/v1/tensors")
            self.assertEqual(reply.status, 200)
            tables = {t["name"]: (t["dtype"], t["shape"], t["bytes"]) for t in reply.json()["tensors"]}
            for name, listed in tables.items():
                for path in ("/v1/tensors/" + name, "/v1/tensors/" + name.replace(":", "%3A")):
                    one = client.request("GET", path)
                    self.assertEqual(one.status, 200, str(one))
                    doc = one.json()
                    self.assertEqual((doc["name"], (doc["dtype"], doc["shape"], doc["bytes"])), (name, listed))
            return tables, [e for e in daemon.events() if e.get("level") == "warn"]

    def test_tables_are_listed_with_dtype_shape_and_bytes(self):
        with Folder() as folder:
            folder.write("table.npy", npy("float32", (3, 2), self.F32))
            folder.write("scalar.npy", npy("int64", (), pack("int64", [-1])))
            folder.write("empty.npy", npy("float64", (0, 4), b""))
            folder.write("v2.npy", npy("int8", (4,), b"abcd", version=2))
            folder.write("model.safetensors", safetensors({"w.weight": ("bfloat16", (2, 2), bytes(8)), "b": ("bool", (3,), b"\0\1\0")}))
            tables, warnings = self.listed(folder)
            self.assertEqual(tables, {"table": ("float32", [3, 2], 24), "scalar": ("int64", [], 8), "empty": ("float64", [0, 4], 0),
                                      "v2": ("int8", [4], 4), "model:w.weight": ("bfloat16", [2, 2], 8), "model:b": ("bool", [3], 3)})
            self.assertEqual(warnings, [])

    def test_files_that_cannot_be_tables_are_skipped_and_logged(self):
        good = npy("float32", (3, 2), self.F32)
        bad = {"truncated.npy": good[:-1], "header.npy": good[:40], "magic.npy": b"\x93NUMPX" + good[6:], "empty.npy": b"", "garbage.npy": b"x" * 500,
               "tail.npy": good + b"x", "object.npy": npy("|O", (1,), bytes(8)), "huge.npy": npy("float32", (1 << 62, 4), self.F32), "version.npy": good[:6] + b"\x09" + good[7:],
               "negative.npy": npy("float32", (-1, 2), b""), "rank.npy": npy("int8", [1] * 17, b"x"), "unicode.npy": npy("<U3", (2,), bytes(24)),
               "length.npy": good[:8] + b"\xff\xff" + good[10:], "void.safetensors": b"", "short.safetensors": b"\x01\0\0",
               "long.safetensors": struct.pack("<Q", 1 << 62) + b"{}", "text.safetensors": b"hello, world, not a tensor",
               "hole.safetensors": safetensors_file('{"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}}', b"ab"),
               "cut.safetensors": safetensors({"a": ("int8", (100,), bytes(100))})[:-1], ".hidden.npy": good, "sp ace.npy": good, "e\u0301.npy": good}
        with Folder() as folder:
            for name, content in bad.items():
                folder.write(name, content)
            folder.write("good.npy", good)
            folder.write("notes.txt", "not a table")
            os.mkdir(os.path.join(folder.path, "folder.npy"))
            os.symlink("/nonexistent", os.path.join(folder.path, "dangling.npy"))
            tables, warnings = self.listed(folder)
            self.assertEqual(set(tables) - {"tail"}, {"good"})
            said = json.dumps(warnings, ensure_ascii=False)
            for name in set(bad) - {".hidden.npy", "tail.npy"}:
                self.assertIn(name, said)
            self.assertNotIn("notes.txt", said)

    def test_a_table_may_be_reached_through_a_symbolic_link(self):
        with Folder() as real, Folder() as folder:
            os.symlink(real.write("x.npy", npy("float32", (3, 2), self.F32)), os.path.join(folder.path, "linked.npy"))
            tables, _ = self.listed(folder)
            self.assertEqual(tables, {"linked": ("float32", [3, 2], 24)})


class Stopping(HttpTest):
    def open_log(self, daemon):
        return daemon.wait_log(lambda e: e.get("event") == "draining", "a line with the event draining")

    def refuses_connections(self, daemon):
        try:
            Raw(daemon).close()
            return False
        except ConnectionRefusedError:
            return True

    def drain(self, daemon, number=signal.SIGTERM):
        """signals the daemon, and waits until the drain timeout runs"""
        daemon.send_signal(number)
        self.wait_until(lambda: self.refuses_connections(daemon))
        with daemon.gates.closed("sweep") as gate:
            gate.arrival()

    def phases(self, daemon):
        return once(daemon, http_request("GET", "/readyz")).json()["connections"]

    def send_queued(self, daemon, gate, sockets, request):
        """sends the request on each socket: the first waits at the gate, the others in the queue"""
        sockets[0].send(request)
        gate.arrival()
        for raw in sockets[1:]:
            raw.send(request)
        self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == len(sockets) - 1)

    def test_an_idle_daemon_stops_at_once_with_status_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Daemon("--drain-timeout-ms", HOUR) as daemon, Raw(daemon) as idle, Raw(daemon) as half:
                idle.send(http_request("GET", "/healthz"))
                self.assertStatus(idle.reply(), 200)
                half.send(b"POST /v1/ga")
                half.wait_until_read()
                daemon.stop(number)
                self.assertNotIn("drain_cut_short", [event["event"] for event in daemon.events()])

    def test_a_signal_during_the_start_ends_it_with_status_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            def signal_itself():  # before it is the daemon: the signal stays pending
                signal.pthread_sigmask(signal.SIG_BLOCK, [number])
                os.kill(os.getpid(), number)
            done = subprocess.run([BINARY, "--listen", "127.0.0.1:0", "--log-format", "json"], preexec_fn=signal_itself,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_LIMIT, env=environment())
            events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("stopped", events)
            self.assertNotIn("ready", events)

    def test_accepted_requests_are_answered_before_the_end(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon = GatedDaemon(*ONE_WORKER, "--drain-timeout-ms", HOUR)
            with daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
                accepted = [stack.enter_context(Raw(daemon)) for _ in range(4)]
                self.send_queued(daemon, gate, accepted, http_request("POST", "/v1/gather", BODY))
                self.drain(daemon, number)
                self.assertTrue(all(raw.is_silent() for raw in accepted))
                gate.open()
                for reply in replies_of(accepted):
                    self.assertOutput(reply, "int32", [1], [2])
            self.assertEqual(daemon.wait(), 0)

    def test_while_draining_each_request_is_answered_and_its_connection_closed(self):
        daemon = GatedDaemon("--workers", "2", "--inline-limit-us", "0", "--drain-timeout-ms", HOUR)
        with daemon.gates.closed("compute") as gate, contextlib.ExitStack() as stack:
            first = stack.enter_context(Raw(daemon))
            old = [stack.enter_context(Raw(daemon)) for _ in range(3)]
            for raw in old:  # so that they are open when the signal arrives
                raw.send(http_request("GET", "/readyz"))
                self.assertStatus(raw.reply(), 200)
            first.send(http_request("POST", "/v1/gather", BODY))
            gate.arrival()
            gate.let_pass()
            self.drain(daemon)
            for raw, request, status in ((old[0], http_request("POST", "/v1/gather", BODY), 200), (old[1], http_request("GET", "/readyz"), 503),
                                         (old[2], http_request("GET", "/healthz"), 200)):
                raw.send(request)
                reply = raw.reply()
                self.assertIsNotNone(reply, "the connection was closed without a reply")
                self.assertEqual(reply.status, status, str(reply))
                if status == 503:
                    self.assertProblem(reply, 503, "DRAINING")
                self.assertEqual((reply.headers.get("Connection") or "").lower(), "close")
                self.assertEqual(raw.rest(), b"")
            with self.assertRaises(ConnectionRefusedError):
                Raw(daemon)
            self.assertTrue(first.is_silent())
            gate.open()
            self.assertOutput(first.reply(), "int32", [1], [2])
        self.assertEqual(daemon.wait(), 0)

    def test_under_load_no_request_is_lost_during_a_stop(self):
        for inline in ("20", "0"):
            daemon = GatedDaemon("--inline-limit-us", inline, "--drain-timeout-ms", HOUR)
            counts, wrong, go_on = [0] * 8, [], threading.Event()

            def load(i):
                """asks until a reply closes the connection"""
                params = list(range(i, i + 50))
                request = http_request("POST", "/v1/gather", json.dumps({"params": params, "indices": [49, i]}).encode())
                closed = False
                try:
                    with Raw(daemon) as raw:
                        while not closed:
                            raw.send(request)
                            reply = raw.reply()
                            if reply is None or reply.status != 200 or reply.json()["output"]["data"] != [params[49], params[i]]:
                                wrong.append(f"request {counts[i]} of connection {i}: {reply}")
                                return
                            closed = reply.headers.get("Connection") == "close"
                            counts[i] += 1
                            if sum(counts) > 200 and all(counts):
                                go_on.set()
                except (AssertionError, OSError) as e:
                    wrong.append(f"request {counts[i]} of connection {i}: {e!r}")
            threads = [threading.Thread(target=load, args=(i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            self.assertTrue(go_on.wait(WAIT_LIMIT))
            with daemon.clock.stopped():  # the daemon does not give up a connection whose thread is slow
                daemon.stop()
                for thread in threads:
                    thread.join(WAIT_LIMIT)
            self.assertEqual(wrong, [])

    def test_connections_that_wait_to_be_accepted_are_served(self):
        """as many as possible, while the daemon stops"""
        for _ in range(5):
            daemon = GatedDaemon("--drain-timeout-ms", HOUR)
            replies, served = [], threading.Event()

            def connect():
                try:
                    while True:
                        with Raw(daemon) as raw:
                            raw.send(http_request("GET", "/healthz", headers=["Connection: close"]))
                            reply = raw.reply()
                            replies.append(reply and reply.status)
                            if len(replies) > 40:
                                served.set()
                except ConnectionRefusedError:
                    pass
            threads = [threading.Thread(target=connect) for _ in range(4)]
            for thread in threads:
                thread.start()
            self.assertTrue(served.wait(WAIT_LIMIT))
            with daemon.clock.stopped():  # the daemon does not give up a connection whose thread is slow
                daemon.stop()
                for thread in threads:
                    thread.join(WAIT_LIMIT)
            self.assertEqual(set(replies), {200})

    def test_the_drain_delay_keeps_serving_new_connections_while_not_ready(self):
        with GatedDaemon("--drain-delay-ms", HOUR, "--system-shared-memory") as daemon, Raw(daemon) as old:
            old.send(http_request("GET", "/readyz"))
            self.assertStatus(old.reply(), 200)
            daemon.send_signal(signal.SIGTERM)
            self.open_log(daemon)
            for path, body, status in (("/readyz", None, 503), ("/v2/health/ready", None, 503), ("/v2/models/gather/ready", None, 503), ("/healthz", None, 200),
                                       ("/v1/gather", BODY, 200)):
                with Raw(daemon) as raw:
                    raw.send(http_request("POST" if body else "GET", path, body or b""))
                    reply = raw.reply()
                    self.assertStatus(reply, status)
                    self.assertEqual(reply.headers.get("Connection"), "close")
            old.send(http_request("POST", "/v1/gather", BODY))
            self.assertStatus(old.reply(), 200)
            self.assertEqual(old.rest(), b"")
            daemon.clock.advance(3601)
            self.assertEqual(daemon.wait(), 0)
            self.assertNotIn("drain_cut_short", [event["event"] for event in daemon.events()])
            # "not ready" is what a probe asks for, not a fault
            self.assertEqual([event for event in daemon.events() if event["level"] in ("warn", "error")], [])

    def test_a_second_signal_ends_the_drain(self):
        daemon = Daemon(*ONE_WORKER, "--drain-delay-ms", HOUR, "--drain-timeout-ms", HOUR)
        with Raw(daemon) as raw:
            raw.send(b"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            daemon.send_signal(signal.SIGTERM)
            self.open_log(daemon)
            daemon.send_signal(signal.SIGINT)
            self.assertEqual(daemon.wait(), 0)
        self.assertTrue(any(event["event"] == "drain_cut_short" for event in daemon.events()))

    def draining(self):
        """a daemon that has begun to drain, and a connection with an incomplete request, for which it waits"""
        daemon = GatedDaemon("--drain-timeout-ms", "300000", "--header-timeout-ms", HOUR)  # the request may arrive slowly
        raw = Raw(daemon)
        raw.send(http_request("POST", "/v1/gather", BODY)[:-1])
        self.wait_until(lambda: self.phases(daemon)["receiving"] == 1)
        self.drain(daemon)
        return daemon, raw

    def assertCutShort(self, daemon, in_flight):
        self.assertEqual(daemon.wait(), 0)
        self.assertEqual([event["in_flight"] for event in daemon.events() if event["event"] == "drain_cut_short"], [in_flight])

    def test_a_second_signal_ends_the_wait_for_open_requests(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            daemon, raw = self.draining()
            daemon.send_signal(number)
            self.assertCutShort(daemon, 1)
            raw.close()

    def test_an_unfinished_request_does_not_delay_the_stop(self):
        daemon, raw = self.draining()
        daemon.clock.advance(301)
        self.assertCutShort(daemon, 1)
        raw.close()

    def has_pending(self, daemon, number):
        """a signal that was sent and has not been taken yet"""
        with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as file:
            pending = next(int(line.split()[1], 16) for line in file if line.startswith("ShdPnd:"))
        return bool(pending >> number - 1 & 1)

    def test_a_hangup_does_not_end_the_drain(self):
        daemon, raw = self.draining()
        daemon.send_signal(signal.SIGHUP)
        self.wait_until(lambda: not self.has_pending(daemon, signal.SIGHUP))
        daemon.sweep()
        raw.send(BODY[-1:])
        self.assertOutput(raw.reply(), "int32", [1], [2])
        raw.close()
        self.assertEqual(daemon.wait(), 0)
        self.assertFalse(any(event["event"] == "drain_cut_short" for event in daemon.events()))

    def test_a_deadline_that_passes_in_the_queue_is_noticed_while_draining(self):
        daemon = GatedDaemon(*ONE_WORKER, "--drain-timeout-ms", HOUR)
        with daemon.gates.closed("compute") as gate, Raw(daemon) as first, Raw(daemon) as second:
            first.send(http_request("POST", "/v1/gather", BODY, ["X-Request-Timeout-Ms: 3000000"]))
            gate.arrival()
            second.send(http_request("POST", "/v1/gather", BODY, ["X-Request-Timeout-Ms: 300000"]))
            self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
            self.drain(daemon)
            daemon.clock.advance(301)
            self.assertProblem(second.reply(), 504, "DEADLINE_EXCEEDED", op="gather")
            self.assertTrue(first.is_silent())  # the worker is not free yet
            gate.open()
            self.assertStatus(first.reply(), 200)
        self.assertEqual(daemon.wait(), 0)

    def test_each_request_that_is_queued_at_the_drain_timeout_is_refused(self):
        """also the last one: the replies are sent before the end"""
        daemon = GatedDaemon(*ONE_WORKER, "--drain-timeout-ms", "300000", "--default-timeout-ms", HOUR)
        with contextlib.ExitStack() as stack:
            gate = stack.enter_context(daemon.gates.closed("compute"))
            sockets = [stack.enter_context(Raw(daemon)) for _ in range(201)]
            self.send_queued(daemon, gate, sockets, http_request("POST", "/v1/gather", BODY))
            self.drain(daemon)
            with daemon.clock.stopped():  # the replies may be sent slowly
                daemon.clock.advance(301)
                for reply in replies_of(sockets[1:]):
                    self.assertIsNotNone(reply, "the connection was closed without a reply")
                    problem = self.assertProblem(reply, 503, "DRAINING")
                    self.assertIn("the server stopped while this request was queued", problem["detail"])
            gate.open()
            self.assertCutShort(daemon, 201)

    def test_running_work_ends_at_the_drain_timeout(self):
        daemon = GatedDaemon(*ONE_WORKER, "--drain-timeout-ms", "300000", "--default-timeout-ms", HOUR)
        table = safetensors({"t": ("int64", (64, 64), bytes(8 * 64 * 64))})
        with Client(daemon) as client:
            self.assertStatus(client.request("PUT", "/v1/tensors/t", table, {"Content-Type": SAFETENSORS}), 201)
        with daemon.gates.closed("check") as gate, Raw(daemon) as running, Raw(daemon) as queued:
            running.send(http_request("POST", "/v1/einsum", json.dumps(ring(16, {"ref": "t"})).encode()))
            for _ in range(3):  # in the middle
                arrival = gate.arrival()
                arrival.release()
            arrival = gate.arrival()
            gate.let_pass()
            queued.send(http_request("POST", "/v1/gather", BODY))
            self.wait_until(lambda: metric(daemon, "tensord_queue_jobs") == 1)
            self.drain(daemon)
            with daemon.clock.stopped():  # the replies may be sent slowly
                daemon.clock.advance(301)
                self.assertProblem(queued.reply(), 503, "DRAINING")  # the timeout has taken effect
                arrival.release()
                problem = self.assertProblem(running.reply(), 503, "DRAINING")
            self.assertIn("the server stopped while einsum was being computed", problem["detail"])
        self.assertCutShort(daemon, 2)

    def test_clients_that_do_not_read_get_the_drain_timeout_once(self):
        daemon = GatedDaemon("--drain-timeout-ms", "300000", "--min-rate", "0", "--idle-timeout-ms", "0")
        with Raw(daemon) as raw, Client(daemon) as client:
            table = safetensors({"t": ("int8", (64 << 20,), bytes(64 << 20))})
            self.assertStatus(client.request("PUT", "/v1/tensors/t", table, {"Content-Type": SAFETENSORS}), 201)
            raw.send(http_request("GET", "/v1/tensors/t", headers=["Accept: " + SAFETENSORS]))
            self.assertTrue(raw.more())
            self.drain(daemon)
            daemon.clock.advance(200)
            daemon.sweep()
            self.assertTrue(daemon.alive())
            daemon.clock.advance(101)
            self.assertCutShort(daemon, 1)
