#!/usr/bin/env python3
"""Instructions per op of each kind of simulation (layered graph, 5,000 ops, 8 devices), counted by valgrind.

    bench/count_instructions.py BUILD check      compare with data/golden/instructions.json: exit 1 where one grew by over 10 %
    bench/count_instructions.py BUILD update     write that file

Unlike times, the counts are the same on every run and machine with the same compiler and options: a release build.
"""
import json
import pathlib
import re
import subprocess
import sys

KINDS = ["floor", "fifo", "egress", "shared", "strict", "priority", "peaks", "timeline"]
OPS, FEW, MANY = 5000, 4, 12
GOLDEN = pathlib.Path(__file__).parent.parent / "data" / "golden" / "instructions.json"


def instructions(program, kind, runs):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), kind, str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("check", "update"):
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]) / "bench" / "instructions"
    per_op = {}
    for kind in KINDS:
        many, few = instructions(program, kind, MANY), instructions(program, kind, FEW)
        per_op[kind] = round((many - few) / ((MANY - FEW) * OPS), 1)
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    if sys.argv[2] == "update":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps({"compiler": compiler, "per_op": per_op}, indent=1) + "\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    if golden["compiler"] != compiler:
        print(f"recorded with {golden['compiler']}, counted with {compiler}")
    bad = 0
    for kind in KINDS:
        was, now = golden["per_op"][kind], per_op[kind]
        grown = now > 1.1 * was
        bad += grown
        print(f"{kind:10} {now:8.1f} per op  {now / per_op['floor']:5.2f} x floor  recorded {was:8.1f}"
              + ("   GREW BY OVER 10 %" if grown else ""))
    return 1 if bad else 0


sys.exit(main())
