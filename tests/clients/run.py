#!/usr/bin/env python3
"""Runs the examples of api/clients and of the documents against a daemon and checks what they print.

    run.py NAME... [--binary PATH]        names: curl python triton node go c readme

readme: README.md, and those of the ops' folders in kernels/.

If the runtime or library of a client is not installed, that client is skipped, with the reason; exit status 77 means
that all were skipped.  The C client is compiled first.  tritonclient is used from the virtual environment that
tests/oip/run.py makes, or from this Python.
"""
import argparse, os, re, shlex, shutil, subprocess, sys, tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
EXAMPLES = os.path.join(ROOT, "api", "clients")
CACHE = os.environ.get("TENSORD_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tensord")

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


# ---------------------------------------------------------------- the examples
def curl(daemon, work):
    require("curl", "od")
    expect(run([os.path.join(EXAMPLES, "curl.sh"), "http://" + daemon.address]), CURL_OUTPUT)


def python(daemon, work):
    expect(run([sys.executable, os.path.join(EXAMPLES, "python.py"), "http://" + daemon.address]), OUTPUT)


def python_with_tritonclient():
    for program in os.path.join(CACHE, "oip-venv", "bin", "python"), sys.executable:
        if succeeds(program, "-c", "import tritonclient.http, numpy"):
            return program
    raise Skip("tritonclient is not installed: tests/oip/run.py fetches it")


def triton(daemon, work):
    expect(run([python_with_tritonclient(), os.path.join(EXAMPLES, "triton.py"), daemon.address]), TRITON_OUTPUT)


def node(daemon, work):
    require("node")
    version = run(["node", "--version"]).strip()
    if int(version.lstrip("v").split(".")[0]) < 18:
        raise Skip(f"node {version} is too old: the example needs 18")
    expect(run(["node", os.path.join(EXAMPLES, "node.mjs"), "http://" + daemon.address]), OUTPUT)


def go(daemon, work):
    require("go")
    caches = {"GOCACHE": os.path.join(work, "go-cache"), "GOPATH": os.path.join(work, "go-path"), "GOTOOLCHAIN": "local"}
    expect(run(["go", "run", os.path.join(EXAMPLES, "client.go"), "http://" + daemon.address],
               env={**os.environ, **caches}, cwd=work), OUTPUT)


def c(daemon, work):
    require("pkg-config")
    for library in "libcurl", "libcjson":
        if not succeeds("pkg-config", library):
            raise Skip(f"the headers of {library} are not installed")
    flags = run(["pkg-config", "--cflags", "--libs", "libcurl", "libcjson"]).split()
    program = os.path.join(work, "client")
    run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program,
         os.path.join(EXAMPLES, "client.c"), *flags])
    expect(run([program, "http://" + daemon.address]), OUTPUT)


# ---------------------------------------------------------------- README.md, kernels/*/README.md
def blocks(text):
    """(language, lines) of each fenced block"""
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        yield language, body.splitlines()


def unfinished(command):
    try:
        shlex.split(command)
    except ValueError:
        return True
    return command.endswith("\\")


def commands(lines):
    """(command, lines of the reply or None) of each curl command; "$ " before it means that a reply follows"""
    at = 0
    while at < len(lines):
        shown, command = lines[at].startswith("$ curl "), lines[at].removeprefix("$ ")
        at += 1
        if not command.startswith("curl "):
            continue
        while unfinished(command):
            command, at = command + "\n" + lines[at], at + 1
        reply = []
        while shown and at < len(lines) and not lines[at].startswith("$ "):
            reply, at = reply + [lines[at]], at + 1
        yield command, reply if shown else None


def same(printed, shown):
    """whether the reply is as shown; an ellipsis matches anything, white space is ignored"""
    pattern = ".*?".join(re.escape(re.sub(r"\s", "", part)) for part in shown.split("…"))
    return re.fullmatch(pattern, re.sub(r"\s", "", printed), re.S) is not None


def check_command(command, reply, daemon, work):
    printed = run(["bash", "-c", command.replace("localhost:8080", daemon.address)], cwd=work)
    if reply is None and '"code":' in printed:
        raise AssertionError(f"{command}\nwas answered with\n{printed}")
    if reply is not None and not same(printed, "".join(reply)):
        raise AssertionError(f"{command}\nprinted\n{printed}\ninstead of\n" + "\n".join(reply))


def check_python(lines, daemon, work):
    """checks that print() calls print what the comments after them show"""
    text = "\n".join(lines).replace("localhost:8080", daemon.address)
    program = python_with_tritonclient() if "tritonclient" in text else sys.executable
    printed = run([program, "-c", text], cwd=work)
    shown = "".join(re.findall(r"^.*print\(.*  # (.*)$", text, re.M))
    if not shown or not same(printed, shown):
        raise AssertionError(f"{text}\nprinted\n{printed}\ninstead of\n{shown}")


def documents():
    with open(os.path.join(ROOT, "kernels", "ops.def"), encoding="utf-8") as f:
        folders = re.findall(r"^TD_OP\((\w+), \w+\)$", f.read(), re.M)
    return ["README.md", *(os.path.join("kernels", folder, "README.md") for folder in dict.fromkeys(folders))]


def check_document(path, daemon, work):
    """checks a document; the number of its examples"""
    ran = 0
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read()
    for language, lines in blocks(text):
        if language == "python":
            try:
                check_python(lines, daemon, work)
                ran += 1
            except Skip as e:
                print(f"a block of Python is skipped: {e}")
        for command, reply in commands(lines):
            if "minilm" not in command:  # the model of tests/real
                check_command(command, reply, daemon, work)
                ran += 1
    if ran == 0:
        raise AssertionError(f"{path} has no command")
    return ran


def readme(daemon, work):
    require("curl", "bash")
    os.symlink(os.path.abspath(os.path.join(ROOT, "deploy")), os.path.join(work, "deploy"))
    ran = sum(check_document(path, daemon, work) for path in documents())
    print(f"{ran} examples of {len(documents())} documents print what they show")


CLIENTS = {f.__name__: f for f in (curl, python, triton, node, go, c, readme)}


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
            with Daemon("--data-dir", os.path.join(ROOT, "deploy", "sample")) as daemon, \
                    tempfile.TemporaryDirectory(prefix="tensord-clients-", ignore_cleanup_errors=True) as work:
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
