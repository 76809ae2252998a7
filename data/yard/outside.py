#!/usr/bin/env python3
"""Whether an outside solver agrees with the optima that results/ has as proven.

    data/yard/outside.py PROGRAM [--solver cbc|glpsol] [--seconds 20] [--every 1]

Each small instance whose transfers wait for each other or not at all (`fair` is no linear program), but for the task graphs of
STG, whose optima are published, is exported as an integer program (`trainyard export -o model.lp`) and solved by `cbc` or `glpsol`
(packages coinor-cbc, glpk-utils). Prints what differs, and what was not solved in the time; exit code 1 where one differs.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def proven():
    """By instance, the step that is as short as a bound."""
    bounds, steps = {}, {}
    for line in (HERE / "results/results.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        name = row["instance"]
        bounds[name] = max(bounds.get(name, 0), row["lower_bound_ns"])
        if row["fits"]:
            steps[name] = min(steps.get(name, row["makespan_ns"]), row["makespan_ns"])
    return {name: step for name, step in steps.items() if step == bounds[name]}


def solve(solver, model, seconds):
    """The optimum, or None where the time is over."""
    if solver == "cbc":
        words, done, value = [solver, model, "-sec", seconds, "-solve", "-quit"], "Optimal solution found", r"Objective value:\s+(\S+)"
    else:
        out = model + ".txt"
        words, done, value = [solver, "--lp", model, "--tmlim", seconds, "-o", out], "INTEGER OPTIMAL", r"Objective:.*= (\S+)"
    text = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout
    if solver == "glpsol":
        text = pathlib.Path(out).read_text(encoding="utf-8")
    return float(re.search(value, text)[1]) if done in text else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--solver", choices=["cbc", "glpsol"], default="cbc")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    program = str(given.program.resolve())
    optima = proven()
    hashes = (HERE / "hashes").read_text(encoding="utf-8").splitlines()
    names = [line.split()[0] for line in hashes if line.split()[1] == "small"]
    names = [name for name in names if name in optima and not name.startswith("stg") and not name.endswith(".fair")][::given.every]
    agree, differ, unsolved = 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "yard", "list", *names, "-o", folder], check=True, capture_output=True)
        for name in names:
            words = ["export", f"{folder}/{name}.json", "--cluster", f"{folder}/{name}.toml", "-o", f"{folder}/model.lp"]
            subprocess.run([program, *words], check=True, capture_output=True)
            found = solve(given.solver, f"{folder}/model.lp", given.seconds)
            if found is None:
                unsolved.append(name)
            elif round(found) == optima[name]:
                agree += 1
            else:
                differ.append(f"{name}: {round(found)} ns by {given.solver}, {optima[name]} ns are proven here")
    print(f"{given.solver}: {agree} of {len(names)} agree, {len(differ)} differ, {len(unsolved)} not solved in {given.seconds} s")
    print("\n".join(differ + [f"not solved: {name}" for name in unsolved]))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
