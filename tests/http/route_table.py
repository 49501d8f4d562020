"""The table of routes in server/http/routes.c, as it is written there."""
import os, re
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def routes():
    """methods, "GET | POST", pattern, and the role that it needs, "READ", of each line"""
    table = re.search(r"routes\[\] = \{(.*?)\n\};", read("server/http/routes.c"), re.S)[1].replace("\\\n", "")
    for part in re.split(r"(?=#define TD_OP)", table):  # a line for each op of a list, or as it is written
        ops = re.search(r'#include "(kernels/\w+\.def)"', part)
        names = re.findall(r"^TD_OP\(\w+, (\w+)\)", read(ops[1]), re.M) if ops else []
        for line in re.findall(r"\{[^{}]*(?:\{\w+\}[^{}]*)*\}", part):
            methods, rest = re.match(r"\{\s*([A-Z| ]+),\s*(.*)", line, re.S).groups()
            role = re.search(r"TD_ACCESS_(\w+)", rest)[1]
            pattern = re.match(r'((?:"[^"]*"|#\w+|\s)+),', rest)[1]
            for name in names if "#" in pattern else [""]:
                yield methods, "".join(re.findall(r'"([^"]*)"', re.sub(r"#\w+", f'"{name}"', pattern))), role
