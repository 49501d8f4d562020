#!/usr/bin/env python3
"""prometheus.py - checks deploy/prometheus and deploy/grafana with promtool and a running Prometheus.

    prometheus.py [BINARY]

The configuration and the rules are valid, each alert fires when it should (promtool), and the documents explain it. A Prometheus that has them
scrapes a daemon under some load: it can evaluate each rule, and each query of the dashboard has a result. Prints one line
per error and exits with 1; else prints a line that ends with "passed".
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "http"))
import daemon as tensord

CONFIG, RULES_TEST = "deploy/prometheus/prometheus.yml", "deploy/prometheus/tensord.rules.test.yml"
DASHBOARD, DOCUMENT = "deploy/grafana/tensord.json", "docs/operation.md"
SCRAPE_S, RATE_WINDOW = 0.5, "1h"  # all scrapes are in the window, however slow they are


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=ROOT, capture_output=True, text=True)
    return [] if done.returncode == 0 else [f"promtool {' '.join(arguments)}: {done.stdout}{done.stderr}"]


def undocumented_alerts():
    with open(os.path.join(ROOT, "deploy/prometheus/tensord.rules.yml"), encoding="utf-8") as file:
        alerts = re.findall(r"- alert: (\w+)", file.read())
    with open(os.path.join(ROOT, DOCUMENT), encoding="utf-8") as file:
        document = file.read()
    return [f"{DOCUMENT} has no row for the alert {alert}" for alert in alerts if f"\n| {alert} |" not in document]


# ---------------------------------------------------------------- the dashboard
def read_dashboard():
    with open(os.path.join(ROOT, DASHBOARD), encoding="utf-8") as file:
        return json.load(file)


def check_dashboard(dashboard):
    """what is wrong with it beside its queries"""
    panels = dashboard["panels"]
    wrong = [f"{DASHBOARD}: two panels have the id {i}" for i in {p["id"] for p in panels} if sum(p["id"] == i for p in panels) > 1]
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] + place["w"] > 24:
            wrong.append(f"{DASHBOARD}: {panel['title']} is wider than the 24 columns")
        for other in panels:
            at = other["gridPos"]
            if other["id"] > panel["id"] and at["x"] < place["x"] + place["w"] and place["x"] < at["x"] + at["w"] \
                    and at["y"] < place["y"] + place["h"] and place["y"] < at["y"] + at["h"]:
                wrong.append(f"{DASHBOARD}: {panel['title']} and {other['title']} overlap")
        if panel["type"] != "row" and not panel["fieldConfig"]["defaults"].get("unit"):
            wrong.append(f"{DASHBOARD}: {panel['title']} has no unit")
        if panel["type"] != "row" and panel["datasource"]["uid"] != "${datasource}":
            wrong.append(f"{DASHBOARD}: {panel['title']} does not use the variable of the data source")
        if any("by (op" in target["expr"] and "topk(" not in target["expr"] for target in panel.get("targets", [])):
            wrong.append(f"{DASHBOARD}: {panel['title']} has a line for every op in use")
    return wrong


def queries(dashboard):
    """(where, query) of each query, with values in the place of the variables"""
    found = [(p["title"], target["expr"]) for p in dashboard["panels"] for target in p.get("targets", [])]
    found += [(note["name"], note["expr"]) for note in dashboard["annotations"]["list"]]
    for where, query in found:
        for name, value in (("$job", "tensord"), ("$instance", ".*"), ("$__rate_interval", RATE_WINDOW)):
            query = query.replace(name, value)
        yield where, query


# ---------------------------------------------------------------- Prometheus
class Prometheus:
    """one that scrapes the daemon with the configuration of the tree, but for its targets and intervals"""

    def __init__(self, folder, target):
        shutil.copytree(os.path.join(ROOT, os.path.dirname(CONFIG)), os.path.join(folder, "etc"))
        path = os.path.join(folder, "etc", os.path.basename(CONFIG))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text, targets = re.subn(r"(targets:\s*- )\S+", rf"\g<1>{target}", text)
        text, intervals = re.subn(r"(scrape_interval|evaluation_interval): \S+", rf"\1: {int(SCRAPE_S * 1000)}ms", text)
        assert (targets, intervals) == (1, 2), f"{CONFIG} has {targets} lists of targets and {intervals} intervals, expected 1 and 2"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.address = f"127.0.0.1:{tensord.free_ports(1)[0]}"
        self.log = open(os.path.join(folder, "log"), "w+b")
        self.process = subprocess.Popen(["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder}/data",
                                         f"--web.listen-address={self.address}"], stdout=self.log, stderr=self.log)

    def ask(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=tensord.WAIT_LIMIT) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it reads its storage yet, and says so in plain text
                raise
            raise AssertionError(json.load(error).get("error")) from None

    def result(self, query):
        return self.ask("query", query=query)["result"]

    def wait_for(self, query, load):
        """gives the daemon something to do until the query has a result"""
        def has_result():
            load()
            try:
                return self.process.poll() is not None or self.result(query)
            except OSError:
                return False
        try:
            tensord.eventually(has_result)
            assert self.process.poll() is None
        except AssertionError:
            self.log.seek(0)
            raise AssertionError(f"Prometheus has no result for {query}; its log: {self.log.read().decode()[-1500:]}") from None

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def make_load(daemon):
    client = tensord.Client(daemon)
    client.request("PUT", "/v1/tensors/t", tensord.npy("<f4", [2, 2], bytes(16)), {"Content-Type": "application/x-npy"})

    def load():
        client.post("/v1/gather", {"params": {"ref": "t"}, "indices": [1, 0]})
        client.post("/v1/gather", {"params": {"ref": "t"}, "indices": [5]})
        client.post("/v1/gather", {"params": {"ref": "t"}, "indices": [1, 0], "device": "gpu"})
    return load


def faults(prometheus, dashboard):
    """what is wrong now"""
    wrong = []
    for group in prometheus.ask("rules")["groups"]:
        wrong += [f"the alert {rule['name']}: {rule['lastError']}" for rule in group["rules"] if rule.get("lastError")]
        wrong += [f"the alert {rule['name']} is {rule['state']}" for rule in group["rules"] if rule["state"] != "inactive"]
    for where, query in queries(dashboard):
        try:
            if not prometheus.result(query) and "changes(" not in query:
                wrong.append(f"{DASHBOARD}: {where}: no result: {query}")
        except AssertionError as error:
            wrong.append(f"{DASHBOARD}: {where}: {error}: {query}")
    return wrong


def check_running(folder, dashboard):
    """the faults that stay: a scrape that takes too long on a busy machine is none"""
    wrong = []

    def is_right():
        nonlocal wrong
        wrong = faults(prometheus, dashboard)
        return not wrong
    with tensord.Daemon("--gpu", "reference") as daemon:
        prometheus = Prometheus(folder, daemon.address)
        try:
            prometheus.wait_for(f'rate(tensord_requests_total{{job="tensord"}}[{RATE_WINDOW}]) > 0', make_load(daemon))
            tensord.eventually(is_right)
        except AssertionError:
            if not wrong:
                raise
        finally:
            prometheus.stop()
    return wrong


def main():
    if len(sys.argv) > 1:
        tensord.BINARY = os.path.abspath(sys.argv[1])
    if not shutil.which("promtool") or not shutil.which("prometheus"):
        print("skipped: prometheus is not installed (deploy/dependencies.sh --test)")
        return
    dashboard = read_dashboard()
    wrong = promtool("check", "config", CONFIG) + promtool("test", "rules", RULES_TEST)
    wrong += undocumented_alerts() + check_dashboard(dashboard)
    with tempfile.TemporaryDirectory() as folder:
        wrong += check_running(folder, dashboard)
    for line in wrong:
        print(line)
    if wrong:
        sys.exit(1)
    print(f"{sum(1 for _ in queries(dashboard))} queries of the dashboard; passed")


if __name__ == "__main__":
    main()
