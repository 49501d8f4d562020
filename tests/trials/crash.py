#!/usr/bin/env python3
"""Kills the daemon while clients persist tensors, starts it again, and compares.

    crash.py [--binary PATH] [--rounds N] [--seed N]

Each kill is at a random arrival at a gate of tests/gates: before a file is synced, linked, renamed or removed, or before a reply.

Every write that was acknowledged is there with all its bytes, its ETag included; one that was not is there completely
or not at all. No temporary file is left after a start.
"""
import os

from trial import *

WRITERS, NAMES_EACH, MOST_WRITES = 4, 3, 40


class Entry:
    """What a name may hold: `sure` was acknowledged, `maybe` was sent after it. None: no tensor."""

    def __init__(self):
        self.sure, self.etag, self.maybe = None, None, []


class Writer(Part):
    """Writes its own names, one request at a time."""

    def __init__(self, running, rng, entries):
        super().__init__(running, rng)
        self.entries, self.acknowledged = entries, 0

    def step(self, client):
        self.write(client, *self.rng.choice(list(self.entries.items())))

    def write(self, client, name, entry):
        kind = self.rng.choice(("put", "put", "put", "scatter", "delete"))
        if kind == "scatter" and entry.sure and entry.sure.dtype == "int32" and len(entry.sure.shape) == 2:
            self.scatter(client, name, entry)
        elif kind == "delete" and entry.sure:
            self.send(client, entry, None, "DELETE", f"/v1/tensors/{name}", b"", {})
        else:
            value = random_value(self.rng, rows=self.rng.choice((None, 8)))
            body, content_type = value.body(self.rng)
            self.send(client, entry, value, "PUT", f"/v1/tensors/{name}?persist=1", body, {"Content-Type": content_type})

    def scatter(self, client, name, entry):
        rows, columns = entry.sure.shape
        row, new = self.rng.randrange(rows), self.rng.randbytes(4 * columns)
        raw = bytearray(entry.sure.raw)
        raw[4 * columns * row:4 * columns * (row + 1)] = new
        body = daemon.safetensors({"indices": ("int32", [1, 1], daemon.pack("int32", [row])), "updates": ("int32", [1, columns], new)})
        self.send(client, entry, Value("int32", entry.sure.shape, bytes(raw)), "POST", f"/v1/tensors/{name}/scatter?persist=1", body,
                  {"Content-Type": SAFETENSORS})

    def send(self, client, entry, value, method, path, body, headers):
        entry.maybe = [value]
        reply = client.request(method, path, body, headers)
        assert reply.status in (200, 201, 204), f"{method} {path}: {reply}"
        entry.sure, entry.maybe = value, []
        entry.etag = reply.headers.get("ETag") or (reply.json()["etag"] if reply.body else None)
        self.acknowledged += 1


def compare(running, folder, entries):
    left = [file for file in os.listdir(folder) if file.startswith(".tensord-tmp-")]
    with Client(running) as client:
        listed = names(client)
        assert set(listed) <= set(entries), f"unknown tensors: {set(listed) - set(entries)}"
        for name, entry in entries.items():
            found = read_value(client, name) if name in listed else None
            if found is None or isinstance(found, Value):
                assert found == entry.sure or any(found == value for value in entry.maybe), \
                    f"{name} is {found}, not {entry.sure}, nor one of {entry.maybe}"
            else:
                raise AssertionError(f"{name}: {found}")
            if found is not None and found == entry.sure and not entry.maybe:
                assert listed[name]["etag"] == entry.etag, f"{name}: ETag {listed[name]['etag']}, {entry.etag} expected"
            entry.sure, entry.etag, entry.maybe = found, listed[name]["etag"] if found else None, []
    return left


def trial(rounds, rng):
    folder = daemon.temporary_folder()
    entries = [{f"w{i}.{j}": Entry() for j in range(NAMES_EACH)} for i in range(WRITERS)]
    everything = {name: entry for part in entries for name, entry in part.items()}
    writes = 0
    for _ in range(rounds):
        running = GatedDaemon("--data-dir", folder)
        left = compare(running, folder, everything)
        assert not left, f"after a start the folder has {left}"
        writers = [Writer(running, random.Random(rng.random()), part) for part in entries]
        for writer in writers:
            writer.start()
        least = rng.randint(1, MOST_WRITES)
        kill_at_a_gate(running, writers, rng, lambda: sum(writer.acknowledged for writer in writers) >= least)
        writes += sum(writer.acknowledged for writer in writers)
    with Daemon("--data-dir", folder) as running:
        compare(running, folder, everything)
    return f"{rounds} kills, {writes} acknowledged writes"


if __name__ == "__main__":
    run(trial, __doc__, rounds=20)
