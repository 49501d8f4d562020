"""The table of routes in server/http/routes.c, as it is written there."""
import os, re
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def routes():
    """methods, "GET | POST", pattern, and the role that it needs, "READ", of each line"""
    table = re.search(r"routes\[\] = \{(.*?)\n\};", read("server/http/routes.c"), re.S)[1].replace("\\\n", "")
    changes = re.findall(r"^TD_OP\(\w+, (\w+)\)", read("kernels/changes.def"), re.M)
    for methods, pattern, role in re.findall(r'\{\s*([A-Z| ]+),\s+"([^"]+"(?:\s*#change)?),\s+TD_ACCESS_(\w+)', table):
        for change in changes if pattern.endswith("#change") else [""]:
            yield methods, pattern.split('"')[0] + change, role
