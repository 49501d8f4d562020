#!/usr/bin/env python3
"""Checks compose.yaml: podman-compose accepts it, the daemon its variables and folder, and its container stops after the drain.

    compose.py [--binary PATH]

Exit status 77 if podman is not installed, or podman-compose cannot be. tests/deploy/container.sh runs the image itself.
"""
import argparse, json, os, re, shutil, subprocess, sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, HERE)
import packages


def configuration(text):
    """the document that podman-compose makes of a file"""
    if not shutil.which("podman"):  # podman-compose asks it for its version
        raise packages.Unavailable("podman is not installed")
    program = packages.program("podman-compose")
    python = os.path.join(os.path.dirname(program), "python")
    done = subprocess.run([python, "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"], input=text,
                          capture_output=True, text=True, check=True)
    parsed = subprocess.run([program, "--file", "-", "config"], input=text, capture_output=True, text=True, cwd=ROOT)
    if parsed.returncode != 0:
        raise AssertionError(parsed.stderr)
    return json.loads(done.stdout)


def with_tokens(text):
    """the file as it is after the comments about tokens are taken off"""
    return re.sub(r"(?m)^( *)# ((?:TENSORD_TOKEN_FILE|secrets|  tokens|    file):?.*)$", r"\1\2", text)


def check(binary, text):
    service = configuration(text)["services"]["tensord"]
    folder, inside, *_ = service["volumes"][0].split(":")
    assert inside == "/data", inside
    variables = {name: value for name, value in service["environment"].items() if name != "TENSORD_TOKEN_FILE"}
    done = subprocess.run([binary, "--check-config", "--listen", "127.0.0.1:0", "--data-dir", os.path.join(ROOT, folder)],
                          env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unknown_variable" not in done.stderr, done.stderr
    grace_ms = 1000 * int(service["stop_grace_period"].removesuffix("s"))
    assert grace_ms > int(variables["TENSORD_DRAIN_TIMEOUT_MS"]), "the container is killed before the drain ends"
    assert service["ports"][0].startswith("127.0.0.1:"), "the port is open to other machines"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "tensord"), help="the daemon (default: build/tensord)")
    binary = os.path.abspath(parser.parse_args().binary)
    with open(os.path.join(ROOT, "compose.yaml"), encoding="utf-8") as file:
        text = file.read()
    try:
        check(binary, text)
        check(binary, with_tokens(text))
        assert "secrets" in configuration(with_tokens(text)), "the comments about tokens are not a part of the file"
    except packages.Unavailable as e:
        print(f"skipped: {e}")
        sys.exit(77)
    print("ok: compose.yaml is valid, with and without tokens")


if __name__ == "__main__":
    main()
