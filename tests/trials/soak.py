#!/usr/bin/env python3
"""Mixed load for a long time: persisting clients, computing clients, hostile ones, files that change, failing calls, restarts.

    soak.py [--binary PATH] [--rounds N] [--seed N]         100 rounds and more are a soak

Every answer is checked. After each window of load the daemon holds no more descriptors, threads, connections and memory than
before, and after each restart what was persisted is there. Skipped without the library of faults.py.
"""
import itertools, os, signal, threading, urllib.parse

from faults import SETS, Faults, Model, end_idle, start
from hostile import Served, attack
from trial import *

CLIENTS, RSS_GROWTH = 3, 96 << 20
WINDOWS, STEPS, CHANGES, ATTACKS = 6, 60, 20, 6  # of a life; of a client, of the file, and of the hostile client in a window
MOST_STEPS = 100 * STEPS  # of a client in a window whose calls do not fail


class Window:
    """some load by several threads; the first error ends it"""

    def __init__(self, running):
        self.running, self.errors, self.threads, self.served = running, [], [], Served()

    def start(self, times, work, *arguments, until=lambda: True):
        """so many times, and until the condition is true"""
        def run():
            try:
                for done in itertools.count():
                    if self.errors or done >= times and (until() or done > MOST_STEPS):
                        break
                    work(*arguments)
            except Exception as e:
                self.errors.append(e)
        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def join(self, threads):
        for thread in threads:
            thread.join(20 * WAIT_LIMIT)
            if thread.is_alive():
                self.errors.append(AssertionError("a client waits for longer than any request takes"))

    def end(self):
        """waits for the clients, then for those who count their answers"""
        self.join(self.threads[:CLIENTS])
        self.served.end()
        self.join(self.threads[CLIENTS:])
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
        with Client(running) as client:
            def is_new():
                found = read_value(client, "changing")
                assert found in (old, self.value), f"changing is {found}, not {old}, nor {self.value}"
                return found == self.value
            eventually(is_new, "that the file is read again after SIGHUP")
        self.changes += 1


def failing_step(model, running, rng, served):
    model.step(running, rng)
    served.add()


def steady(model, running, rng, served):
    """a step without failures: every request is answered, with success"""
    before = model.errors, model.lost
    failing_step(model, running, rng, served)
    assert (model.errors, model.lost) == before, "a request failed or was not answered"


def live(running, faults, models, file, rng):
    """one life of the daemon: windows of load with and without failing calls"""
    before = None
    for number in range(WINDOWS):
        failing, window, failures = number % 3 == 2, Window(running), sum(faults.failures().values())
        if failing:
            faults.set(rng.choice(SETS), rng.choice((1000, 10000)), rng.getrandbits(63))
        for model in models:
            window.start(STEPS, failing_step if failing else steady, model, running, random.Random(rng.random()), window.served,
                         until=lambda: not failing or sum(faults.failures().values()) > failures)
        if not failing:
            window.start(CHANGES, file.change, running)
        if number % 3 == 1:
            window.start(ATTACKS, attack, running, random.Random(rng.random()), window.served)
        try:
            window.end()
        finally:
            faults.set()
        end_idle(running)
        for model in models:
            for name in model.may:
                model.read(running, name, strict=True)
        with Client(running) as client:
            ours = {name for model in models for name in model.may} | {"changing"}
            for name in set(names(client)) - ours:  # of hostile clients
                client.request("DELETE", "/v1/tensors/" + urllib.parse.quote(name, safe=""))
        if number >= 2:  # one of each kind has warmed up
            before = before or held(running)
            expect_returned(running, before, rss=RSS_GROWTH)


def trial(rounds, rng):
    folder, control = daemon.temporary_folder(), daemon.temporary_folder()
    faults = Faults(control)
    models = [Model(f"m{i}.") for i in range(CLIENTS)]
    file = ChangingFile(folder, rng)
    for _ in range(rounds):
        with start(folder, faults) as running:
            for model in models:
                for name in model.may:
                    model.read(running, name, strict=True)
            live(running, faults, models, file, rng)
    answers, failed = sum(model.answers for model in models), sum(faults.failures().values())
    errors = sum(model.errors for model in models)
    assert answers > errors and file.changes and failed, \
        f"{answers} answers, {errors} of them 5xx, {file.changes} changes of a file, {failed} failed calls: this compares nothing"
    return f"{rounds} lives, {WINDOWS * rounds} windows, {answers} answers, {file.changes} changes of a file, {failed} failed calls"


if __name__ == "__main__":
    run(trial, __doc__, rounds=1)
