#!/usr/bin/env python3
"""Starts tensord and replays the conformance cases of every op that it lists, once over every transport, those of einsum as
plans, and all on the reference device.  What depends on the case and not on HTTP, test_cases.c tests in process.

    test_all.py [--binary PATH] [--only SUBSTR] [--transport NAME] [--gpu DEVICE]

With --gpu only on that device, named as in tensord's option; with --transport only over that transport, without
plans.  Prints a line per run, and one with the sums; exit status 0 only if all passed.
"""
import argparse, glob, json, os, re, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRANSPORTS = ("json", "json-nested", "json-base64", "safetensors")


def ops_of(path):
    """Returns the ops of the cases in a file; "programs" is not an op."""
    with open(path, encoding="utf-8") as f:
        return {json.loads(line)["op"] for line in f} - {"programs"}


def main():
    parser = argparse.ArgumentParser(description="Runs all conformance cases against daemons that it starts.")
    parser.add_argument("--binary", help="the daemon (default: build/tensord)")
    parser.add_argument("--only", default="", metavar="SUBSTR", help="only cases whose name contains SUBSTR")
    parser.add_argument("--transport", choices=TRANSPORTS, help="only over this one, without plans")
    parser.add_argument("--gpu", metavar="DEVICE", help="only on this device: cuda, or the path of a plugin")
    args = parser.parse_args()
    if args.binary:
        os.environ["TD_TEST_BINARY"] = os.path.abspath(args.binary)
    sys.path.insert(0, os.path.join(HERE, "..", "http"))
    sys.dont_write_bytecode = True
    import daemon
    if not os.access(daemon.BINARY, os.X_OK):
        sys.exit(f"test_all.py: there is no daemon at {os.path.abspath(daemon.BINARY)}")

    failed, sums = False, [0, 0]
    cpu = {**{transport: ["--transport", transport] for transport in TRANSPORTS}, "plans": ["--plan"]}
    gpu = {f"gpu {transport}": ["--transport", transport, "--device", "gpu"] for transport in ("json", "safetensors")}
    for device, runs in ((args.gpu, gpu),) if args.gpu else (("off", cpu), ("reference", gpu)):
        with daemon.Daemon("--gpu", device, "--default-timeout-ms", "0") as server:
            with daemon.Client(server) as client:
                ops = {op["name"] for op in client.request("GET", "/v1/ops").json()["ops"]}
            files = sorted(glob.glob(os.path.join(HERE, "cases", "*.jsonl")))
            tested = set().union(*map(ops_of, files))
            if ops - tested or not ops:
                print(f"FAIL no cases for {', '.join(sorted(ops - tested)) or 'any op'}")
                failed = True
            if tested - ops:
                print(f"FAIL the daemon has no op {', '.join(sorted(tested - ops))}")
                failed = True
            for what, options in runs.items():
                if what == "plans" and args.only:  # may match no einsum case
                    continue
                if args.transport and args.transport not in options:
                    continue
                command = [sys.executable, os.path.join(HERE, "run.py"), "--url", f"http://{server.address}", *options,
                           "--jobs", "4", "--only", args.only, *files]
                result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
                *lines, summary = result.stdout.strip().splitlines() or ["nothing ran"]
                print("\n".join([*lines, f"{what:16} {summary}"]), flush=True)
                failed = failed or result.returncode != 0
                counts = re.match(r"(\d+) passed, (\d+) failed", summary)
                sums = [sums[0] + int(counts[1]), sums[1] + int(counts[2])] if counts else sums
    print(f"{sums[0]} passed, {sums[1]} failed in all")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
