"""What a daemon holds, to check that a test has given it back.

ask(daemon)             what it holds now, such as before a test
empty(daemon)           what it holds at its start, without asking it
expect_given_back(...)  removes what the test has left on purpose (tensors in memory, regions); an AssertionError if
                        anything else is left after a while

Descriptors are counted in /proc, mappings of files too; the rest is what GET /readyz and GET /v1/devices report.  Nothing
is compared while the daemon stops, and bytes only if the same tensors are resident as before.
"""
import http.client, json, os, socket
from urllib.parse import quote


class UnixConnection(http.client.HTTPConnection):
    """a connection to a Unix socket"""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connection_to(daemon, timeout):
    """an HTTPConnection; not every address is a Daemon's"""
    if getattr(daemon, "socket_path", None):
        return UnixConnection(daemon.socket_path, timeout)
    tls = getattr(daemon, "tls", None)
    if tls:
        return http.client.HTTPSConnection(daemon.host, daemon.port, timeout=timeout, context=tls)
    return http.client.HTTPConnection(daemon.host, daemon.port, timeout=timeout)


class Asker:
    """a connection of its own, so that it is counted whenever the daemon is asked"""

    def __init__(self, daemon, timeout):
        self.connection = connection_to(daemon, timeout)

    def request(self, method, path):
        self.connection.request(method, path, headers={"Host": "localhost"})
        response = self.connection.getresponse()
        body = response.read()
        return json.loads(body) if response.status == 200 and body else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def descriptor_links(pid):
    """what the descriptors are open on, for the message of a failure"""
    links = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(f"{number} {os.readlink(f'/proc/{pid}/fd/{number}')}")
        except OSError:  # closed meanwhile
            pass
    return ", ".join(links)


def file_mappings(pid):
    """the ranges that are mapped from files, without those of programs and libraries"""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
        paths = [fields[5] for fields in (line.split(None, 5) for line in maps) if len(fields) == 6]
    return sum(path.startswith(("/tmp/tensord-", "/dev/shm/")) for path in paths)


def empty(daemon):
    """what a daemon holds that has just started and has no tensors"""
    return {"connections": 1, "descriptors": descriptors(daemon.process.pid) + 1, "resident": 0, "spare": 0, "names": {}}


def ask(daemon, timeout):
    """what the daemon holds now; None if it does not say"""
    try:
        with Asker(daemon, timeout) as asker:
            ready = asker.request("GET", "/readyz")
            listed = asker.request("GET", "/v1/tensors")
            if not ready or listed is None:
                return None
            held = {**ready["open"], "resident": ready["memory"]["resident"], "spare": ready["memory"]["spare"],
                    "in_use": ready["memory"]["in_use"], "descriptors": descriptors(daemon.process.pid),
                    "file_mappings": file_mappings(daemon.process.pid),
                    "names": {t["name"]: t.get("source") or t["persisted"] for t in listed["tensors"]}}
            if any(option.startswith(("reference", "--gpu=reference")) for option in daemon.options):
                gpu = next(d for d in asker.request("GET", "/v1/devices")["devices"] if d["device"] == "gpu")
                held.update(device_tables=gpu["memory"]["tables"], device_bytes=gpu["memory"]["table_bytes"],
                            device_queue=gpu["queue"]["waiting"] + gpu["queue"]["in_flight"])
                held["in_use"] -= gpu["memory"]["staging"]
            if "--system-shared-memory" in daemon.options:
                held["regions_named"] = [r["name"] for r in asker.request("GET", "/v2/systemsharedmemory/status")]
            return held
    except (OSError, http.client.HTTPException):
        return None


def clean(daemon, before, now, timeout):
    """deletes the tensors in memory, and the regions, that were not there before"""
    with Asker(daemon, timeout) as asker:
        for name, in_a_file in now["names"].items():
            if name not in before["names"] and not in_a_file:
                asker.request("DELETE", "/v1/tensors/" + quote(name, safe=""))
        for name in now.get("regions_named", []):
            if name not in before.get("regions_named", []):
                asker.request("POST", f"/v2/systemsharedmemory/region/{quote(name, safe='')}/unregister")


def differences(before, now):
    """what is held above that before; bytes only if they do not depend on which tensors are resident"""
    always = ["requests", "connections", "regions", "descriptors", "device_queue"]
    tensors = ["tensors", "resident", "spare", "mappings", "file_mappings", "in_use", "device_tables", "device_bytes"]
    same = before["names"] == now["names"] and before["resident"] - before["spare"] == now["resident"] - now["spare"]
    names = always + (tensors if same else [])
    return [f"{name}: {now[name]}, {before.get(name, 0)} before" for name in names if now.get(name, 0) > before.get(name, 0)]


def expect_given_back(daemon, before, seconds):
    """waits until the daemon holds no more than before; for each answer at most so many seconds"""
    from daemon import eventually  # which imports this module
    left, cleaned = [], False

    def is_given_back():
        nonlocal left, cleaned
        now = ask(daemon, seconds)
        if not now and (daemon.stopping or not daemon.alive()):
            return True
        if now and not cleaned:
            clean(daemon, before, now, seconds)
            cleaned = True
            now = ask(daemon, seconds)
        left = differences(before, now) if now else ["it does not say what it holds"]
        return not left
    try:
        eventually(is_given_back)
    except AssertionError:
        raise AssertionError(f"the daemon does not hold what it held before: {'; '.join(left)}; "
                             f"its descriptors are {descriptor_links(daemon.process.pid)}") from None
