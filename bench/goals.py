#!/usr/bin/env python3
"""Runs the benchmarks that stand for the project's speed goals and prints one table: goal, measured, met or not.

    bench/goals.py BUILD

BUILD is a release build with Google Benchmark. Ratios within one process; the machine should be quiet.
"""
import json
import re
import statistics
import subprocess
import sys

# What, which benchmarks (a pattern), which counter, the goal, and whether less is better.
GOALS = [
    ("fifo, one sender per link, 8 devices", r"fifo/(layered|branched|transformer)/(pairs|egress)/20000/8/", "x_floor", 3.5, True),
    ("the same, 64 devices", r"fifo/(layered|branched|transformer)/(pairs|egress)/20000/64/", "x_floor", 4.5, True),
    ("the same, a real training graph", r"fifo/network/pairs/20000/(8|64)/", "x_floor", 4.5, True),
    ("shared links, several hops", r"fifo/[a-z]*/(nic|star|switched)/20000/", "x_floor", 5.5, True),
    ("strict order", r"strict/[a-z]*/pairs/20000/(8|64)/", "x_floor", 2.3, True),
    ("priority", r"priority/[a-z]*/pairs/20000/(8|64)/", "x_floor", 7.0, True),
    ("memory peaks, in addition", r"peaks/[a-z]*/pairs/20000/(8|64)/", "more_x_floor", 3.5, True),
    ("200 ops, schedules per second", r"fifo/[a-z]*/pairs/200/8/", "per_second", 130_000, False),
    ("20,000 ops, schedules per second", r"fifo/(layered|branched|transformer)/pairs/20000/8/", "per_second", 1_000, False),
    ("two threads over one", r"two_threads/", "x_one_thread", 1.9, False),
]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pattern = "|".join(goal[1] for goal in GOALS)
    command = [f"{sys.argv[1]}/bench/simulate_bench", f"--benchmark_filter={pattern}", "--benchmark_format=json"]
    benchmarks = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["benchmarks"]
    missed = 0
    print(f"{'':40} {'goal':>9} {'median':>9} {'worst':>9}  where the worst is")
    for what, names, counter, goal, less in GOALS:
        found = {re.sub("/iterations:.*", "", b["name"]): b[counter] for b in benchmarks if re.match(names, b["name"])}
        worst = (max if less else min)(found, key=found.get)
        met = found[worst] <= goal if less else found[worst] >= goal
        missed += not met
        print(f"{what:40} {goal:9,.6g} {statistics.median(found.values()):9,.4g} {found[worst]:9,.4g}  {worst}"
              f"{'' if met else '   NOT MET'}")
    return 1 if missed else 0


sys.exit(main())
