#!/usr/bin/env python3
"""sandboxed.py - runs a program with the system calls and address families that a systemd unit allows it.

    sandboxed.py UNIT PROGRAM [ARGUMENT...]

Another system call ends the program with SIGSYS, where systemd would let it fail with EPERM: so nothing that fails
unnoticed is missed. SystemCallFilter= and RestrictAddressFamilies= are read as systemd reads them, with the groups of
`systemd-analyze syscall-filter`; libseccomp makes the filter. As root, /proc is what ProcSubset=pid leaves of it. All else that
the unit restricts (users, devices, folders) is not applied.
"""
import ctypes
import errno
import os
import re
import socket
import subprocess
import sys

KILL_PROCESS, ALLOW, EQUAL = 0x80000000, 0x7FFF0000, 4
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 1 << 14, 1 << 18


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp of seccomp.h"""
    _fields_ = [("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def settings(unit, name):
    with open(unit, encoding="utf-8") as file:
        return re.findall(rf"(?m)^{name}=(.*)$", file.read())


def groups():
    """{group: its system calls and groups}"""
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], check=True, capture_output=True, text=True).stdout
    found = {}
    for name, body in re.findall(r"(?m)^(@\S+)\n((?:[ \t]+.*\n)*)", text):
        found[name] = {line.strip() for line in body.splitlines() if not line.strip().startswith("#")}
    return found


def members(word, known):
    """the system calls of a word, which is one of them or a group such as @timer"""
    return set().union(*(members(inner, known) for inner in known[word])) if word.startswith("@") else {word}


def allowed_calls(unit):
    """What the lines allow: the first one lists what is allowed, later ones add to it, or with ~ take away."""
    known = groups()
    allowed = members("@default", known)
    for line in settings(unit, "SystemCallFilter"):
        calls = set().union(*(members(word, known) for word in line.lstrip("~").split()))
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    return allowed


def restrict(calls, families):
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(KILL_PROCESS)))
    calls = calls | {"execve"}  # of the program itself
    for call in sorted(calls - {"socket"}):
        number = library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # others are not of this architecture
            library.seccomp_rule_add(context, ctypes.c_uint32(ALLOW), number, 0)
    number = library.seccomp_syscall_resolve_name(b"socket")
    for family in families:
        compared = (Comparison * 1)(Comparison(0, EQUAL, getattr(socket, family), 0))
        library.seccomp_rule_add_array(context, ctypes.c_uint32(ALLOW), number, 1, compared)
    code = library.seccomp_load(context)
    if code != 0:
        sys.exit(f"sandboxed.py: cannot load the filter: {os.strerror(-code)}")


def limit_proc():
    """/proc without all but processes, in a mount namespace of its own"""
    library = ctypes.CDLL(None, use_errno=True)
    if (library.unshare(CLONE_NEWNS) != 0 or library.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0 or
            library.mount(b"proc", b"/proc", b"proc", 0, b"subset=pid") != 0):
        code = ctypes.get_errno()
        if code not in (errno.EPERM, errno.EINVAL):  # no rights in a container, or an older kernel
            sys.exit(f"sandboxed.py: cannot mount /proc: {os.strerror(code)}")


def main():
    unit, program = sys.argv[1], sys.argv[2:]
    calls = allowed_calls(unit)
    if os.geteuid() == 0 and "pid" in settings(unit, "ProcSubset"):
        limit_proc()
    restrict(calls, " ".join(settings(unit, "RestrictAddressFamilies")).split())
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
