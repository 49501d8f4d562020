#!/usr/bin/env python3
"""Runs the examples of api/clients against a daemon and checks what they print.

    run.py NAME... [--binary PATH]        names: curl python triton node go c

If the runtime or library of a client is not installed, that client is skipped, with the reason; exit status 77 means
that all were skipped.  The C client is compiled first.  tritonclient is that of this Python, or of the virtual environment of
tests/oip/run.py, which is made if it is not there.
"""
import argparse, importlib.util, os, re, shutil, subprocess, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
EXAMPLES = os.path.join(ROOT, "api", "clients")
spec = importlib.util.spec_from_file_location("oip_run", os.path.join(HERE, "..", "oip", "run.py"))
oip_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oip_run)

# Output of the clients; brackets, commas and spaces, which differ between languages, are not compared.
OUTPUT = """\
table: float32 [3, 2]
json: [[4.5, 5.5], [0.5, 1.5]]
binary: 4.5 5.5 0.5 1.5
einsum: [3.5, 9.5, 15.5]
scatter: [7.5, 8.5]
error: INDEX_OUT_OF_BOUNDS: indices[1] is 7, the bound 3
deleted
"""
# tritonclient reports only the message and the status of an error.
TRITON_OUTPUT = re.sub("error: .*", "error: 400: gather: indices[1] = 7 is not in [0, 3)", OUTPUT)
CURL_OUTPUT = """\
put: 201
{"output":{"dtype":"float32","shape":[2,2],"data":[[4.5,5.5],[0.5,1.5]]}}
binary: 4.5 5.5 0.5 1.5
{"output":{"dtype":"float32","shape":[3],"data":[3.5,9.5,15.5]}}
{"output":{"dtype":"float32","shape":[2],"data":[7.5,8.5]}}
{"type":"/problems/index-out-of-bounds","title":"Index out of bounds","status":422,\
"detail":"indices[1] = 7 is not in [0, 3)","code":"INDEX_OUT_OF_BOUNDS","op":"gather","input":"indices",\
"position":[1],"index":7,"bound":3,"axis":0,"bad_count":1,"request_id":"curl-example"}
status: 422
delete: 204
"""


class Skip(Exception):
    pass


def require(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed")


def run(command, **how):
    """the output of a command, which must succeed and print nothing to stderr"""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **how)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def succeeds(*command):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode == 0
    except OSError:
        return False


def words(text):
    """the lines of the text, without brackets and commas and with single spaces"""
    return [re.sub(r"[][,\s]+", " ", line).strip() for line in text.splitlines()]


def expect(printed, expected):
    if words(printed) != words(expected):
        raise AssertionError(f"it printed\n{printed}instead of\n{expected}")


def check(command, daemon, **how):
    """The client prints what it should; a server that refuses its table ends it, with the reason."""
    expect(run([*command, "http://" + daemon.address], **how), OUTPUT)
    refused = subprocess.run([*command, f"http://{daemon.address}/elsewhere"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **how)
    if refused.returncode == 0 or refused.stdout or "there is nothing at /elsewhere/v1/tensors/" not in refused.stderr:
        raise AssertionError(f"{command} ended with {refused.returncode} although its table was refused:\n{refused.stdout}{refused.stderr}")


# ---------------------------------------------------------------- the examples
def curl(daemon, work):
    require("curl", "od")
    expect(run([os.path.join(EXAMPLES, "curl.sh"), "http://" + daemon.address]), CURL_OUTPUT)


def python(daemon, work):
    check([sys.executable, os.path.join(EXAMPLES, "python.py")], daemon)


def python_with_tritonclient():
    if succeeds(sys.executable, "-c", "import tritonclient.http, numpy"):
        return sys.executable
    why = oip_run.complete_venv()
    if why:
        raise Skip(why)
    return os.path.join(oip_run.VENV, "bin", "python")


def triton(daemon, work):
    expect(run([python_with_tritonclient(), os.path.join(EXAMPLES, "triton.py"), daemon.address]), TRITON_OUTPUT)


def node(daemon, work):
    require("node")
    version = run(["node", "--version"]).strip()
    if int(version.lstrip("v").split(".")[0]) < 18:
        raise Skip(f"node {version} is too old: the example needs 18")
    check(["node", os.path.join(EXAMPLES, "node.mjs")], daemon)


def go(daemon, work):
    require("go")
    caches = {"GOCACHE": os.path.join(work, "go-cache"), "GOPATH": os.path.join(work, "go-path"), "GOTOOLCHAIN": "local"}
    check(["go", "run", os.path.join(EXAMPLES, "client.go")], daemon, env={**os.environ, **caches}, cwd=work)


def c(daemon, work):
    require("pkg-config")
    for library in "libcurl", "libcjson":
        if not succeeds("pkg-config", library):
            raise Skip(f"the headers of {library} are not installed")
    flags = run(["pkg-config", "--cflags", "--libs", "libcurl", "libcjson"]).split()
    program = os.path.join(work, "client")
    run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program,
         os.path.join(EXAMPLES, "client.c"), *flags])
    check([program], daemon)


CLIENTS = {f.__name__: f for f in (curl, python, triton, node, go, c)}


def main():
    parser = argparse.ArgumentParser(description="Runs the client examples.")
    parser.add_argument("names", nargs="+", choices=CLIENTS, metavar="NAME", help=", ".join(CLIENTS))
    parser.add_argument("--binary", help="the daemon (default: build/tensord)")
    args = parser.parse_args()
    os.environ["TD_TEST_BINARY"] = os.path.abspath(args.binary or os.path.join(ROOT, "build", "tensord"))
    sys.path.insert(0, os.path.join(HERE, "..", "http"))
    from daemon import Daemon
    passed = failed = 0
    for name in args.names:
        try:
            with tempfile.TemporaryDirectory(prefix="tensord-clients-", ignore_cleanup_errors=True) as work:
                # A copy: daemons on one folder share its lock, and one opens a descriptor more when the lock's holder ends.
                sample = shutil.copytree(os.path.join(ROOT, "deploy", "sample"), os.path.join(work, "sample"))
                with Daemon("--data-dir", sample) as daemon:
                    CLIENTS[name](daemon, work)
            passed += 1
        except Skip as e:
            print(f"skipped: {e}")
        except (AssertionError, OSError, subprocess.TimeoutExpired) as e:
            failed += 1
            print(f"FAIL {name}: {e}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0 if passed else 77)


if __name__ == "__main__":
    main()
