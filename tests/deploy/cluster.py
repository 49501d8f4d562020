#!/usr/bin/env python3
"""Runs deploy/cluster/run.sh and the commands of docs/cluster.md for it, under a client that never retries.

    cluster.py

Everything is on free ports. Exit status 77, with the reason, without haproxy or prometheus.
"""
import os, re, shutil, signal, socket, subprocess, sys, threading, urllib.request

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "http"))
from daemon import WAIT_LIMIT, Raw, environment, eventually, free_ports, http_request, temporary_folder

OFFSETS = (0, 1, 2, 3, 4, 5, 11, 12, 13)  # from PORT, as the script says
LIMIT_S = 600  # only ends a hang
REQUEST = b'{"params": {"ref": "planets"}, "indices": [2]}'


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_port():
    """the first of the ports that the script uses"""
    while True:
        port = free_ports(1)[0]
        if port < 65000 and all(is_free(port + offset) for offset in OFFSETS):
            return port


def documented():
    """the commands of the section, without the one that starts the script"""
    with open(os.path.join(ROOT, "docs", "cluster.md"), encoding="utf-8") as file:
        section = file.read().split("## A cluster on one machine\n")[1].split("\n## ")[0]
    start, commands = re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)
    assert start == "deploy/cluster/run.sh\n", start
    return commands


class Client(threading.Thread):
    """sends requests until told to end; statuses counts the replies, None is a connection that ended instead"""

    def __init__(self, port, token):
        super().__init__(daemon=True)
        self.host, self.port, self.going, self.statuses = "127.0.0.1", port, True, {}
        self.request = http_request("POST", "/v1/gather", REQUEST, [f"Authorization: Bearer {token}"])

    def run(self):
        with Raw(self) as raw:
            while self.going:
                raw.send(self.request)
                reply = raw.reply()
                status = reply.status if reply else None
                self.statuses[status] = self.statuses.get(status, 0) + 1
                if status is None:
                    return


def run(commands, port, folder):
    """what the commands print, on these ports and in this folder"""
    for offset in sorted(OFFSETS, reverse=True):
        commands = commands.replace(f"localhost:{8080 + offset}/", f"localhost:{port + offset}/")
    commands = commands.replace("build/cluster", folder)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S, env=environment())
    assert done.returncode == 0, f"the commands ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def answers(url, text):
    try:
        with urllib.request.urlopen(url, timeout=WAIT_LIMIT) as reply:
            return text in reply.read().decode()
    except OSError:
        return False


def runs(pid, port):
    """whether the process is one of the daemons: another may have got its number meanwhile"""
    try:
        with open(f"/proc/{pid.strip()}/cmdline", encoding="utf-8") as file:
            return f"127.0.0.1:{port}" in file.read()
    except OSError:
        return False


def pids(folder):
    def pid(number):
        with open(os.path.join(folder, f"{number}.pid"), encoding="ascii") as file:
            return file.read()
    return [pid(number) for number in (1, 2, 3)]


def check(port, folder):
    with open(os.path.join(folder, "tokens"), encoding="ascii") as file:
        client = Client(port, file.read().split()[1])
    before = pids(folder)
    eventually(lambda: answers(f"http://127.0.0.1:{port + 5}/api/v1/query?query=sum(up)", '"3"'), "the first scrape")
    client.start()
    printed = run(documented(), port, folder)
    assert "[[5.97,6378.0,149.6,1.0]]" in printed, printed
    for server in "one", "two", "three":
        assert f'server="{server}",state="UP"}} 1' in printed, printed
    assert '"status":"success"' in printed and "TensordDown" in printed, printed
    eventually(lambda: sum(a != b for a, b in zip(before, pids(folder))) == 2, "the start of other daemons")
    eventually(lambda: answers(f"http://127.0.0.1:{port + 4}/metrics", 'haproxy_backend_agg_server_status{proxy="replicas",state="UP"} 3'),
               "that there are three replicas")
    client.going = False
    client.join(WAIT_LIMIT)
    assert set(client.statuses) == {200}, f"replies: {client.statuses}"
    return f"{client.statuses[200]} requests"


def main():
    for program in "haproxy", "prometheus":
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            print(f"skipped: {program} is not installed")
            sys.exit(77)
    folder, port = temporary_folder(), free_port()
    script = subprocess.Popen([os.path.join(ROOT, "deploy", "cluster", "run.sh"), str(port), folder], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
    failure = None
    try:
        line = script.stdout.readline()
        assert line.startswith("cluster: ready"), line
        done = check(port, folder)
    except AssertionError as e:
        failure = e
    daemons = pids(folder)
    script.send_signal(signal.SIGTERM)
    text = script.communicate(timeout=LIMIT_S)[0]
    left = [pid for number, pid in enumerate(daemons, 1) if runs(pid, port + number)]
    if not failure and (text != "cluster: stopped\n" or left):
        failure = f"after SIGTERM the script printed {text!r} and left {left}"
    print(f"FAIL {failure}\n0 passed, 1 failed" if failure else f"{done}; 1 passed, 0 failed")
    sys.exit(1 if failure else 0)


if __name__ == "__main__":
    main()
