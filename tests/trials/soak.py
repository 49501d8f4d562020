#!/usr/bin/env python3
"""Mixed load for a long time: persisting clients, computing clients, hostile ones, files that change, failing calls, restarts.

    soak.py [--binary PATH] [--seconds N] [--seed N]         1800 seconds and more are a soak

Every answer is checked. After each window of load the daemon holds no more descriptors, threads, connections and memory than
before, and after each restart what was persisted is there. Skipped without the library of faults.py.
"""
import os, signal, threading, time, urllib.parse

from faults import SETS, Faults, Model, start
from hostile import attack
from trial import *

CLIENTS, LIFE, WINDOW, RSS_GROWTH = 3, 120, 6, 96 << 20
PATIENCE = 60  # a slow machine makes too few calls in a few seconds for one of them to fail


class Window:
    """some seconds of load by several threads; the first error ends it"""

    def __init__(self, running, seconds):
        self.running, self.deadline, self.errors, self.threads = running, time.monotonic() + seconds, [], []

    def start(self, work, *arguments):
        def run():
            try:
                while time.monotonic() < self.deadline and not self.errors:
                    work(*arguments)
            except Exception as e:
                self.errors.append(e)
        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def join(self):
        for thread in self.threads:
            thread.join(max(0, self.deadline - time.monotonic()) + 4 * WAIT_LIMIT)
            if thread.is_alive():
                self.errors.append(AssertionError("a client waits for longer than any request takes"))
        for error in self.errors:
            raise AssertionError(f"{type(error).__name__}: {error}; the daemon "
                                 f"{'runs' if self.running.alive() else 'has ended'}; its log ends with:\n{self.running.tail(8)}") from error


class ChangingFile:
    """A file of the data folder that is replaced again and again"""

    def __init__(self, folder, rng):
        self.folder, self.rng, self.changes = folder, rng, 0
        self.value = self.write()

    def write(self):
        value = random_value(self.rng, rows=4)
        path = os.path.join(self.folder, ".new")
        with open(path, "wb") as out:
            out.write(daemon.npy(value.dtype, value.shape, value.raw))
        os.rename(path, os.path.join(self.folder, "changing.npy"))
        return value

    def change(self, running):
        """after SIGHUP the old one is served for a while, then the new one"""
        old, self.value = self.value, self.write()
        running.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + WAIT_LIMIT
        with Client(running) as client:
            while (found := read_value(client, "changing")) != self.value:
                assert found == old, f"changing is {found}, not {old}, nor {self.value}"
                assert time.monotonic() < deadline, "the file is not read again after SIGHUP"
                time.sleep(0.01)
        self.changes += 1
        time.sleep(0.05)


def steady(model, running, rng):
    """a step without failures: every request is answered, with success"""
    before = model.errors, model.lost
    model.step(running, rng)
    assert (model.errors, model.lost) == before, "a request failed or was not answered"


def live(running, faults, models, file, rng, deadline):
    """one life of the daemon: windows of load with and without failing calls"""
    windows, before = 0, None
    while windows < 3 or time.monotonic() < deadline:
        failing = windows % 3 == 2
        window = Window(running, min(WINDOW, max(1, deadline - time.monotonic())))
        if failing:
            faults.set(rng.choice(SETS), rng.choice((1000, 10000)), rng.getrandbits(63))
        for model in models:
            window.start(model.step if failing else steady, *(() if failing else (model,)), running, random.Random(rng.random()))
        if not failing:
            window.start(file.change, running)
        if windows % 3 == 1:
            window.start(attack, running, random.Random(rng.random()), window.deadline, window.errors)
        try:
            window.join()
        finally:
            faults.set()
        for model in models:
            for name in model.may:
                model.read(running, name, strict=True)
        with Client(running) as client:
            ours = {name for model in models for name in model.may} | {"changing"}
            for name in set(names(client)) - ours:  # of hostile clients
                client.request("DELETE", "/v1/tensors/" + urllib.parse.quote(name, safe=""))
        if windows >= 2:  # one of each kind has warmed up
            before = before or held(running)
            expect_returned(running, before, rss=RSS_GROWTH)
        windows += 1
    return windows


def trial(seconds, rng):
    folder, control = daemon.temporary_folder(), daemon.temporary_folder()
    faults = Faults(control)
    models = [Model(f"m{i}.") for i in range(CLIENTS)]
    file = ChangingFile(folder, rng)
    end, windows, lives = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end or (time.monotonic() < end + PATIENCE and not sum(faults.failures().values())):
        with start(folder, faults) as running:
            for model in models:
                for name in model.may:
                    model.read(running, name, strict=True)
            windows += live(running, faults, models, file, rng, min(end, time.monotonic() + LIFE))
        lives += 1
    answers, failed = sum(model.answers for model in models), sum(faults.failures().values())
    errors = sum(model.errors for model in models)
    assert answers > errors and file.changes and failed, \
        f"{answers} answers, {errors} of them 5xx, {file.changes} changes of a file, {failed} failed calls: this compares nothing"
    return f"{lives} lives, {windows} windows, {answers} answers, {file.changes} changes of a file, {failed} failed calls"


if __name__ == "__main__":
    run(trial, __doc__, seconds=20)
