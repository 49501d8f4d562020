"""The daemon of tests/gates, which stops at named gates and whose clock the test moves.

GatedDaemon     a Daemon with .gates and .clock
Gates.closed    closes a gate; what arrives there waits
Clock.advance   adds seconds to the daemon's time
Clock.stopped   within the block only advance() moves the daemon's time

A test puts the daemon into the state that it wants to see:

    with daemon.gates.closed("compute") as gate, Raw(daemon) as raw:
        raw.send(request)
        gate.arrival()              # a worker is busy with the request, and stays so
        gate.let_pass()             # later requests are not stopped
        ...
    self.assertStatus(raw.reply(), 200)

tests/gates/points.c lists the gates.
"""
import contextlib, mmap, os, socket, time

import daemon
from daemon import WAIT_LIMIT, Daemon, temporary_folder, with_default


def program():
    """the path of the daemon with gates, beside the one that is tested"""
    return os.path.join(os.path.dirname(os.path.abspath(daemon.BINARY)), "tests", "gates", "tensord-gated")


class Arrival:
    """A thread of the daemon that waits at a gate; .what is the line that it sent."""

    def __init__(self, connection):
        self.connection, line = connection, b""
        connection.settimeout(WAIT_LIMIT)
        while not line.endswith(b"\n") and (more := connection.recv(4096)):
            line += more
        self.what = line.decode("utf-8", "replace").rstrip("\n")

    def release(self):
        """the thread goes on"""
        self.connection.close()


class Gate:
    """A closed gate."""

    def __init__(self, path):
        self.path, self.arrivals = path, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1024)
        self.listener.settimeout(WAIT_LIMIT)

    def arrival(self):
        """waits for the next thread at the gate"""
        self.arrivals.append(Arrival(self.listener.accept()[0]))
        return self.arrivals[-1]

    def let_pass(self):
        """who arrives from now on does not stop; who has been met by arrival() still waits"""
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener.close()  # resets the connections that were not accepted

    def open(self):
        """all go on"""
        self.let_pass()
        for arrival in self.arrivals:
            arrival.release()


class Gates:
    """The gates of a daemon; all are open at first."""

    def __init__(self, folder):
        self.folder = folder

    def close(self, name):
        return Gate(os.path.join(self.folder, name))

    @contextlib.contextmanager
    def closed(self, name):
        """closes a gate; it opens at the end of the block"""
        gate = self.close(name)
        try:
            yield gate
        finally:
            gate.open()


class Clock:
    """The daemon's time, as a file says that it maps."""

    def __init__(self, folder):
        path = os.path.join(folder, "clock")
        with open(path, "w+b") as file:
            file.write(bytes(mmap.PAGESIZE))
            file.flush()
            # An assignment to an element is one store: the daemon never sees half of it.
            self.numbers = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("q")

    def advance(self, seconds):
        self.numbers[0] += int(seconds * 1e9)

    def advanced(self):
        """by how many seconds"""
        return self.numbers[0] / 1e9

    @contextlib.contextmanager
    def stopped(self):
        """a slow machine, or the end of a second, makes no difference; a clock that stands already still stands after the block"""
        before = self.numbers[1]
        self.numbers[1] = before or time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        try:
            yield
        finally:
            self.numbers[1] = before


class GatedDaemon(Daemon):
    """A Daemon with gates and a clock that can be advanced."""

    def sweep(self):
        """waits until the daemon has looked at all connections, beginning after this call"""
        with self.gates.closed("sweep") as gate:
            first = gate.arrival()  # it has read the time before this call
            first.release()
            for _ in range(int(first.what) + 1):
                gate.arrival().release()
            gate.arrival()  # those before have ended

    def __init__(self, *options, env=None, **rest):
        folder = temporary_folder("gates-")  # not tensord-: holdings.py counts what is mapped from those
        self.gates, self.clock = Gates(folder), Clock(folder)
        # Time passes while a gate is closed. A request that waits there, and a connection that is idle meanwhile, only
        # reach a deadline that their test has set.
        for name in "--default-timeout-ms", "--idle-timeout-ms":
            options = with_default(name, "86400000", options)
        super().__init__(*options, env={**(env or {}), "TD_TEST_GATES": folder}, **rest)

    def program(self):
        return program()
