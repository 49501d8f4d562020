#!/usr/bin/env python3
"""Kills the daemon at random moments while versions are put, aliases flipped and folders of versions brought, and readers compare.

    versions.py [--binary PATH] [--seconds N] [--seed N]

A request that reads two aliases that are flipped together never sees a mix, nor an older version than one that was acknowledged
before it was sent; neither does a start. Folders with a wrong sum are never served. Of what --keep-versions removes nothing is named
by an alias.
"""
import hashlib, os, shutil, signal, threading, time

from trial import *

KEEP, MOST_ALIVE, LENGTH, READERS = 2, 1.0, 500, 2
PAIRS = {"put": ("x", "y"), "folder": ("u", "v")}


def halves(k):
    """two vectors whose product has equal elements only if both are of the same k"""
    return [k, 1] * LENGTH, [1, k] * LENGTH


class Part(threading.Thread):
    """Runs step() until the daemon is gone."""

    def __init__(self, running, state, rng):
        super().__init__(daemon=True)
        self.running, self.state, self.rng, self.error = running, state, rng, None

    def run(self):
        try:
            with Client(self.running) as client:
                while True:
                    self.step(client)
        except LOST:
            pass
        except AssertionError as e:
            self.error = e


class Publisher(Part):
    """puts two versions and flips two aliases"""

    def step(self, client):
        k = self.state.sure["put"] + 1
        for base, values in zip("ab", halves(k)):
            reply = client.request("PUT", f"/v1/tensors/{base}@{k}?persist=1", values)
            assert reply.status in (201, 409), str(reply)  # 409: it was put before the last kill
        reply = client.request("POST", "/v1/aliases?persist=1", {"set": {"x": f"a@{k}", "y": f"b@{k}"}})
        assert reply.status == 200, str(reply)
        self.state.sure["put"] = k


class Bringer(Part):
    """brings folders of versions, some with a wrong sum, and takes old ones away"""

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
        deadline = time.monotonic() + WAIT_LIMIT
        self.running.send_signal(signal.SIGHUP)
        while not done(client.request("GET", "/v1/aliases").json()):
            assert time.monotonic() < deadline, "SIGHUP has no effect"
            time.sleep(0.001)

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


class Reader(Part):
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


def trial(seconds, rng):
    state = State(daemon.temporary_folder())
    deadline, kills = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        running = Daemon("--data-dir", state.folder, "--keep-versions", str(KEEP))
        state.compare(running)
        parts = [kind(running, state, random.Random(rng.random())) for kind in [Publisher, Bringer] + READERS * [Reader]]
        for part in parts:
            part.start()
        time.sleep(rng.uniform(0, MOST_ALIVE) * SCALE)
        assert running.alive(), "the daemon had ended; its log ends with:\n" + running.tail(60)
        running.process.kill()
        running.wait()
        for part in parts:
            part.join(WAIT_LIMIT)
            assert not part.is_alive(), "a client waits although the daemon is gone"
            if part.error:
                raise part.error
        kills += 1
    with Daemon("--data-dir", state.folder, "--keep-versions", str(KEEP)) as running:
        state.compare(running)
    assert min(state.sure.values()) >= kills // 4, f"only {state.sure} before {kills} kills: this compares nothing"
    return f"{kills} kills, {state.sure['put']} flips, {state.sure['folder']} folders, {state.reads} reads"


if __name__ == "__main__":
    run(trial, __doc__)
