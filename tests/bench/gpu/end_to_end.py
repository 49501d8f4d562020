#!/usr/bin/env python3
"""Measures how much of a device's work overlaps with the transfer of its requests over HTTP.

    end_to_end.py [--binary build/tensord] [--gpu cuda|reference|PLUGIN] [--side 4096] [--clients 4] [--seconds 10]

Clients send two matrices and read their product, computed on the device.  In the baseline, in the same run, the same
number of clients send and read the same number of bytes through a gather on the CPU.  The gather only copies the bytes,
so the baseline is the limit of HTTP and memory.
A ratio of 1 means that the product adds no time to the transfer.  Needs only Python.
"""
import argparse, os, socket, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
WARM_SECONDS = 2


def receive(sock, buffer):
    """Receives and discards one response."""
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = sock.recv(65536)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        head += chunk
    head, _, body = head.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise ConnectionError(f"{head.decode()} {body.decode(errors='replace')}")
    left = length - len(body)
    while left > 0:
        got = sock.recv_into(buffer, min(left, len(buffer)))
        if not got:
            raise ConnectionError("the server closed the connection")
        left -= got


def rate(server, request, clients, seconds):
    """Returns the responses per second of several clients, each with one request at a time."""
    counts, failures = [0] * clients, []
    begin = time.monotonic() + WARM_SECONDS
    end = begin + seconds

    def client(number):
        buffer = bytearray(1 << 20)
        try:
            with socket.create_connection((server.host, server.port)) as sock:
                while time.monotonic() < end:
                    sock.sendall(request)
                    receive(sock, buffer)
                    counts[number] += begin <= time.monotonic() < end
        except OSError as error:
            failures.append(error)
    threads = [threading.Thread(target=client, args=(i,), daemon=True) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(f"end_to_end.py: {failures[0]}")
    return sum(counts) / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", help="path of the daemon (default: build/tensord)")
    parser.add_argument("--gpu", default="cuda", metavar="DEVICE")
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=10)
    args = parser.parse_args()
    if args.binary:
        os.environ["TD_TEST_BINARY"] = os.path.abspath(args.binary)
    sys.path.insert(0, os.path.join(HERE, "..", "..", "http"))
    sys.dont_write_bytecode = True
    from daemon import SAFETENSORS, Daemon, pack, safetensors

    n = args.side
    matrix = bytes(4 * n * n)
    headers = [f"Content-Type: {SAFETENSORS}"]

    def request(path, tensors):
        body = safetensors(tensors)
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    product = request("/v1/einsum?equation=ij,jk->ik&device=gpu",
                      {"inputs.0": ("float32", (n, n), matrix), "inputs.1": ("float32", (n, n), matrix)})
    copy = request("/v1/gather?device=cpu", {"params": ("float32", (2 * n, n), 2 * matrix),
                                             "indices": ("int32", (n,), pack("int32", range(n)))})
    moved = (len(product) + len(matrix)) / 1e9
    # Staging memory for six requests: two batches in flight, and responses being sent.
    with Daemon("--gpu", args.gpu, "--gpu-staging", str(max(18 * len(matrix), 1 << 26)), "--max-body", "4G") as server:
        on_device = rate(server, product, args.clients, args.seconds)
        on_cpu = rate(server, copy, args.clients, args.seconds)
    print(f"einsum float32 {n}^3 over HTTP, {args.clients} clients: {on_device:.2f} a second, {on_device * moved:.2f} GB/s; "
          f"as many bytes through a gather on the CPU {on_cpu:.2f}: {on_device / max(on_cpu, 1e-9):.2f} (target: at least 0.8)")


if __name__ == "__main__":
    main()
