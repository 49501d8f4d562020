#!/usr/bin/env python3
"""check_events.py - checks that docs/operation.md says what to do about every log event that needs attention.

    tests/check_events.py

These are the events that the daemon logs at level error or warn. docs/operation.md must list each of them with its level, in
the table with the columns event, level and what to do. Each event in the table must exist in the daemon. Prints a line for
each error and exits with status 1. Without errors, prints a line that starts with "ok".
"""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LOGGED = re.compile(r'\bTD_LOG_(ERROR|WARN),\s*"([a-z_]+)"')
DOCUMENT = "docs/operation.md"
# Events whose level is in a variable, so LOGGED does not find them.
ELSEWHERE = {"request": "warn", "table_skipped": "warn"}


def logged():
    """Returns {event: the levels at which the daemon logs it}."""
    found = {event: {level} for event, level in ELSEWHERE.items()}
    for folder, _, files in os.walk(os.path.join(ROOT, "server")):
        for file in files:
            if file.endswith(".c"):
                with open(os.path.join(folder, file), encoding="utf-8") as source:
                    for level, event in LOGGED.findall(source.read()):
                        found.setdefault(event, set()).add(level.lower())
    return found


def documented():
    """Returns {event: level} from the document."""
    found = {}
    with open(os.path.join(ROOT, DOCUMENT), encoding="utf-8") as document:
        table = document.read().split("| event | level | what to do |\n", 1)[1].split("\n\n", 1)[0]
    for row in table.splitlines()[1:]:
        events, level = row.split("|")[1:3]
        found.update({event: level.strip() for event in re.findall(r"`([a-z_]+)`", events)})
    return found


code, document = logged(), documented()
wrong = [f"{DOCUMENT} does not say what to do about {event}" for event in sorted(code.keys() - document.keys())]
wrong += [f"{DOCUMENT}: {event}: the daemon does not log this" for event in sorted(document.keys() - code.keys())]
wrong += [f"{DOCUMENT}: {event} is {document[event]}, the daemon logs it at {', '.join(sorted(code[event]))}"
          for event in sorted(code.keys() & document.keys()) if document[event] not in code[event]]
for line in wrong:
    print(line)
if wrong:
    sys.exit(1)
print(f"ok: {len(code)} log events are explained in {DOCUMENT}")
