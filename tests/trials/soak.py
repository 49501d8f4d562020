#!/usr/bin/env python3
"""Mixed load for a long time: persisting clients, computing clients, hostile ones, files that change, aliases that flip, failing
calls, restarts and kills.

    soak.py [--binary PATH] [--rounds N] [--windows N] [--seed N]         100 rounds, or as many windows, are a soak

Each round starts the daemon and puts it under the given number of windows of load. Every answer is checked, and the results of
ops are compared with NumPy's. After each window the daemon holds no more descriptors, threads, connections and memory than before, and after each restart what was
persisted is there. Every second life ends with a kill under load. Skipped without the library of faults.py, or without NumPy.
"""
import itertools, os, signal, threading, urllib.parse

import random_requests  # first: it restarts this program where NumPy is
from faults import SETS, Faults, Model, end_idle, start
from hostile import Served, attack
from trial import *
from versions import KEEP, Publisher, State

CLIENTS, RSS_GROWTH = 3, 96 << 20
WINDOWS, STEPS, CHANGES, ATTACKS = 6, 60, 20, 6  # of a life; of a client, of the file, and of the hostile client in a window
FLIPS, COMPARISONS = 6, 60  # of aliases, and of results with NumPy's in a window
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


def flip(running, rng, state):
    """two aliases name new versions, and a request sees both of them"""
    with Client(running) as client:
        Publisher(running, rng, state).step(client)
        state.read(client, "put")


def compare(running, rng):
    """the result of a random request with NumPy's"""
    with Client(running) as client:
        random_requests.compare(random_requests.Transports(client, rng), rng)


def remove_others(running, models):
    """deletes the tensors of hostile clients and of comparisons"""
    ours = {name for model in models for name in model.may} | {"changing"}
    with Client(running) as client:
        for name in set(names(client)) - ours:
            if not name.startswith(("a@", "b@")):
                client.request("DELETE", "/v1/tensors/" + urllib.parse.quote(name, safe=""))


class Life:
    """a life of the daemon: windows of load with and without failing calls"""

    def __init__(self, running, faults, models, file, state, rng):
        self.running, self.faults, self.models, self.file, self.state, self.rng = running, faults, models, file, state, rng
        self.before, self.rss = None, []

    def random(self):
        return random.Random(self.rng.random())

    def expect_persisted(self):
        for model in self.models:
            for name in model.may:
                model.read(self.running, name, strict=True)
        with Client(self.running) as client:
            self.state.sure["put"] = self.state.read(client, "put")

    def load(self, number):
        running, failing, window = self.running, number % 3 == 2, Window(self.running)
        failures = sum(self.faults.failures().values())
        if failing:
            self.faults.set(self.rng.choice(SETS), self.rng.choice((1000, 10000)), self.rng.getrandbits(63))
        for model in self.models:
            window.start(STEPS, failing_step if failing else steady, model, running, self.random(), window.served,
                         until=lambda: not failing or sum(self.faults.failures().values()) > failures)
        if not failing:
            window.start(CHANGES, self.file.change, running)
            window.start(FLIPS, flip, running, self.random(), self.state)
            window.start(COMPARISONS, compare, running, self.random())
        if number % 3 == 1:
            window.start(ATTACKS, attack, running, self.random(), window.served)
        try:
            window.end()
        finally:
            self.faults.set()

    def window(self, number):
        self.load(number)
        end_idle(self.running)
        self.expect_persisted()
        remove_others(self.running, self.models)
        now = held(self.running)
        if number >= 2:  # one of each kind has warmed up
            self.before = self.before or now
            now = expect_returned(self.running, self.before, rss=RSS_GROWTH)
        self.rss.append(now["rss"] >> 20)

    def kill(self):
        """while the clients persist"""
        def write(model, rng):
            if self.running.alive():
                model.step(self.running, rng)
        window, answers = Window(self.running), sum(model.answers for model in self.models)
        for model in self.models:
            window.start(1, write, model, self.random(), until=lambda: not self.running.alive())
        eventually(lambda: window.errors or sum(model.answers for model in self.models) > answers + STEPS)
        self.running.process.kill()
        window.end()
        self.running.wait()


def trial(rounds, rng, windows):
    folder, control = daemon.temporary_folder(), daemon.temporary_folder()
    faults, state, kills = Faults(control), State(folder), 0
    models = [Model(f"m{i}.") for i in range(CLIENTS)]
    file = ChangingFile(folder, rng)
    for number in range(rounds):
        with start(folder, faults, "--keep-versions", str(KEEP)) as running:
            life = Life(running, faults, models, file, state, rng)
            life.expect_persisted()
            for window in range(windows):
                life.window(window)
            if number % 2 == 0:
                life.kill()
                kills += 1
        print(f"life {number + 1}: resident memory after each window in MiB: {' '.join(map(str, life.rss))}", flush=True)
    answers, failed = sum(model.answers for model in models), sum(faults.failures().values())
    errors = sum(model.errors for model in models)
    assert answers > errors and file.changes and failed, \
        f"{answers} answers, {errors} of them 5xx, {file.changes} changes of a file, {failed} failed calls: this compares nothing"
    return (f"{rounds} lives, {kills} of them killed, {windows * rounds} windows, {answers} answers, {file.changes} changes of a file, "
            f"{state.sure['put']} flips, {failed} failed calls")


if __name__ == "__main__":
    run(trial, __doc__, rounds=1, windows=WINDOWS)
