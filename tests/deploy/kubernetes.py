#!/usr/bin/env python3
"""Checks deploy/kubernetes without a cluster.

    kubernetes.py [--binary PATH]

`kubectl kustomize` renders each folder; kubernetes-validate compares every object with the schemas of Kubernetes, and refuses
members that those do not know. Then, for each folder: names, labels and ports refer to what exists, the pod is hardened, the time to
stop is enough, and the daemon runs with the rendered options and answers the probes. Both programs are Python packages;
exit status 77, with the reason, if they cannot be installed. Objects of KEDA and of the Prometheus operator have no
schema there: only what they refer to is checked.
"""
import argparse, json, os, re, subprocess, sys, tempfile, urllib.request

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
FOLDERS = os.path.join(ROOT, "deploy", "kubernetes")
sys.path[:0] = [HERE, os.path.join(HERE, "..", "http")]
import packages

CUSTOM = {"ScaledObject", "ServiceMonitor"}
TOKEN = "0123456789abcdef-kubernetes"


def enter_venv():
    """goes on in the virtual environment of kubernetes-validate, which has PyYAML"""
    try:
        python = os.path.join(os.path.dirname(packages.program("kubernetes-validate")), "python")
        packages.program("kubectl")
    except packages.Unavailable as e:
        print(f"skipped: {e}")
        sys.exit(77)
    if os.path.dirname(sys.executable) != os.path.dirname(python):
        os.execv(python, [python, "-B", os.path.abspath(__file__), *sys.argv[1:]])


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def render(folder):
    import yaml
    text = run(packages.program("kubectl"), "kustomize", os.path.join(FOLDERS, folder))
    objects = list(yaml.safe_load_all(text))
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}, text


# ---------------------------------------------------------------- one object
def check_schemas(text, objects):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        printed = run(packages.program("kubernetes-validate"), "--strict", file.name)
    unknown = set(re.findall(r"find schema for kind (\w+)", printed))
    known = {kind for kind, _ in objects}
    assert unknown == known & CUSTOM, f"kinds without a schema: {unknown}"
    assert printed.count(" passed for resource ") == sum(kind not in CUSTOM for kind, _ in objects), printed


def only(objects, *kinds):
    found = [item for (kind, _), item in objects.items() if kind in kinds]
    assert len(found) == 1, f"{len(found)} objects of {kinds}"
    return found[0]


def selects(labels, selector):
    return selector and all(labels.get(name) == value for name, value in selector.items())


def check_references(objects):
    """names, labels and ports are those of other objects of the folder"""
    workload = only(objects, "Deployment", "StatefulSet")
    pod = workload["spec"]["template"]
    labels, container = pod["metadata"]["labels"], pod["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert selects(labels, workload["spec"]["selector"]["matchLabels"]), "the workload does not select its pods"
    assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in objects, "no such account"
    for (kind, name), item in objects.items():
        spec = item.get("spec", {})
        if kind == "Service":
            assert selects(labels, spec["selector"]), f"{kind} {name} selects no pod"
            assert all(port["targetPort"] in ports for port in spec["ports"]), f"{kind} {name}: ports are {list(ports)}"
        elif kind == "PodDisruptionBudget":
            assert selects(labels, spec["selector"]["matchLabels"]), f"{kind} {name} selects no pod"
        elif kind == "NetworkPolicy":
            assert selects(labels, spec["podSelector"]["matchLabels"]), f"{kind} {name} selects no pod"
            peers = [peer for rule in spec["ingress"] for peer in rule["from"]]
            assert {"podSelector": {"matchLabels": {"tensord-client": "true"}}} in peers, f"{kind} {name}: clients are {peers}"
            assert {port["port"] for rule in spec["ingress"] for port in rule["ports"]} == set(ports), f"{kind} {name}: ports"
        elif kind in ("HorizontalPodAutoscaler", "ScaledObject"):
            target = spec["scaleTargetRef"]
            assert (target.get("kind", "Deployment"), target["name"]) in objects, f"{kind} {name} scales nothing"
            assert "replicas" not in workload["spec"], f"{kind} {name}: the workload sets the number of replicas as well"
        elif kind == "ServiceMonitor":
            services = [s for (k, _), s in objects.items()
                        if k == "Service" and selects(s["metadata"]["labels"], spec["selector"]["matchLabels"])]
            named = {port["name"] for service in services for port in service["spec"]["ports"]}
            assert {endpoint["port"] for endpoint in spec["endpoints"]} <= named, f"{kind} {name}: services have {named}"
    if "serviceName" in workload["spec"]:
        assert objects["Service", workload["spec"]["serviceName"]]["spec"]["clusterIP"] == "None", "not headless"
    check_volumes(objects, workload, pod, container)
    for probe in "startupProbe", "readinessProbe", "livenessProbe":
        assert container[probe]["httpGet"]["port"] == "http", f"{probe}: port"


def check_volumes(objects, workload, pod, container):
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == set(volumes) | claims, f"volumes are {sorted(set(volumes) | claims)}, {sorted(mounted)} are mounted"
    for volume in volumes.values():
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in objects, f"no such ConfigMap: {volume}"
        if "persistentVolumeClaim" in volume:
            assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in objects, f"no such claim: {volume}"
        if "secret" in volume:
            assert volume["secret"]["defaultMode"] & 0o007 == 0, "others can read the tokens"


def check_hardening(objects):
    pod = only(objects, "Deployment", "StatefulSet")["spec"]["template"]["spec"]
    user = pod["securityContext"]
    assert user["runAsNonRoot"] and user["runAsUser"] == user["runAsGroup"] == user["fsGroup"] == 65532, user
    assert user["seccompProfile"] == {"type": "RuntimeDefault"}, user
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    for container in pod["containers"]:
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                "capabilities": {"drop": ["ALL"]}}, container["securityContext"]
        for kind in "requests", "limits":
            assert set(container["resources"][kind]) == {"cpu", "memory"}, container["resources"]


# ---------------------------------------------------------------- the daemon
def options_of(objects):
    pod = only(objects, "Deployment", "StatefulSet")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volume = next(volume for volume in pod["volumes"] if "configMap" in volume)
    folder, name = os.path.split(container["args"][1])
    assert container["args"][0] == "--config" and mounts[volume["name"]] == folder, container["args"]
    return json.loads(objects["ConfigMap", volume["configMap"]["name"]]["data"][name]), pod, container, mounts


def check_options(objects):
    options, pod, container, mounts = options_of(objects)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert options["listen"] == f"0.0.0.0:{ports['http']}" and options["metrics-listen"] == f"0.0.0.0:{ports['metrics']}", options
    assert os.path.dirname(options["token-file"]) == mounts["tokens"], options
    assert options.get("data-dir", mounts.get("tables")) in (None, mounts.get("tables"), mounts.get("data")), options
    assert options.get("read-only", False) == ("data" not in mounts), "replicas that share tables are read-only, others are not"
    needed = (options["drain-delay-ms"] + options["drain-timeout-ms"]) / 1000
    assert pod["terminationGracePeriodSeconds"] >= needed + 3, f"stopping takes up to {needed} s"
    readiness = container["readinessProbe"]
    noticed = readiness["periodSeconds"] * readiness["failureThreshold"] + readiness["timeoutSeconds"]
    assert options["drain-delay-ms"] / 1000 >= noticed, f"readiness is noticed after {noticed} s"


def certificate_of(container, mounts):
    """variables of the container that name its certificate, with files of the tests in their place; and the clients' context"""
    import certificates
    variables = {item["name"]: item["value"] for item in container.get("env", [])}
    if not variables:
        return {}, None
    assert set(variables) == {"TENSORD_TLS_CERTIFICATE", "TENSORD_TLS_KEY"}, variables
    names = {os.path.basename(path) for path in variables.values()}
    assert names == {"tls.crt", "tls.key"}, f"a secret of the type kubernetes.io/tls has others: {names}"
    assert {os.path.dirname(path) for path in variables.values()} == {mounts["certificate"]}, variables
    shared = certificates.shared()
    return dict(zip(sorted(variables), shared.options()[1::2])), shared.context()


def check_daemon(objects, daemon):
    """the daemon takes the rendered options, and answers the probes and Prometheus without a token"""
    options, _, container, mounts = options_of(objects)
    folder = daemon.temporary_folder()
    tokens = os.path.join(folder, "tokens")
    with open(os.open(tokens, os.O_WRONLY | os.O_CREAT, 0o440), "w", encoding="ascii") as file:
        file.write(f"read {TOKEN}\n")
    own = {"listen": "127.0.0.1:0", "metrics-listen": f"127.0.0.1:{daemon.free_ports(1)[0]}", "token-file": tokens,
           "drain-delay-ms": 0, **({"data-dir": folder} if "data-dir" in options else {})}
    path = os.path.join(folder, "tensord.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**options, **own}, file)
    variables, context = certificate_of(container, mounts)
    running = daemon.Daemon("--config", path, env=variables, log_format=None, tls=context)
    try:
        for probe in "startupProbe", "readinessProbe", "livenessProbe":
            asked = container[probe]["httpGet"]
            url = f"{asked.get('scheme', 'HTTP').lower()}://{running.address}{asked['path']}"
            assert urllib.request.urlopen(url, timeout=daemon.WAIT_LIMIT, context=context).status == 200, probe
        url = f"http://{own['metrics-listen']}/metrics"
        assert b"tensord_queue_jobs" in urllib.request.urlopen(url, timeout=daemon.WAIT_LIMIT).read()
        warned = [event["event"] for event in running.events() if event["level"] in ("warn", "error")]
        assert not warned, f"the daemon warns: {warned}"
    finally:
        running.stop()


def check_folder(folder, daemon):
    objects, text = render(folder)
    check_schemas(text, objects)
    check_references(objects)
    check_hardening(objects)
    check_options(objects)
    check_daemon(objects, daemon)


def check_document():
    """the kustomization of docs/cluster.md names the image"""
    with open(os.path.join(ROOT, "docs", "cluster.md"), encoding="utf-8") as file:
        lines = re.search(r"^cat >kustomization.yaml <<'END'\n(.*?)^END$", file.read(), re.M | re.S)[1]
    with tempfile.TemporaryDirectory() as folder:
        real = os.path.realpath(folder)
        with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
            file.write(lines.replace("../deploy", os.path.join(os.path.relpath(os.path.realpath(ROOT), real), "deploy")))
        objects, _ = render(real)
    container = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "REGISTRY/tensord:0.3.0", container["image"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="the daemon (default: build/tensord)")
    arguments = parser.parse_args()
    enter_venv()
    import daemon
    if arguments.binary:
        daemon.BINARY = arguments.binary
    passed, failed = 0, 0
    folders = sorted(os.listdir(FOLDERS))
    for name in [*folders, "docs/cluster.md"]:
        try:
            if name in folders:
                check_folder(name, daemon)
            else:
                check_document()
            passed += 1
        except (AssertionError, KeyError, OSError) as e:
            failed += 1
            print(f"FAIL {name}: {type(e).__name__}: {e}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
