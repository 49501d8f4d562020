#!/usr/bin/env python3
"""Random programs. Every step also runs as a request of its own, which is compared with NumPy; the outputs of the program must have
the same bits. Some programs also run under a name, with declared inputs, and are planned. Then the program is broken in one place, and
the error must name the place.

    random_programs.py [--binary PATH] [--rounds N] [--seed N] [--first N]

A round is one program. Program N of a seed is always the same: after a failure, run --first N --rounds 1. Programs with an even number
run on the thread of the connection, the others on workers.
"""
from random_requests import *  # enters the virtual environment

import program_faults, program_ops, program_stored
from program_build import Difference
from program_values import compact, typed

RESIDENT = 128  # more tensors than the operands of any program


class Server:
    """a connection to a daemon, and resident tensors"""

    def __init__(self, running):
        self.running, self.raw, self.resident_count = running, daemon.Raw(running), 0

    def request(self, method, path, body):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.raw.send(head.encode() + body)
        reply = self.raw.reply()
        if reply is None:
            raise Difference("the connection was closed; the log ends with:\n" + self.running.tail(60))
        return reply

    def post(self, path, document):
        reply = self.request("POST", path, document if isinstance(document, bytes) else compact(document))
        return reply.status, json.loads(reply.body)

    def resident(self, array):
        self.resident_count += 1
        name = f"r{self.resident_count % RESIDENT}"
        reply = self.request("PUT", "/v1/tensors/" + name, compact(typed(array)))
        assert reply.status in (200, 201), str(reply)
        return name

    def close(self):
        for i in range(RESIDENT):
            self.request("DELETE", f"/v1/tensors/r{i}", b"")
        self.request("DELETE", "/v1/programs/stored", b"")
        self.raw.close()


def check(seed, server):
    """Returns the program, and whether the program was also checked with a fault."""
    program = program_ops.random_program(seed, server)
    program.check()
    if program.problem:
        return program, False
    if program.chance(0.3):
        program_stored.check_stored(program, server)
        program_stored.check_plan(program, server)
    return program, program_faults.check_fault(program, server)


def trial(rounds, rng, first):
    seed, steps, refused, broken = rng.getrandbits(32), 0, 0, 0
    with Daemon() as inline, Daemon("--inline-limit-us", "0") as queued:
        servers = [Server(inline), Server(queued)]
        for number in range(first, first + rounds):
            try:
                program, is_broken = check(f"{seed}/{number}", servers[number % 2])
            except Difference as e:
                raise AssertionError(f"program {number} (--first {number} --rounds 1): {e}") from None
            steps, refused, broken = steps + len(program.steps), refused + (program.problem is not None), broken + is_broken
        for server in servers:
            server.close()
    return f"{rounds} programs with {steps} steps, {refused} of which end with an error; {broken} programs with a fault"


if __name__ == "__main__":
    run(trial, __doc__, rounds=1000, first=0)
