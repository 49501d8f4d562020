"""Runs HAProxy, Envoy, nginx and Caddy with the configurations of deploy/, on free ports of loopback."""
import os, re, shutil, subprocess, sys, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "http"))
import packages
from daemon import WAIT_LIMIT, eventually, free_ports, temporary_folder

# the ports in the files: of clients, of the three replicas, of the proxy's own metrics
PORTS = {"haproxy": (8080, 8081, 8082, 8083, 8404), "envoy": (8080, 8081, 8082, 8083, 9901),
         "nginx": (8080, 8081, 8082, 8083), "caddy": (8080, 8081, 8082, 8083)}
FILES = {"haproxy": "deploy/haproxy/tensord.cfg", "envoy": "deploy/envoy/tensord.yaml",
         "nginx": "deploy/nginx/tensord.conf", "caddy": "deploy/caddy/Caddyfile"}
# these count what they send again, and ask /readyz
MEASURED = ("haproxy", "envoy")
# what a test replaces: the port, the interval of the checks, and the times that a connection and a check may take
PORT = {"haproxy": r"(127\.0\.0\.1:)%s\b", "envoy": r"(127\.0\.0\.1, port_value: )%s\b",
        "nginx": r"(127\.0\.0\.1:)%s\b", "caddy": r"(?m)(^[^#\n]*(?:127\.0\.0\.1|http://):)%s\b"}
INTERVAL = {"haproxy": (r"(\binter )1s\b", 1, "ms"), "envoy": (r"(interval: )1s\b", 1000, "s"), "caddy": (r"(health_interval )1s\b", 1, "ms")}
LIMIT = {"haproxy": (r"(\btimeout (?:connect|check) )2s\b", "1h", 2), "envoy": (r"(\btimeout: |connect_timeout: )2s\b", "3600s", 2),
         "nginx": (r"(proxy_connect_timeout )2s\b", "1h", 1), "caddy": (r"((?:dial|health)_timeout )2s\b", "1h", 2)}
# nginx's file is a part of its configuration
NGINX = """error_log stderr warn;
pid nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include PATH;
}
"""


def program(kind):
    """the path of the proxy; packages.Unavailable if there is none"""
    if kind == "envoy":
        return packages.program("envoy")
    if kind in ("nginx", "caddy"):
        return packages.distributed(kind)
    found = shutil.which(kind, path=os.environ["PATH"] + ":/usr/sbin")
    if not found:
        raise packages.Unavailable(f"{kind} is not installed")
    return found


def nginx_command(path, check):
    folder = temporary_folder()
    main = os.path.join(folder, "main.conf")
    with open(main, "w", encoding="utf-8") as file:
        file.write(NGINX.replace("PATH", os.path.abspath(path)))
    return [program("nginx"), "-p", folder, "-e", "stderr", "-c", main, *(["-t"] if check else ["-g", "daemon off; master_process off;"])]


def command(kind, path, check=False):
    if kind == "haproxy":
        return [program(kind), "-c" if check else "-db", "-f", path]
    if kind == "nginx":
        return nginx_command(path, check)
    if kind == "caddy":
        return [program(kind), "validate" if check else "run", "--config", path, "--adapter", "caddyfile"]
    return [program(kind), "-c", path, "--log-level", "warning",
            *(["--mode", "validate"] if check else ["--use-dynamic-base-id", "--concurrency", "2"])]


class Proxy:
    """A proxy that runs within `with`. interval_ms replaces the interval of health checks, so that a test need not wait for seconds.

    The times that a connection and a check may take are an hour: a busy machine makes no difference.
    """

    def __init__(self, kind, interval_ms):
        self.kind = kind
        ports = free_ports(5)
        self.port, self.replicas, self.metrics_port = ports[0], ports[1:4], ports[4]  # the last is not every proxy's
        self.host = "127.0.0.1"
        with open(os.path.join(ROOT, FILES[kind]), encoding="utf-8") as file:
            text = file.read()
        for shipped, port in zip(PORTS[kind], ports):
            text, found = re.subn(PORT[kind] % shipped, rf"\g<1>{port}", text)
            assert found == 1, f"{FILES[kind]} has the port {shipped} {found} times"
        if kind in INTERVAL:
            interval, divisor, unit = INTERVAL[kind]
            text, found = re.subn(interval, rf"\g<1>{interval_ms / divisor:g}{unit}", text)
            assert found >= 1, f"{FILES[kind]} has no interval of 1s"
        limit, longest, times = LIMIT[kind]
        text, found = re.subn(limit, rf"\g<1>{longest}", text)
        assert found == times, f"{FILES[kind]} has {found} times of 2s"
        folder = temporary_folder()
        path = os.path.join(folder, os.path.basename(FILES[kind]))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.path, self.log = path, os.path.join(folder, "log")

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command(self.kind, self.path), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def metrics(self):
        """{name with labels: value}"""
        path = "/metrics" if self.kind == "haproxy" else "/stats/prometheus"
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=WAIT_LIMIT) as reply:
            lines = reply.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] not in ("", "#"))}

    def healthy(self):
        """how many replicas get requests; of a proxy that does not say it, all if one does"""
        if self.kind in ("nginx", "caddy"):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=WAIT_LIMIT):
                    return 3
            except OSError:
                return -1
        try:
            metrics = self.metrics()
        except OSError:
            return -1
        if self.kind == "haproxy":
            return sum(metrics.get(f'haproxy_server_status{{proxy="replicas",server="{name}",state="UP"}}', 0)
                       for name in ("one", "two", "three"))
        ejected = metrics.get('envoy_cluster_outlier_detection_ejections_active{envoy_cluster_name="replicas"}', 0)
        return metrics.get('envoy_cluster_membership_healthy{envoy_cluster_name="replicas"}', 0) if not ejected else 0

    def requests(self):
        """how many requests clients have sent"""
        name = {"haproxy": 'haproxy_frontend_http_requests_total{proxy="clients"}',
                "envoy": 'envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="clients"}'}[self.kind]
        return int(self.metrics()[name])

    def retries(self):
        """how many requests were sent again"""
        name = {"haproxy": 'haproxy_backend_retry_warnings_total{proxy="replicas"}',
                "envoy": 'envoy_cluster_upstream_rq_retry{envoy_cluster_name="replicas"}'}[self.kind]
        return int(self.metrics()[name])

    def wait_healthy(self, count=3):
        try:
            eventually(lambda: self.healthy() == count or self.process.poll() is not None)
            assert self.process.poll() is None
        except AssertionError:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                raise AssertionError(f"{self.kind}: {self.healthy()} of {count} replicas are healthy; its log ends with\n"
                                     + log.read()[-2000:]) from None
