#!/usr/bin/env python3
"""Compares lookups by key with Redis.

    redis.py [BINARY] [--rows N] [--columns N] [--wanted N] [--integers] [--connections N] [--seconds S] [--rounds N]

Both hold the same table: rows of 64 float32 numbers (--columns), each with a key. Each request asks for 32 random keys (--wanted),
on 16 connections. wrk sends tensord `gather` requests with keys as JSON and gets the rows as safetensors; redis-benchmark sends
Redis MGET. With --integers, tensord's keys are int64, and the requests are safetensors. The two alternate. Each round gives a
ratio, and the script prints the medians, with the latencies that wrk and redis-benchmark report. Needs redis-server (Debian has a
package with this name) and wrk.
"""
import argparse, array, collections, csv, json, os, random, re, shutil, statistics, subprocess, sys, tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "http"))
import daemon as tensord

BODIES = 500
SCRIPT = """local bodies, at = {}, 0
for i = 0, %d do
  local file = io.open("%s/" .. i, "rb")
  bodies[i] = file:read("*a")
  file:close()
end
wrk.headers["Content-Type"], wrk.headers["Accept"] = "%s", "application/vnd.safetensors"
function request()
  at = (at + 1) %% %d
  return wrk.format("POST", "/v1/tensors/table/gather", nil, bodies[at])
end
"""
# requests per second; milliseconds
Load = collections.namedtuple("Load", "rate p50 p99")


def row(i, columns):
    return array.array("f", [i % (1 << 24)]) * columns


def key(i):
    """Returns a key in the form in which redis-benchmark writes a random number."""
    return f"key:{i:012d}"


def put(client, path, body, kind):
    reply = client.request("PUT", path, body, {"Content-Type": kind})
    if reply.status != 201:
        sys.exit(f"redis.py: {reply}")


def fill_tensord(client, options):
    rows = range(options.rows)
    data = b"".join(row(i, options.columns).tobytes() for i in rows)
    put(client, "/v1/tensors/table", tensord.npy("float32", [options.rows, options.columns], data), "application/x-npy")
    if options.integers:
        put(client, "/v1/tensors/table/keys", tensord.npy("int64", [options.rows], array.array("q", rows).tobytes()), "application/x-npy")
    else:
        put(client, "/v1/tensors/table/keys", json.dumps([key(i) for i in rows]).encode(), "application/json")
    last = options.rows - 1
    reply = client.request("POST", "/v1/tensors/table/gather", {"keys": [last if options.integers else key(last)]},
                           {"Accept": "application/vnd.safetensors"})
    if not reply.body.endswith(row(last, options.columns).tobytes()):
        sys.exit(f"redis.py: wrong reply: {reply}")


def fill_redis(port, options):
    """Fills Redis through a pipe, in the protocol of Redis."""
    feed = subprocess.Popen(["redis-cli", "-p", str(port), "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    for i in range(options.rows):
        name, value = key(i).encode(), row(i, options.columns).tobytes()
        feed.stdin.write(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(name), name, len(value), value))
    feed.stdin.close()
    if feed.wait():
        sys.exit("redis.py: redis-cli failed")


def body_of(keys, options):
    if options.integers:
        return tensord.safetensors({"indices.keys": ("int64", [len(keys)], array.array("q", keys).tobytes())})
    return json.dumps({"keys": [key(i) for i in keys]}).encode()


def write_bodies(folder, options):
    for i in range(BODIES):
        with open(os.path.join(folder, str(i)), "wb") as file:
            file.write(body_of([random.randrange(options.rows) for _ in range(options.wanted)], options))


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def tensord_load(port, script, options):
    text = subprocess.run(["wrk", "--latency", "-t1", f"-c{options.connections}", f"-d{options.seconds}s", "-s", script, f"http://127.0.0.1:{port}"],
                          check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text:
        sys.exit(f"redis.py: {text}")
    return Load(float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), *(milliseconds(re.search(rf"{p}%\s+(\S+)", text)[1]) for p in (50, 99)))


def redis_load(port, requests, options):
    text = subprocess.run(["redis-benchmark", "-p", str(port), "-c", str(options.connections), "-n", str(requests), "-r", str(options.rows), "--csv", "MGET",
                           *["key:__rand_int__"] * options.wanted], check=True, capture_output=True, text=True).stdout
    figures = list(csv.DictReader(text.splitlines()))[-1]
    return Load(*(float(figures[name]) for name in ("rps", "p50_latency_ms", "p99_latency_ms")))


def describe(name, loads):
    rate, p50, p99 = (statistics.median(figures) for figures in zip(*loads))
    return f"{name} {rate:,.0f}/s, p50 {p50:.3f} ms, p99 {p99:.3f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="build/tensord")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--wanted", type=int, default=32)
    parser.add_argument("--integers", action="store_true")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if missing := [name for name in ("redis-server", "redis-benchmark", "redis-cli", "wrk") if not shutil.which(name)]:
        sys.exit(f"redis.py: {', '.join(missing)} not found")
    tensord.BINARY = os.path.abspath(options.binary)
    (port,) = tensord.free_ports(1)
    with tempfile.TemporaryDirectory() as folder, tensord.Daemon() as daemon, tensord.Client(daemon) as client:
        redis = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder],
                                 stdout=subprocess.PIPE)
        try:
            if not any(b"Ready to accept connections" in line for line in redis.stdout):
                sys.exit("redis.py: redis-server did not start")
            fill_redis(port, options)
            fill_tensord(client, options)
            write_bodies(folder, options)
            script = os.path.join(folder, "keys.lua")
            with open(script, "w", encoding="ascii") as file:
                file.write(SCRIPT % (BODIES - 1, folder, tensord.SAFETENSORS if options.integers else tensord.JSON, BODIES))
            requests = int(redis_load(port, 5000, options).rate * options.seconds)
            loads = [(tensord_load(daemon.port, script, options), redis_load(port, requests, options)) for _ in range(options.rounds)]
        finally:
            redis.terminate()
            redis.wait()
    ours, others = zip(*loads)
    ratios = [one.rate / other.rate for one, other in loads]
    print(f"{describe('tensord', ours)}; {describe('Redis', others)}; ratio {statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]")


if __name__ == "__main__":
    main()
