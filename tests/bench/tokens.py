#!/usr/bin/env python3
"""Measures the cost of tokens for a small request, in instructions of the whole daemon under valgrind's callgrind.

    tokens.py [BINARY]

A client sends the same gather 500 and 3500 times over one connection. The difference divided by 3000 is the cost of one
request. Cases: no token file, with and without the header; files of 1, 100 and 10,000 tokens; two alternating tokens over
one connection, so the daemon looks up each token.
"""
import os, re, socket, subprocess, sys, tempfile, threading

TOKENS = ["Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OWFiY2RlZmdo", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIz"]
BODY = b'{"params":[10,20,30],"indices":[0,2]}'


def request(token):
    header = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"POST /v1/gather HTTP/1.1\r\nHost: localhost\r\n{header}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


def exchange(connection, data):
    connection.sendall(data)
    reply = b""
    while b"\r\n\r\n" not in reply:
        reply += connection.recv(65536)
    assert b" 200 " in reply[:20], reply
    length = int(re.search(rb"Content-Length: (\d+)", reply)[1])
    while len(reply.split(b"\r\n\r\n", 1)[1]) < length:
        reply += connection.recv(65536)


def instructions(binary, folder, options, requests, n):
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", binary, "--listen", "127.0.0.1:0",
               "--gpu", "off", "--log-format", "json", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    port = next(int(found[1]) for line in process.stderr
                if (found := re.search(r'"event":"listening".*"address":"127.0.0.1:(\d+)"', line)))
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr))
    reader.start()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for i in range(n):
            exchange(connection, requests[i % len(requests)])
    process.terminate()
    process.wait()
    reader.join()
    return int(re.search(r"Collected : (\d+)", "".join(lines))[1])


def token_file(folder, n):
    path = f"{folder}/tokens.{n}"
    with open(path, "w", encoding="ascii") as file:
        for i in range(n - 1):
            file.write(f"read token-{i:034}\n" if i else f"read {TOKENS[1]}\n")
        file.write(f"read {TOKENS[0]}\n")
    os.chmod(path, 0o600)
    return ["--token-file", path]


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else "build/tensord"
    with tempfile.TemporaryDirectory(prefix="tensord-bench-") as folder:
        cases = [("no file, no header", [], [None]), ("no file", [], TOKENS[:1])]
        cases += [(f"{n} tokens", token_file(folder, n), TOKENS[:1]) for n in (1, 100, 10000)]
        cases += [("10000 tokens, two in turn", token_file(folder, 10000), TOKENS)]
        for name, options, tokens in cases:
            few, many = (instructions(binary, folder, options, [request(t) for t in tokens], n) for n in (500, 3500))
            print(f"{name:28} {(many - few) / 3000:10.0f} instructions per request", flush=True)


if __name__ == "__main__":
    main()
