#!/usr/bin/env python3
"""Measures the project's speed goals and prints one table: goal, measured value, met or not.

    bench/goals.py BUILD            about a minute and a half
    bench/goals.py BUILD --large    also 10^7 ops on 1,024 devices: some minutes, 9 GB while the graph is built

BUILD is a release build with Google Benchmark; SimGrid and valgrind are used if installed. Both sides of a ratio are
measured in one process; the machine should be idle. Median and worst are taken over shapes, numbers of devices and
links. For information, "lean" is the worst ratio to the floor on specialized arrays (lean_floor.hpp), where it applies.
Exit code 1: some goal is not met.
"""
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True  # writes nothing into the source tree
import count_instructions  # noqa: E402

DRAWN = "(layered|branched|transformer)"
# (label, pattern of benchmark names, counter, goal, whether smaller is better)
TIMES = [
    ("fifo, one sender per link, 8 devices", f"fifo/{DRAWN}/(pairs|egress)/20000/8/", "x_floor", 3.5, True),
    ("the same, 64 devices", f"fifo/{DRAWN}/(pairs|egress)/20000/64/", "x_floor", 4.5, True),
    ("the same, a real training graph", "fifo/network/pairs/20000/(8|64)/", "x_floor", 4.5, True),
    ("shared links, several hops", f"fifo/{DRAWN}/(nic|star|switched)/20000/", "x_floor", 5.5, True),
    ("strict order", "strict/[a-z]*/pairs/20000/(8|64)/", "x_floor", 2.3, True),
    ("priority", "priority/[a-z]*/pairs/20000/(8|64)/", "x_floor", 7.0, True),
    ("memory peaks, in addition", "peaks/[a-z]*/pairs/20000/(8|64)/", "more_x_floor", 3.5, True),
    ("200 ops, schedules per second", "fifo/[a-z]*/pairs/200/8/", "per_second", 130_000, False),
    ("20,000 ops, schedules per second", f"fifo/{DRAWN}/pairs/20000/8/", "per_second", 1_000, False),
    ("two threads over one, wall clock", "two_threads/", "x_one_thread", 1.9, False),
    ("the same, processor time", "two_threads/", "x_one_thread_processor", 1.9, False),
]


class Table:
    def __init__(self):
        self.missed = 0
        print(f"{'':40} {'goal':>9} {'median':>9} {'worst':>9} {'lean':>6}  where the worst is")

    def row(self, what, found, goal, less, lean=None):
        """Prints a row of the table and counts missed goals. `found` has the measured values by name."""
        if not found:
            print(f"{what:40} {goal:9,.6g}   not measured here")
            return
        worst = (max if less else min)(found, key=found.get)
        met = found[worst] <= goal if less else found[worst] >= goal
        self.missed += not met
        print(f"{what:40} {goal:9,.6g} {statistics.median(found.values()):9,.4g} {found[worst]:9,.4g} "
              f"{'' if lean is None else format(lean, '.3g'):>6}  {worst}{'' if met else '   NOT MET'}", flush=True)


def benchmarks(build):
    pattern = "|".join(sorted({goal[1] for goal in TIMES}))
    command = [build / "bench" / "simulate_bench", f"--benchmark_filter={pattern}", "--benchmark_format=json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["benchmarks"]


def times(build, table):
    measured = benchmarks(build)
    for what, names, counter, goal, less in TIMES:
        here = [b for b in measured if re.match(names, b["name"])]
        found = {b["name"].split("/iterations:")[0]: b[counter] for b in here}
        lean = max((b["x_lean_floor"] for b in here), default=None) if counter == "x_floor" else None
        table.row(what, found, goal, less, lean)


def instructions(build, table):
    found = {}
    lean = None
    if shutil.which("valgrind"):
        counted = count_instructions.count(build)["instructions_per_op"]
        fifo = {problem: forms for problem, forms in counted.items() if "floor-branchy" in forms}
        found = {problem: forms["fifo"] / count_instructions.best_floor(forms) for problem, forms in fifo.items()}
        lean = max(forms["fifo"] / min(forms["lean-floor-branchy"], forms["lean-floor-branchless"])
                   for forms in fifo.values())
    table.row("fifo, instructions", found, 2.5, True, lean)


def peers(build, table):
    simgrid = build / "test" / "simulate" / "simgrid_peer"
    command = [build / "bench" / "peers"] + ([simgrid] if simgrid.exists() else [])
    ratios = {"textbook event loop": {}, "simgrid": {}}
    case = None
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if not line.startswith(" "):
            case = line
        elif found := re.match(r"  (.+?) +makespan .* ([\d.]+) x$", line):
            if found[1] in ratios:
                ratios[found[1]][case] = float(found[2])
    table.row("against a textbook event loop", ratios["textbook event loop"], 8, False)
    table.row("against SimGrid", ratios["simgrid"], 40, False)


def large(build, table):
    seconds, gigabytes = {}, {}
    for shape in ("layered", "branched", "transformer"):
        text = subprocess.run([build / "bench" / "large", shape, "1e7"], capture_output=True, text=True,
                              check=True).stdout
        seconds[shape] = float(re.search(r"processor time +([\d.]+) s", text)[1])
        gigabytes[shape] = float(re.search(r"while simulating +([\d.]+) GB", text)[1])
    table.row("10^7 ops on 1,024 devices, s", seconds, 2, True)
    table.row("10^7 ops on 1,024 devices, GB", gigabytes, 2, True)


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--large"]):
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1])
    table = Table()
    times(build, table)
    instructions(build, table)
    peers(build, table)
    if "--large" in sys.argv:
        large(build, table)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
