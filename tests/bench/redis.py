#!/usr/bin/env python3
"""Compares lookups by key with Redis.

    redis.py [BINARY] [--rows N] [--seconds S] [--rounds N]

Both hold the same table: rows of 64 float32 numbers, each with a key. Each request asks for 32 random keys, on 16 connections.
wrk sends tensord `gather` requests with keys as JSON and gets the rows as safetensors; redis-benchmark sends Redis MGET. The
two alternate. Each round gives a ratio, and the script prints the median. Needs redis-server (Debian has a package with this
name) and wrk.
"""
import argparse, array, json, os, random, re, shutil, statistics, subprocess, sys, tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "http"))
import daemon as tensord

WIDTH, WANTED, CONNECTIONS, BODIES = 64, 32, 16, 500
SCRIPT = """local bodies, at = {}, 0
for i = 0, %d do
  local file = io.open("%s/" .. i, "rb")
  bodies[i] = file:read("*a")
  file:close()
end
wrk.headers["Content-Type"], wrk.headers["Accept"] = "application/json", "application/vnd.safetensors"
function request()
  at = (at + 1) %% %d
  return wrk.format("POST", "/v1/tensors/table/gather", nil, bodies[at])
end
"""


def row(i):
    return array.array("f", [i % (1 << 24)]) * WIDTH


def key(i):
    """Returns a key in the form in which redis-benchmark writes a random number."""
    return f"key:{i:012d}"


def fill_tensord(client, rows):
    names = [key(i) for i in range(rows)]
    data = b"".join(row(i).tobytes() for i in range(rows))
    reply = client.request("PUT", "/v1/tensors/table", tensord.npy("float32", [rows, WIDTH], data), {"Content-Type": "application/x-npy"})
    if reply.status != 201:
        sys.exit(f"redis.py: {reply}")
    reply = client.request("PUT", "/v1/tensors/table/keys", names)
    if reply.status != 201:
        sys.exit(f"redis.py: {reply}")
    reply = client.request("POST", "/v1/tensors/table/gather", {"keys": names[-1:]}, {"Accept": "application/vnd.safetensors"})
    if not reply.body.endswith(row(rows - 1).tobytes()):
        sys.exit(f"redis.py: wrong reply: {reply}")


def fill_redis(port, rows):
    """Fills Redis through a pipe, in the protocol of Redis."""
    feed = subprocess.Popen(["redis-cli", "-p", str(port), "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    for i in range(rows):
        name, value = key(i).encode(), row(i).tobytes()
        feed.stdin.write(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(name), name, len(value), value))
    feed.stdin.close()
    if feed.wait():
        sys.exit("redis.py: redis-cli failed")


def write_bodies(folder, rows):
    for i in range(BODIES):
        with open(os.path.join(folder, str(i)), "w", encoding="ascii") as file:
            json.dump({"keys": [key(random.randrange(rows)) for _ in range(WANTED)]}, file)


def tensord_rate(port, script, seconds):
    text = subprocess.run(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{port}"],
                          check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text:
        sys.exit(f"redis.py: {text}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])


def redis_rate(port, rows, requests):
    text = subprocess.run(["redis-benchmark", "-p", str(port), "-c", str(CONNECTIONS), "-n", str(requests), "-r", str(rows), "-q", "MGET",
                           *["key:__rand_int__"] * WANTED], check=True, capture_output=True, text=True).stdout
    return float(re.findall(r"([\d.]+) requests per second", text)[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="build/tensord")
    parser.add_argument("--rows", type=int, default=100_000)
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
            fill_redis(port, options.rows)
            fill_tensord(client, options.rows)
            write_bodies(folder, options.rows)
            script = os.path.join(folder, "keys.lua")
            with open(script, "w", encoding="ascii") as file:
                file.write(SCRIPT % (BODIES - 1, folder, BODIES))
            requests = int(redis_rate(port, options.rows, 5000) * options.seconds)
            rates = [(tensord_rate(daemon.port, script, options.seconds), redis_rate(port, options.rows, requests)) for _ in range(options.rounds)]
        finally:
            redis.terminate()
            redis.wait()
    ratios = [one / other for one, other in rates]
    print(f"tensord {statistics.median(r for r, _ in rates):,.0f}/s, Redis {statistics.median(r for _, r in rates):,.0f}/s,"
          f" ratio {statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]")


if __name__ == "__main__":
    main()
