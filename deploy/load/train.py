#!/usr/bin/env python3
"""Sends typical requests to a tensord program, for deploy/profiled_build.sh.

    train.py PROGRAM

Starts the program, sends typical small requests to it over loopback, and ends it. Fails if a reply has an unexpected
status, or if the program does not end with status 0."""

import json
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

ROWS, WIDTH = 2000, 32
ROUNDS = 1500


def floats(count):
    return struct.pack(f"<{count}f", *(random.gauss(0, 1) for _ in range(count)))


def safetensors(tensors):
    """{name: (dtype, shape, bytes)} as a file"""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def npy(shape, content):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


JSON, SAFETENSORS, NPY = "application/json", "application/vnd.safetensors", "application/x-npy"


def request(method, path, body=b"", kind=None, accept=None):
    if not isinstance(body, bytes):
        body, kind = json.dumps(body).encode(), JSON
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {kind}"] * bool(kind) + [f"Accept: {accept}"] * bool(accept)
    return "\r\n".join(lines + ["", ""]).encode() + body


def matrix(rows, columns, digits):
    return [[round(random.gauss(0, 1), digits) for _ in range(columns)] for _ in range(rows)]


def setup():
    """the resident tables"""
    keys = [f"key{i}" for i in range(ROWS)]
    return [
        (request("PUT", "/v1/tensors/table", npy([ROWS, WIDTH], floats(ROWS * WIDTH)), NPY), 201),
        (request("PUT", "/v1/tensors/words", npy([ROWS, WIDTH], floats(ROWS * WIDTH)), NPY), 201),
        (request("PUT", "/v1/tensors/words/keys", {"dtype": "string", "data": keys}), 201),
    ]


def typical():
    """[(request, status, weight)]: the requests that the profile represents"""
    rows = random.sample(range(ROWS), 32)
    small = safetensors({"params": ("F32", [16, 8], floats(128)),
                         "indices": ("I32", [4], struct.pack("<4i", 3, 0, 15, 7))})
    updates = {"indices": [[row] for row in rows[:2]], "updates": matrix(2, WIDTH, 4)}
    infer = {"inputs": [{"name": "params", "datatype": "FP32", "shape": [4, 8], "data": matrix(1, 32, 4)[0]},
                        {"name": "indices", "datatype": "INT32", "shape": [2], "data": [3, 0]}]}
    product = {"equation": "ij,jk->ik", "inputs": [matrix(4, 8, 2), matrix(8, 4, 2)]}
    return [
        (request("POST", "/v1/gather", {"params": matrix(16, 8, 3), "indices": [3, 0, 15, 7]}), 200, 6),
        (request("POST", "/v1/gather", {"params": matrix(4, 16, 17), "indices": [[1, 2], [0, 3]]}), 200, 2),
        (request("POST", "/v1/gather", small, SAFETENSORS), 200, 6),
        (request("POST", "/v1/gather", {"params": {"ref": "table"}, "indices": rows}, accept=SAFETENSORS), 200, 4),
        (request("POST", "/v1/tensors/table/gather", {"indices": rows[:8]}), 200, 4),
        (request("POST", "/v1/tensors/words/lookup", {"keys": [f"key{i}" for i in rows[:8]]}), 200, 4),
        (request("POST", "/v1/tensors/words/lookup", {"keys": ["none"]}), 422, 1),
        (request("POST", "/v1/tensors/table/embedding_bag", {"indices": rows, "offsets": [0, 8, 16]}), 200, 2),
        (request("POST", "/v2/models/gather/infer", infer), 200, 2),
        (request("POST", "/v1/einsum", product), 200, 2),
        (request("POST", "/v1/top_k", {"x": matrix(2, 16, 4), "k": 3}), 200, 1),
        (request("POST", "/v1/concat", {"inputs": [matrix(2, 4, 2), matrix(1, 4, 2)], "axis": 0}), 200, 1),
        (request("POST", "/v1/tensors/table/scatter", updates), 200, 1),
        (request("PUT", "/v1/tensors/small", npy([4, 4], floats(16)), NPY), None, 1),
        (request("GET", "/v1/tensors/small", accept=NPY), None, 1),
        (request("GET", "/v1/tensors"), 200, 1),
        (request("GET", "/healthz"), 200, 1),
        (request("POST", "/v1/gather", {"params": [1.5], "indices": [7]}), 422, 1),
    ]


class Connection:
    def __init__(self, address):
        self.socket = socket.create_connection(address)
        self.file = self.socket.makefile("rb")

    def exchange(self, sent, status):
        self.socket.sendall(sent)
        line = self.file.readline().decode()
        length = 0
        while (header := self.file.readline()) not in (b"\r\n", b""):
            name, value = header.decode().split(":", 1)
            if name.lower() == "content-length":
                length = int(value)
        body = self.file.read(length)
        got = int(line.split()[1])
        if got != status if status else got >= 400:
            sys.exit(f"train.py: {sent[:60]!r} got {got}, not {status}: {body[:500]!r}")


def train(address):
    random.seed(1)
    connection = Connection(address)
    for sent, status in setup():
        connection.exchange(sent, status)
    requests = [(sent, status) for sent, status, weight in typical() for _ in range(weight)]
    for _ in range(ROUNDS):
        for sent, status in requests:
            connection.exchange(sent, status)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    process = subprocess.Popen([sys.argv[1], "--listen", "127.0.0.1:0", "--gpu", "off", "--log-format", "json"],
                               stderr=subprocess.PIPE, text=True)
    try:
        address = None
        for line in process.stderr:
            found = re.search(r'"event":"listening".*"address":"([\d.]+):(\d+)"', line)
            if found:
                address = found[1], int(found[2])
                break
        if not address:
            sys.exit("train.py: the program did not start to listen")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        train(address)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait()
    if status:
        sys.exit(f"train.py: the program ended with status {status}")


if __name__ == "__main__":
    main()
