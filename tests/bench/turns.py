"""Measures servers in alternating turns, and the fraction of the machine that other processes used in the meantime."""
import collections, os, platform, resource, signal, statistics, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "http"))

TICK = 1 / os.sysconf("SC_CLK_TCK")
CONNECTIONS = 16
QUIET = 0.05  # of the machine


class Turn(collections.namedtuple("Turn", "rate user system p99 others")):
    """rate: requests per second; user, system: seconds for each request; p99: microseconds; others: fraction of the machine
    that other processes used"""

    @property
    def cpu(self):
        return self.user + self.system



class Broken(Exception):
    """Raised for an error, not for a bad figure."""


# ---------------------------------------------------------------- servers
class DropServer:
    def __init__(self, tools, reply=64):
        self.host = "127.0.0.1"
        self.process = subprocess.Popen([os.path.join(tools, "drop_server"), "--reply", str(reply)],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline() or 0)
        if not self.port:
            raise Broken("the drop server did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def cpu_times(process):
    """Returns the (user, system) time of all threads so far."""
    with open(f"/proc/{process.pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[11]) * TICK, int(fields[12]) * TICK


def cpu_seconds(process):
    return sum(cpu_times(process))


def machine_seconds():
    """Returns the (busy, total) time of all CPUs so far."""
    with open("/proc/stat") as f:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, f.readline().split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    return busy * TICK, (busy + idle + iowait) * TICK


def own_seconds():
    """Returns the CPU time of this process and of the clients that have ended."""
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in used)


# ---------------------------------------------------------------- turns
def output_of(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        raise Broken(f"{os.path.basename(command[0])} ended with {done.returncode}: {done.stdout.strip()[-500:]}")
    return done.stdout


def output_during(command, work):
    """Returns the output of a command that is interrupted after work() returns."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
    try:
        work()
    finally:
        process.send_signal(signal.SIGINT)
        output = process.communicate()[0]
    return output


def turn(server, client, figures, beside=()):
    """Runs one turn. client() returns its output; figures(output) returns (requests, rate, p99); beside: other servers whose
    CPU time does not count as use by others."""
    def beside_seconds():
        return sum(cpu_seconds(s.process) for s in beside)
    before, (busy, capacity), own = cpu_times(server.process), machine_seconds(), own_seconds() + beside_seconds()
    output = client()
    user, system = (now - then for now, then in zip(cpu_times(server.process), before))
    others = machine_seconds()[0] - busy - (own_seconds() + beside_seconds() - own) - user - system
    capacity = machine_seconds()[1] - capacity
    requests, rate, p99 = figures(output)
    return Turn(rate, user / requests, system / requests, p99, max(0.0, others / capacity))


def header_lines(request):
    return [f"{name}: {value}" for name, value in request.headers().items()]


def wrk_command(server, request, body_file, seconds, pause_ms=0, connections=CONNECTIONS):
    """pause_ms: average pause of each connection between two requests"""
    return ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s",
            os.path.join(HERE, "lua", "post.lua"), f"http://{server.host}:{server.port}{request.path}", "--",
            body_file, str(pause_ms), *header_lines(request)]


def wrk_figures(output):
    line = next((l for l in output.splitlines() if l.startswith("figures ")), None)
    if not line:
        raise Broken("wrk printed no figures: " + output.strip()[-500:])
    requests, us, failed, p99 = map(int, line.split()[1:])
    if failed or not requests:
        raise Broken(f"{failed} of {requests} requests failed")
    return requests, requests / us * 1e6, p99


def wrk_turn(server, request, body_file, seconds, connections=CONNECTIONS):
    command = wrk_command(server, request, body_file, seconds, connections=connections)
    return turn(server, lambda: output_of(command), wrk_figures)


def upload_command(server, method, request, body_file, uploads, tools, mb_per_s=0):
    return [os.path.join(tools, "upload_client"), str(server.port), method, request.path, body_file, str(uploads),
            str(mb_per_s), *header_lines(request)]


def upload_times(output):
    """Returns the duration of each upload in seconds."""
    return [int(l) / 1e9 for l in output.split()]


def upload_turn(server, request, body_file, uploads, tools):
    def figures(output):
        times = upload_times(output)
        return len(times), 1 / statistics.median(times), 0
    command = upload_command(server, "POST", request, body_file, uploads, tools)
    return turn(server, lambda: output_of(command), figures)


def take_turns(one_turn, server, baseline, rounds, *further):
    """Returns [(turn of the server, turn of the baseline, turns of the other servers)], after a warm-up of each."""
    servers = (server, baseline, *further)

    def use_by_others(turns):
        return max(turn.others for turn in turns)

    def one_round():
        return tuple([one_turn(s) for s in servers])
    one_round()
    taken = []
    while len(taken) < 3 * rounds and sum(use_by_others(turns) < QUIET for turns in taken) < rounds:
        taken.append(one_round())
    return sorted(taken, key=use_by_others)[:rounds]


# ---------------------------------------------------------------- output
def spread(ratios):
    return f"{statistics.median(ratios):5.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def row(name, measured, baseline, ratio, target, cpu="", others=""):
    print(f"{name:19} {measured:>13} {baseline:>13}  {ratio:18} {target:14} {cpu:45} {others}".rstrip(), flush=True)


def report(name, pairs, unit, scale, target, cpu_target=""):
    rates = [statistics.median(p[i].rate for p in pairs) * scale for i in (0, 1)]
    cpu = statistics.median(a.cpu for a, _ in pairs)
    row(name, *(f"{r:,.0f} {unit}" if r >= 100 else f"{r:.2f} {unit}" for r in rates),
        spread([a.rate / b.rate for a, b in pairs]), target,
        (f"{cpu * 1e6:6.1f} us" if cpu < 1e-3 else f"{cpu * 1e3:6.1f} ms")
        + f" {spread([a.cpu / b.cpu for a, b in pairs])} {cpu_target}",
        f"{100 * statistics.median((a.others + b.others) / 2 for a, b in pairs):4.0f} %")


def report_p99(name, pairs, target):
    p99 = [statistics.median(p[i].p99 for p in pairs) for i in (0, 1)]
    row(name, *(f"{us:,.0f} us" for us in p99), spread([a.p99 / b.p99 for a, b in pairs]), target)


# ---------------------------------------------------------------- memory and machine
def resident(process, what="VmRSS"):
    with open(f"/proc/{process.pid}/status") as f:
        return next(int(l.split()[1]) * 1024 for l in f if l.startswith(what + ":"))


def resident_of_file(process, name):
    """Returns how many bytes of a mapped file are resident."""
    total, inside = 0, False
    with open(f"/proc/{process.pid}/smaps") as f:
        for line in f:
            if "-" in line.split(" ", 1)[0]:
                inside = line.rstrip().endswith("/" + name)
            elif inside and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
    return total


def machine():
    with open("/proc/cpuinfo") as f:
        info = dict(l.split(":", 1) for l in f.read().split("\n\n")[0].replace("\t", "").splitlines())
    family = "".join(f" {key.split()[-1]} {info[key].strip()}" for key in ("cpu family", "model") if key in info)
    return f"{info.get('model name', platform.machine()).strip()}{family}, {os.cpu_count()} cores"
