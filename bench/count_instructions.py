#!/usr/bin/env python3
"""Counts the instructions per op of each engine on fixed problems, with callgrind.

Unlike times, the counts are equal on all machines of one kind, busy or not.

    bench/count_instructions.py BUILD check     fails if a count exceeds that in data/golden by more than 10 %
    bench/count_instructions.py BUILD update    writes data/golden/instructions.json
    bench/count_instructions.py BUILD show      prints the counts and their ratios to the floor's

BUILD is a release build with benchmarks. Exit code 1: a count has grown; 4: valgrind or the program is missing.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden" / "instructions.json"
TOLERATED = 0.10


def count(build):
    program = pathlib.Path(build) / "bench" / "instructions"
    if not program.exists():
        raise SystemExit(missing(f"{program} is not there: ninja -C {build} bench/instructions"))
    if shutil.which("valgrind") is None:
        raise SystemExit(missing("valgrind is not installed: apt-get install valgrind"))
    with tempfile.TemporaryDirectory() as folder:
        dumps = pathlib.Path(folder) / "dump"
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={dumps}", "--toggle-collect=measured_run",
             "--dump-after=measured_run", str(program)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if run.returncode != 0:
            raise SystemExit(run.stderr + f"count_instructions: {program} failed")
        lines = run.stdout.splitlines()
        compiler = lines.pop(0).removeprefix("compiler ")
        counts = {}
        for number, line in enumerate(lines, start=1):
            form, problem, ops = line.split()
            text = pathlib.Path(f"{dumps}.{number}").read_text()
            total = int(re.search(r"^totals: (\d+)$", text, re.MULTILINE).group(1))
            counts.setdefault(problem, {})[form] = round(total / int(ops), 1)
    return {"compiler": compiler, "instructions_per_op": counts}


def missing(why):
    print(f"count_instructions: {why}", file=sys.stderr)
    return 4


def best_floor(forms):
    """The smaller count of the floor's two forms; None if neither was counted."""
    return min((forms[form] for form in ("floor-branchy", "floor-branchless") if form in forms), default=None)


def show(counted):
    floor = None
    print(f"{'problem':28} {'form':22} {'per op':>8} {'x floor':>8}   ({counted['compiler']})")
    for problem, forms in counted["instructions_per_op"].items():
        floor = best_floor(forms) or floor  # further fabrics of a shape use the floor of the first
        for form, value in forms.items():
            print(f"{problem:28} {form:22} {value:8.1f} {value / floor:8.2f}")


def check(counted, golden):
    if counted["compiler"] != golden["compiler"]:
        print(f"counted with {counted['compiler']}, recorded with {golden['compiler']}")
    grown = False
    for problem, forms in golden["instructions_per_op"].items():
        for form, was in forms.items():
            now = counted["instructions_per_op"].get(problem, {}).get(form)
            if now is None:
                print(f"{problem} {form}: recorded, but no longer counted")
                grown = True
            elif now > was * (1 + TOLERATED):
                print(f"{problem} {form}: {now} instructions per op, {was} recorded: {now / was - 1:+.1%}")
                grown = True
    print("instructions per op have grown; where that is meant: bench/count_instructions.py BUILD update" if grown
          else "instructions per op: none has grown by more than 10 %")
    return 1 if grown else 0


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("check", "update", "show"):
        print(__doc__, file=sys.stderr)
        return 2
    counted = count(sys.argv[1])
    if sys.argv[2] == "update":
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(json.dumps(counted, indent=1) + "\n")
    if sys.argv[2] == "check":
        return check(counted, json.loads(GOLDEN.read_text()))
    show(counted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
