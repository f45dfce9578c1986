#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""ARCHITECTURE.md's hop tables against what a SEND and a WRITE really do.

Builds the libraries once more with every function instrumented (in
BUILDDIR/tests/trace/traced), runs one_request on them, merges the traces of
its two processes by time, and asserts for each table that

- the hops happen, on the side and in the order that the table states;
- no file takes part that neither the table nor also_run.txt names, in the
  threads that do some of the hops: what others do at that time, woken late by
  something before, is their own affair.

A thread that a busy machine holds up (a helper that has just begun, or that
answers the SEND before it) spoils one trace: what is wrong with the table is
seen in each of TRIES.

    check_hops.py SOURCEDIR BUILDDIR TRACER PROGRAM
    check_hops.py --self-test
"""

import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import namedtuple

Hop = namedtuple("Hop", "number side file function")
Event = namedtuple("Event", "ns side file function thread", defaults=("",))

ROW = re.compile(r"^\|\s*(\d+)\s*\|([^|]*)\|([^|]*)\|([^|]*)\|")
TABLE = re.compile(r"^## Life of an? (\w+)$")
ALSO = "also_run.txt"
APP = "app"
TRIES = 3
SKIPPED = 77
# No daemon or traffic of others.
OWN_NETWORK = ("unshare", "--net", "sh", "-c",
               'ip link set lo up && exec "$0" "$@"')

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import rights  # noqa: E402


def parse_document(text):
    """Request -> the hops of the table under its heading."""
    tables = {}
    hops = []
    for line in text.splitlines():
        heading = TABLE.match(line)
        if heading:
            hops = tables[heading.group(1).lower()] = []
        match = ROW.match(line)
        if match:
            number, side, name, function = (
                part.strip().strip("`") for part in match.groups())
            hops.append(Hop(int(number), side, name, function.rstrip("()")))
    return tables


def parse_list(text):
    """The patterns of files, without comments."""
    return [line for line in text.splitlines()
            if line and not line.startswith("#")]


def check_order(hops, events):
    """None, or what is wrong.  Every hop must follow the one before it."""
    at = 0
    for hop in hops:
        wanted = (hop.side, hop.file, hop.function)
        start = at
        while at < len(events) and events[at][1:4] != wanted:
            at += 1
        if at == len(events):
            ever = any(event[1:4] == wanted for event in events)
            seen = list(dict.fromkeys(
                f"    {event.side}: {event.file} {event.function}()"
                for event in events[start:]))
            return (f"hop {hop.number}, {hop.side}: {hop.file} "
                    f"{hop.function}(): "
                    + ("happens only before the hop above it"
                       if ever else "does not happen")
                    + ".\nAfter that hop came:\n" + "\n".join(seen[:80]))
        at += 1
    return None


def check_complete(hops, also, events):
    """None, or the files that take part without being named."""
    named = {hop.file for hop in hops}
    steps = {(hop.side, hop.file, hop.function) for hop in hops}
    busy = {(event.side, event.thread) for event in events
            if event[1:4] in steps}
    strangers = {}
    for event in events:
        if (event.side, event.thread) not in busy:
            continue
        if event.file not in named and not any(
                fnmatch.fnmatch(event.file, pattern) for pattern in also):
            strangers.setdefault((event.side, event.file), event.function)
    if not strangers:
        return None
    return f"neither a hop nor {ALSO} names what takes part:\n" + "\n".join(
        f"    {side}: {name} {function}()"
        for (side, name), function in sorted(strangers.items()))


def window(events):
    """From the application's post to its completion, in time."""
    events = sorted(events)
    marks = [i for i, event in enumerate(events)
             if event.side == "requester" and event.file == APP]
    return events[marks[0]:marks[-1] + 1] if marks else []


def resolve(module, offsets, source):
    """Offset -> (file without suffix below src/, function)."""
    names = {}
    out = subprocess.run(
        ["addr2line", "-f", "-e", module], check=True, capture_output=True,
        text=True, input="\n".join(offsets) + "\n").stdout.splitlines()
    for offset, function, place in zip(offsets, out[::2], out[1::2]):
        path = os.path.realpath(place.rsplit(":", 1)[0])
        name = os.path.relpath(path, os.path.join(source, "src"))
        if not name.startswith(".."):
            names[offset] = (os.path.splitext(name)[0], function)
    return names


def read_trace(path, side, source):
    lines = [line.split() for line in
             pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    offsets = {}
    for line in lines:
        if len(line) == 4:
            offsets.setdefault(line[2], {})[line[3]] = True
    names = {module: resolve(module, list(found), source)
             for module, found in offsets.items() if os.path.isfile(module)}
    events = []
    for line in lines:
        if line[2].startswith("="):
            events.append(Event(int(line[0]), side, APP, line[2][1:],
                                line[1]))
        elif line[3] in names.get(line[2], {}):
            events.append(Event(int(line[0]), side,
                                *names[line[2]][line[3]], line[1]))
    return events


def build(source, directory):
    """The libraries and the daemon, instrumented and without inlining."""
    if not (directory / "build.ninja").exists():
        subprocess.run(
            ["meson", "setup", directory, source, "--buildtype=debug",
             # addr2line names the wrong file for the first function of a unit
             # in DWARF 5.
             "-Dwerror=false", "-Dc_args=-finstrument-functions -gdwarf-4"],
            check=True, stdout=subprocess.DEVNULL)
    # Whatever the libraries are called: all that src/ makes.
    outputs = subprocess.run(
        ["ninja", "-C", directory, "-t", "targets", "all"], check=True,
        capture_output=True, text=True).stdout
    targets = [line.split(":")[0] for line in outputs.splitlines()
               if re.match(r"src/[^:]*: \w+_LINKER", line)]
    # ccache takes -gdwarf-4 for no debugging information, and returns objects
    # that were made in another directory and name its files.
    subprocess.run(["ninja", "-C", directory, *targets], check=True,
                   env=dict(os.environ, CCACHE_DISABLE="1"),
                   stdout=subprocess.DEVNULL)


def trace(source, directory, tracer, program, request):
    libraries = sorted({str(path.parent) for path in
                        (directory / "src").rglob("lib*.so*")
                        if path.is_file()})
    env = dict(os.environ, LD_PRELOAD=tracer, URNIC_IDLE="1",
               URNIC_SHM="0" if request == "send" else "1",
               LD_LIBRARY_PATH=":".join(libraries))
    daemons = [path for path in directory.rglob("urnicd") if path.is_file()]
    if daemons:
        env["URNICD"] = str(daemons[0])
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([*OWN_NETWORK, program, request, out], check=True,
                       env=env, timeout=60)
        return [event for side in ("requester", "responder")
                for event in read_trace(os.path.join(out, side), side, source)]


def self_test():
    text = ("| 7 | x | `y` | `z()` | no table |\n"
            "## Life of a SEND\n\n"
            "| 1 | requester | app | post() | x |\n"
            "| 2 | requester | `verbs/qp` | `post_send()` | x |\n"
            "| 3 | responder | `core/cq` | `ur_cq_push()` | x |\n\n"
            "## Life of a WRITE\n\n| 1 | requester | app | post() | x |\n")
    tables = parse_document(text)
    assert list(tables) == ["send", "write"], tables
    hops = tables["send"]
    also = parse_list("# x\nbase/*\n\ncore/types\n")
    assert also == ["base/*", "core/types"], also
    assert [hop.file for hop in hops] == [APP, "verbs/qp", "core/cq"]
    good = [Event(1, "requester", APP, "post"),
            Event(2, "requester", "verbs/qp", "post_send"),
            Event(3, "responder", "base/crc", "ur_crc32"),
            Event(4, "responder", "core/cq", "ur_cq_push")]
    assert check_order(hops, good) is None
    assert check_complete(hops, also, good) is None
    assert "does not happen" in check_order(hops, good[:3])
    swapped = [good[0], good[3], good[1]]
    assert "only before" in check_order(hops, swapped)
    stranger = good + [Event(5, "responder", "shm/sealed", "send")]
    assert "shm/sealed" in check_complete(hops, also, stranger)
    other = good + [Event(5, "responder", "engine/watch", "work", "7")]
    assert check_complete(hops, also, other) is None
    late = [Event(9, "requester", APP, "done"), *good[1:], good[0],
            Event(10, "requester", "core/cq", "x")]
    assert len(window(late)) == 5
    return 0


def check_request(request, hops, also, run):
    """True if a trace is as the table has it, in one of TRIES."""
    if [hop.number for hop in hops] != list(range(1, len(hops) + 1)) or \
            len(hops) < 2:
        print(f"ARCHITECTURE.md, {request}: no rows 1, 2, 3 ...")
        return False
    for _ in range(TRIES):
        events = window(run(request))
        wrong = [finding for finding in (
            check_order(hops, events), check_complete(hops, also, events))
            if finding]
        for finding in wrong:
            print(f"ARCHITECTURE.md, {request}:", finding)
        if not wrong:
            print(f"{request}: {len(hops)} hops in the order that "
                  "ARCHITECTURE.md states")
            return True
    return False


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    source, top, tracer, program = sys.argv[1:]
    source = os.path.realpath(source)
    tables = parse_document((pathlib.Path(source) / "ARCHITECTURE.md")
                            .read_text(encoding="utf-8"))
    also = parse_list((pathlib.Path(__file__).parent / ALSO)
                      .read_text(encoding="utf-8"))
    if sorted(tables) != ["send", "write"]:
        print(f"ARCHITECTURE.md: tables of {sorted(tables)}")
        return 1
    directory = pathlib.Path(top) / "tests" / "trace" / "traced"
    rights.take()
    if not rights.quiet(*OWN_NETWORK, "true"):
        print("skipped: " + rights.why_no_namespaces())
        return SKIPPED
    build(source, directory)

    def run(request):
        return trace(source, directory, tracer, program, request)

    good = [check_request(*table, also, run) for table in tables.items()]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
