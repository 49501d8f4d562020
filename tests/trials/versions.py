#!/usr/bin/env python3
"""Kills the daemon while versions are put, aliases flipped and version folders brought, and readers compare.

    versions.py [--binary PATH] [--rounds N] [--seed N]

Each kill is at a random arrival at a gate of tests/gates: before a file is synced, linked, renamed or removed, or before a reply.

A request that reads two aliases that are flipped together never sees a mix, nor an older version than one that was acknowledged
before it was sent; neither does a start. Folders with a wrong sum are never served. Of what --keep-versions removes nothing is named
by an alias.
"""
import hashlib, os, shutil, signal

from trial import *

KEEP, MOST_STEPS, LENGTH, READERS = 2, 3, 500, 2
PAIRS = {"put": ("x", "y"), "folder": ("u", "v")}


def halves(k):
    """two vectors whose product has equal elements only if both are of the same k"""
    return [k, 1] * LENGTH, [1, k] * LENGTH


class StatePart(Part):
    def __init__(self, running, rng, state):
        super().__init__(running, rng)
        self.state = state


class Publisher(StatePart):
    """puts two versions and flips two aliases"""

    def step(self, client):
        k = self.state.sure["put"] + 1
        for base, values in zip("ab", halves(k)):
            reply = client.request("PUT", f"/v1/tensors/{base}@{k}?persist=1", values)
            assert reply.status in (201, 409), str(reply)  # 409: it was put before the last kill
        reply = client.request("POST", "/v1/aliases?persist=1", {"set": {"x": f"a@{k}", "y": f"b@{k}"}})
        assert reply.status == 200, str(reply)
        self.state.sure["put"] = k


class Bringer(StatePart):
    """brings version folders, some with a wrong sum, and takes old ones away"""

    def write(self, name, k, wrong):
        hidden = os.path.join(self.state.folder, ".new")
        shutil.rmtree(hidden, ignore_errors=True)
        os.mkdir(hidden)
        files = {}
        for base, values in zip("cd", halves(k)):
            body = daemon.npy("int32", (len(values),), daemon.pack("int32", values))
            with open(os.path.join(hidden, base + ".npy"), "wb") as file:
                file.write(body)
            files[base + ".npy"] = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        if wrong:
            files["d.npy"]["sha256"] = "0" * 64
        with open(os.path.join(hidden, "manifest.json"), "w", encoding="ascii") as file:
            json.dump({"files": files, "aliases": {"u": f"c@{name}", "v": f"d@{name}"}}, file)
        os.rename(hidden, os.path.join(self.state.folder, name))

    def take_away(self, name):
        hidden = os.path.join(self.state.folder, ".old")
        shutil.rmtree(hidden, ignore_errors=True)
        if os.path.exists(os.path.join(self.state.folder, name)):
            os.rename(os.path.join(self.state.folder, name), hidden)

    def wait(self, client, done):
        """until GET /v1/aliases is as it should be after SIGHUP"""
        self.running.send_signal(signal.SIGHUP)
        eventually(lambda: done(client.request("GET", "/v1/aliases").json()), "what SIGHUP asked for")

    def step(self, client):
        k = self.state.sure["folder"] + 1
        if self.rng.random() < 0.3:
            name = f"wrong{k}"
            self.take_away(name)  # from before a kill
            self.write(name, -1, True)
            self.wait(client, lambda seen: name in [problem["source"] for problem in seen["problems"]])
            self.take_away(name)
            self.wait(client, lambda seen: name not in [problem["source"] for problem in seen["problems"]])
        if not os.path.exists(os.path.join(self.state.folder, str(k))):
            self.write(str(k), k, False)
        self.wait(client, lambda seen: seen["aliases"].get("u") == f"c@{k}")
        self.state.sure["folder"] = k
        self.take_away(str(k - KEEP))


class Reader(StatePart):
    def step(self, client):
        kind = self.rng.choice(list(PAIRS))
        self.state.read(client, kind)
        self.state.reads += 1


class State:
    def __init__(self, folder):
        self.folder, self.sure, self.reads = folder, {"put": 0, "folder": 0}, 0

    def read(self, client, kind):
        """what both aliases of a kind name, 0 if they do not exist yet"""
        sure = self.sure[kind]
        reply = client.request("POST", "/v1/einsum", {"equation": "i,i->i", "inputs": [{"ref": alias} for alias in PAIRS[kind]]})
        if reply.status == 404:
            assert sure == 0, str(reply)
            return 0
        assert reply.status == 200, str(reply)
        values = reply.json()["output"]["data"]
        assert values == [values[0]] * (2 * LENGTH), f"{kind}: a mix of versions: {values[:4]}"
        assert values[0] >= sure, f"{kind}: {values[0]}, after {sure} was acknowledged"
        return values[0]

    def compare(self, running):
        left = [file for file in os.listdir(self.folder) if file.startswith(".tensord-tmp-")]
        assert not left, f"after a start the folder has {left}"
        with Client(running) as client:
            for kind in PAIRS:
                self.sure[kind] = self.read(client, kind)
            versions = {base: [name[2:] for name in names(client) if name[0] == base] for base in "abcd"}
            for base in "ab":
                assert len(versions[base]) <= KEEP + 1, f"{base}: {versions[base]}"
            assert versions["c"] == versions["d"], f"{versions['c']} and {versions['d']}"
            assert not any(version.startswith("wrong") for version in versions["c"]), str(versions["c"])


def trial(rounds, rng):
    state = State(daemon.temporary_folder())
    for _ in range(rounds):
        running = GatedDaemon("--data-dir", state.folder, "--keep-versions", str(KEEP))
        state.compare(running)
        before = dict(state.sure)
        parts = [kind(running, random.Random(rng.random()), state) for kind in [Publisher, Bringer] + READERS * [Reader]]
        for part in parts:
            part.start()
        least = {kind: before[kind] + rng.randint(0, MOST_STEPS) for kind in PAIRS}
        kill_at_a_gate(running, parts, rng, lambda: all(state.sure[kind] >= least[kind] for kind in PAIRS))
    with Daemon("--data-dir", state.folder, "--keep-versions", str(KEEP)) as running:
        state.compare(running)
    return f"{rounds} kills, {state.sure['put']} flips, {state.sure['folder']} folders, {state.reads} reads"


if __name__ == "__main__":
    run(trial, __doc__, rounds=20)
