"""Measures large resident tables: replacing them during lookups, and loading them when the server starts."""
import array, json, os, random, statistics, threading, time
from turns import (Broken, DropServer, output_during, output_of, report, report_p99, resident, resident_of_file, row,
                   take_turns, turn, upload_command, upload_times, wrk_command, wrk_figures)
import daemon
from daemon import JSON, SAFETENSORS, Client, Daemon
from inputs import Request, send, check_binary, ints

ROWS, WIDTH = 4 << 20, 64  # 1 GiB of float32
KEYS = 100_000_000
STORED_KEYS = 10_000_000  # of stored_index
TENSORS = 65_535  # of many_tensors in one file; the store has no room for more
FILES = 65_000  # of many_tensors; a process has at most 65,530 mappings by default
BYTES = 4 * ROWS * WIDTH
IDS = [104_729 * i % ROWS for i in range(32)]
GIB = 1 << 30
OPTIONS = ("--memory-limit", "8G", "--tensor-quota", "5G")


def row_of(i):
    """Returns a row whose elements are all i modulo 2^24, which is exact in float32."""
    return array.array("f", [i % (1 << 24)]) * WIDTH


def write_table(path):
    """Writes a table of 1 GiB as .npy, in parts."""
    part = 1 << 14
    with open(path, "wb") as f:
        f.write(daemon.npy("float32", [ROWS, WIDTH], b""))
        for begin in range(0, ROWS, part):
            f.write(b"".join(row_of(i).tobytes() for i in range(begin, begin + part)))


class Watch:
    """A thread that polls /readyz."""

    def __init__(self, server):
        self.server, self.in_use, self.stop = server, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with Client(self.server) as client:
            while not self.stop.wait(0.05):
                self.in_use = max(self.in_use, client.request("GET", "/readyz").json()["memory"]["in_use"])

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


class Lookups:
    """Repeats one request. The drop server receives uploads for comparison."""

    def __init__(self, tensord, drop, request, body_file, pause_ms):
        self.tensord, self.drop, self.request, self.body_file, self.pause_ms = tensord, drop, request, body_file, pause_ms

    def command(self, seconds):
        return wrk_command(self.tensord, self.request, self.body_file, seconds, self.pause_ms)

    def alone(self, seconds):
        return output_of(self.command(seconds))

    def during(self, work):
        return output_during(self.command(600), work)

    def turn(self, client):
        return turn(self.tensord, client, wrk_figures, beside=(self.drop,))


class TableCases:
    def big_table(self):
        """Returns the path of table.npy, alone in a folder."""
        folder = os.path.join(self.folder, "big")
        path = os.path.join(folder, "table.npy")
        if not os.path.exists(path):
            os.mkdir(folder)
            write_table(path)
        return path

    def replace(self):
        """Replaces a table of 1 GiB repeatedly, during lookups without pauses and at a moderate rate."""
        put = Request("/v1/tensors/big", b"", "application/x-npy")
        look = Request("/v1/gather", daemon.safetensors({"indices": ("int32", [len(IDS)], ints(IDS).tobytes())},
                                                        {"params.ref": "big"}), SAFETENSORS)
        raw = b"".join(row_of(i).tobytes() for i in IDS)
        table = self.big_table()
        body = self.file("look")
        with open(body, "wb") as f:
            f.write(look.body)
        # With a pool limit, the server reuses the memory of a table. Otherwise each table gets new memory.
        for options, loads in ((("--pool-limit", "3G"), (("replace, busy", 0, 1, 0), ("replace, 2000/s", 8, 3, 0),
                                                         ("replace, 2000/s, 10 Gbit/s", 8, 3, 1250))),
                               ((), (("replace, new memory", 8, 3, 1250),))):
            with Daemon(*OPTIONS, *options) as tensord, DropServer(self.tools) as drop:
                with open(table, "rb") as f, Client(tensord) as client:
                    reply = client.request("PUT", put.path, f.read(), put.headers())
                if reply.status != 201:
                    raise Broken(f"wrong reply: {reply}")
                check_binary(tensord, look, [len(IDS), WIDTH], raw)
                for name, pause_ms, uploads, mb_per_s in loads:
                    self.replace_under(name, Lookups(tensord, drop, look, body, pause_ms),
                                       *(upload_command(s, "PUT", put, table, uploads, self.tools, mb_per_s) for s in (tensord, drop)))
                check_binary(tensord, look, [len(IDS), WIDTH], raw)

    def replace_under(self, name, lookups, put, dropped):
        """Compares lookups while the table is replaced with lookups alone, and with lookups while the drop server receives the
        same number of bytes, which shows the cost of any upload."""
        times, memory, process = [], [], lookups.tensord.process

        def alone():
            return lookups.alone(2 * self.args.seconds)

        def replacing():
            before = resident(process)
            with open(f"/proc/{process.pid}/clear_refs", "w") as f:
                f.write("5")  # resets VmHWM
            with Watch(lookups.tensord) as watch:
                output = lookups.during(lambda: times.extend(upload_times(output_of(put))))
            memory.append((before, resident(process, "VmHWM"), watch.in_use))
            return output

        def dropping():
            return lookups.during(lambda: output_of(dropped))
        pairs = take_turns(lookups.turn, replacing, alone, self.args.rounds)
        report(name, pairs, "req/s", 1, "")
        report_p99(name + ", p99", pairs, "at most 2")
        report_p99("  beside an upload", take_turns(lookups.turn, replacing, dropping, self.args.rounds), "")
        before, peak, in_use = (max(m[i] for m in memory) for i in range(3))
        print(f"    {len(times)} PUTs, median {1e3 * statistics.median(times):.0f} ms, fastest {1e3 * min(times):.0f};"
              f" no lookup failed; resident GiB: {before / GIB:.2f} before, {peak / GIB:.2f} at most; in use"
              f" {in_use / GIB:.2f} at most", flush=True)

    def start(self):
        """Measures the time from the start of the process to the first 200 of /readyz, with a cold and a warm page cache."""
        table = self.big_table()
        empty = os.path.join(self.folder, "empty")
        os.makedirs(empty, exist_ok=True)
        self.start_with("start, empty", empty, None, False, "below 100 ms")
        for name, drop in (("start, 1 GiB cold", True), ("start, 1 GiB warm", False)):
            self.start_with(name, os.path.dirname(table), table, drop, "below 100 ms")

    def keyed_table(self):
        """Returns the path of keyed.tensord, alone in a folder: KEYS rows of one byte, with keys."""
        folder = os.path.join(self.folder, "keyed")
        os.mkdir(folder)
        keys = array.array("q", range(10**12, 10**12 + 7919 * KEYS, 7919))
        body = daemon.safetensors({"rows": ("uint8", [KEYS], bytes(KEYS)), "keys": ("int64", [KEYS], keys.tobytes())})
        with Daemon("--data-dir", folder, "--max-body", "2G", *OPTIONS) as tensord, Client(tensord) as client:
            reply = client.request("PUT", "/v1/tensors/keyed?persist=1", body, {"Content-Type": SAFETENSORS})
        if reply.status != 201:
            raise Broken(f"wrong reply: {reply}")
        return os.path.join(folder, "keyed.tensord")

    def keyed_start(self):
        """Measures the same as start() with 100 million keys in a file, and the time of the first lookup by key."""
        table = self.keyed_table()
        print(f"    {os.path.getsize(table) / KEYS - 9:.2f} bytes a key beside keys and rows", flush=True)
        look = Request("/v1/lookup", b'{"params":{"ref":"keyed"},"queries":[1000000000000,1],"missing":"zero"}', JSON)
        for name, drop in (("start, keys cold", True), ("start, keys warm", False)):
            self.start_with(name, os.path.dirname(table), table, drop, "below 50 ms", look)

    def stored_index(self):
        """Measures a start with 10 million keys in a .npy file: without and with the index that the server stores beside it."""
        folder = os.path.join(self.folder, "indexed")
        os.mkdir(folder)
        keys = array.array("q", range(10**12, 10**12 + 7919 * STORED_KEYS, 7919))
        for file, dtype, raw in (("words.npy", "uint8", bytes(STORED_KEYS)), ("words.keys.npy", "int64", keys.tobytes())):
            with open(os.path.join(folder, file), "wb") as f:
                f.write(daemon.npy(dtype, [STORED_KEYS], raw))
        index = os.path.join(folder, ".words.keys.npy.index.tensord")
        self.start_cpu("start, keys, no stored index", folder, "", lambda: os.path.exists(index) and os.remove(index))
        self.start_cpu("start, keys, stored index", folder, "below 50 ms")

    def many_tensors(self):
        """Measures a start with many tensors: in one file, in the order of their names and shuffled, and in a file each."""
        names = [f"layer.{i:05d}.weight" for i in range(TENSORS)]
        for name in ("sorted", "shuffled"):
            folder = os.path.join(self.folder, name)
            os.mkdir(folder)
            header = {tensor: {"dtype": "F32", "shape": [4, 2], "data_offsets": [32 * i, 32 * i + 32]} for i, tensor in enumerate(names)}
            text = json.dumps(header).encode()
            with open(os.path.join(folder, "m.safetensors"), "wb") as f:
                f.write(len(text).to_bytes(8, "little") + text + bytes(32 * TENSORS))
            self.start_cpu(f"start, 65,535 tensors, {name}", folder, "below 500 ms")
            random.Random(1).shuffle(names)
        folder = os.path.join(self.folder, "files")
        os.mkdir(folder)
        for i in range(FILES):
            with open(os.path.join(folder, f"table{i:05d}.npy"), "wb") as f:
                f.write(daemon.npy("float32", [4, 2], bytes(32)))
        self.start_cpu("start, 65,000 .npy files", folder, "below 500 ms")

    def start_cpu(self, name, folder, target, prepare=lambda: None):
        """Reports the CPU time of the daemon until it listens. The first start only fills the page cache."""
        times = []
        for _ in range(max(5, self.args.rounds) + 1):
            prepare()
            with Daemon("--data-dir", folder, *OPTIONS) as tensord:
                times.append(cpu_ms(tensord.process))
        times = times[1:]
        row(name, f"{statistics.median(times):.1f} ms", "", f"({min(times):.1f}-{max(times):.1f})", target)

    def start_with(self, name, folder, file, drop, target, then=None):
        """file: a file in the folder, whose pages can be dropped from the page cache; then: a request to send when the server
        is ready"""
        times, thens, touched = [], [], 0
        for _ in range(max(5, self.args.rounds)):
            if drop:
                drop_pages(file)
            begun = time.monotonic()
            with Daemon("--data-dir", folder, *OPTIONS) as tensord, Client(tensord) as client:
                if client.request("GET", "/readyz").status != 200:
                    raise Broken("not ready")
                times.append(time.monotonic() - begun)
                if then and send(tensord, then).status != 200:
                    raise Broken(f"{name}: the first request fails")
                thens.append(time.monotonic() - begun - times[-1])
                if file:
                    touched = max(touched, resident_of_file(tensord.process, os.path.basename(file)))
        row(name, f"{1e3 * statistics.median(times):.1f} ms", "",
            f"({1e3 * min(times):.1f}-{1e3 * max(times):.1f})", target)
        if file:
            first = f", the first request takes {1e3 * statistics.median(thens):.1f} ms" if then else ""
            print(f"    {touched / 1e6:.2f} MB of the file resident{first}", flush=True)


def cpu_ms(process):
    """Returns the CPU time of all threads so far."""
    total, tasks = 0, f"/proc/{process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e6


def drop_pages(path):
    """Drops the file's pages from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
