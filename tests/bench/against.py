#!/usr/bin/env python3
"""Compares the speed of this build with another revision and with the drop server.

    against.py [REVISION] [--binary build/tensord] [--only NAME] [--seconds S] [--rounds N] [--io-threads N]

The default REVISION is f79eba4, the fixed baseline of small requests. A comparison only with the parent commit would hide
a loss that grows in many small steps. The script builds the revision once, in build/against. Needs wrk and the target
`benchmarks`.

In each round, each of the three servers has one turn. Figures are medians over the quietest rounds. A ratio is the median
of the rounds' ratios. CPU is the server's user and system time for each request.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile
from turns import HERE, Broken, DropServer, machine, spread, take_turns, upload_turn, wrk_turn
import daemon
from daemon import JSON, SAFETENSORS
from inputs import (LOOKUP, LOOKUP_IDS, SMALL_BINARY, SMALL_INDICES, SMALL_JSON, SMALL_PARAMS, TABLE_WIDTH, Request,
                    check_binary, check_json, floats, large_binary, rows_of_range, send, write_table)

BASELINE = "f79eba4"
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
MATRIX = 512
# Revisions from before TLS do not link the libraries that libmicrohttpd's package needs.
LIBRARIES = "-lgnutls -lnettle -lhogweed"


class Revision(daemon.Daemon):
    def __init__(self, binary, *options):
        self.binary = binary
        super().__init__(*options)

    def program(self):
        return self.binary

    def __exit__(self, *_):
        self.stop()  # without the check that an old revision holds the same resources as at its start


def build(revision):
    """Returns the path of a revision's program. Builds the program unless it exists."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", revision + "^{commit}"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    tree = os.path.join(ROOT, "build", "against", commit)
    binary = os.path.join(tree, "build", "tensord")
    if not os.access(binary, os.X_OK):
        print(f"building {revision} in {os.path.relpath(tree)}", flush=True)
        os.makedirs(tree, exist_ok=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", tree], check=True, input=archive)
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": tree}
        subprocess.run(["cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release", "-DTD_GPU=OFF",
                        f"-DCMAKE_C_STANDARD_LIBRARIES={LIBRARIES}", f"-DCMAKE_CXX_STANDARD_LIBRARIES={LIBRARIES}"], **quiet)
        subprocess.run(["cmake", "--build", "build", "--target", "tensord", "-j", str(os.cpu_count())], **quiet)
    return binary


# ---------------------------------------------------------------- cases
class Case:
    """One request. reply: size in bytes of the drop server's reply"""

    def __init__(self, request, check, reply=64, connections=16, uploads=0):
        self.request, self.check, self.reply, self.connections, self.uploads = request, check, reply, connections, uploads


def check_einsum(server, request, shape):
    reply = send(server, request)
    if reply.status != 200 or daemon.read_safetensors(reply.body)[0]["output"][:2] != ("float32", shape):
        raise Broken(f"wrong reply: {reply}")


def einsum(equation, *operands):
    return Request("/v1/einsum", json.dumps({"equation": equation, "inputs": [{"ref": name} for name in operands]}).encode(),
                   JSON, SAFETENSORS)


def cases():
    rows = [SMALL_PARAMS[i] for i in SMALL_INDICES]
    upload, uploaded = large_binary(65536, 256, 1000)
    return {
        "json": Case(SMALL_JSON, lambda s, r: check_json(s, r, rows)),
        "safetensors": Case(SMALL_BINARY, lambda s, r: check_binary(
            s, r, [4, 8], floats(v for row in rows for v in row).tobytes())),
        "lookup": Case(LOOKUP, lambda s, r: check_binary(s, r, [32, TABLE_WIDTH], rows_of_range(LOOKUP_IDS, TABLE_WIDTH)),
                       reply=8192),
        "upload": Case(upload, lambda s, r: check_binary(s, r, [1000, 256], uploaded), uploads=20),
        "product": Case(einsum("ij,jk->ik", "matrix", "matrix"),
                        lambda s, r: check_einsum(s, r, [MATRIX, MATRIX]), reply=4 * MATRIX * MATRIX, connections=2),
        "column_sums": Case(einsum("ij->j", "table"), lambda s, r: check_einsum(s, r, [TABLE_WIDTH]), reply=4 * TABLE_WIDTH, connections=2),
    }


def print_figures(name, rounds, case):
    unit, scale = ("GB/s", len(case.request.body) / 1e9) if case.uploads else ("/s", 1)

    def median(of, i):
        return statistics.median(of(turns[i]) for turns in rounds)

    def ratio(of, i):
        return spread([of(turns[0]) / of(turns[i]) for turns in rounds])
    for i, server in enumerate(("this build", "revision", "drop server")):
        rate = median(lambda t: t.rate, i) * scale
        print(f"{name if not i else '':12} {server:12} {rate:10,.{0 if rate >= 100 else 2}f} {unit:5}"
              f" {median(lambda t: t.user, i) * 1e6:9.1f} + {median(lambda t: t.system, i) * 1e6:9.1f} us"
              + (f"  rate {ratio(lambda t: t.rate, i)}  CPU {ratio(lambda t: t.cpu, i)}" if i else ""), flush=True)
    print(f"{'':12} others used {100 * statistics.median(max(t.others for t in turns) for turns in rounds):.0f} %", flush=True)


def run(name, case, args, folder, data):
    body = os.path.join(folder, name)
    with open(body, "wb") as file:
        file.write(case.request.body)
    tools = os.path.join(os.path.dirname(os.path.abspath(args.binary)), "tests", "bench")

    def one_turn(server):
        if case.uploads:
            return upload_turn(server, case.request, body, case.uploads * args.seconds, tools)
        return wrk_turn(server, case.request, body, args.seconds, connections=case.connections)
    options = ["--data-dir", data, "--gpu", "off"] + (["--io-threads", str(args.io_threads)] if args.io_threads else [])
    with Revision(args.binary, *options) as here, Revision(args.other, *options) as there, DropServer(tools, case.reply) as drop:
        for server in (here, there):
            case.check(server, case.request)
        print_figures(name, take_turns(one_turn, here, there, args.rounds, drop), case)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", default=BASELINE)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "tensord"))
    parser.add_argument("--only", choices=cases(), metavar="NAME", help=", ".join(cases()))
    parser.add_argument("--seconds", type=int, default=2, help="length of a turn in seconds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--io-threads", type=int)
    args = parser.parse_args()
    args.other = build(args.revision)
    print(f"{machine()}, shared with the load generator; {args.rounds} rounds of {args.seconds} s each", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data)
        write_table(data)
        with open(os.path.join(data, "matrix.npy"), "wb") as file:
            file.write(daemon.npy("float32", [MATRIX, MATRIX], floats(i % 7 for i in range(MATRIX * MATRIX)).tobytes()))
        for name, case in cases().items():
            if args.only in (None, name):
                run(name, case, args, folder, data)


if __name__ == "__main__":
    main()
