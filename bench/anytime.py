#!/usr/bin/env python3
"""Measures the quality of `auto` after 0.1, 1 and 10 seconds, with restarts, and with a second thread.

    bench/anytime.py BUILD -o results.jsonl [--instances a,b] [--minutes 8]
    bench/anytime.py --show results.jsonl

Instances of the Yard (`trainyard yard list`), without splits. On each instance, `auto` runs on one thread for 0.1, 1,
1.8 and 10 s, on two threads for 1 s, and with nine other seeds for 1 s. The best of the ten seeds is the result of 10 s
with nine restarts. Runs that the results file already has are not repeated. --minutes stops after that time; a later
call continues. Prints a Markdown table. Times are wall-clock times, so nothing else should run; each row has the
machine's load.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

INSTANCES = [
    "stg-rand0081.8xV100", "layered-ops400-width12-seed1.4xV100.serial", "layered-ops400-width12-seed1.8xT4.serial",
    "fork-join-ops400-width8-seed1.8xT4.serial", "random-ops300-seed1.8xT4.serial", "mesh-ops256-width16-seed1.8xT4.serial",
    "layered-ops150-width6-training1-seed1.4xV100.fair", "layered-ops200-width10-seed5.4xV100-PCIe-16GB+T4",
    "layered-ops100-width8-training1-seed7.4xV100.memory120", "fork-join-ops200-width8-seed8.4xV100.bandwidth25",
    "inception_v3.4xV100", "transformer.8xV100",
]
SEEDS = 10
# (threads, seconds, seed)
RUNS = [(1, 0.1, 1), (1, 10, 1), (2, 1, 1), (1, 1.8, 1)] + [(1, 1, seed + 1) for seed in range(SEEDS)]


def run(program, folder, instance, threads, seconds, seed):
    words = ["place", f"{instance}.json", "--cluster", f"{instance}.toml", "--placer", "auto", "--no-splits",
             "--time", f"{seconds}s", "--threads", str(threads), "--seed", str(seed), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    found = json.loads(done.stdout)
    return {"instance": instance, "threads": threads, "seconds": seconds, "seed": seed, "load": os.getloadavg()[0],
            "took": found["search_seconds"], "processor": resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, "makespan_ns": found["makespan_ns"], "fits": found["fits"],
            "bound_ns": found["lower_bound_ns"], "evaluations": found["evaluations"]}


def measure(build, instances, path, minutes):
    program = str(build.resolve() / "sim" / "trainyard")
    done = {(row["instance"], row["threads"], row["seconds"], row["seed"]) for row in read(path)}
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder, open(path, "a", encoding="utf-8") as out:
        subprocess.run([program, "yard", "list", *instances, "-o", folder], check=True, capture_output=True)
        for instance in instances:
            for each in RUNS:
                if (instance, *each) in done:
                    continue
                if time.monotonic() > end:
                    return
                print(json.dumps(run(program, folder, instance, *each)), file=out, flush=True)


def read(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def show(rows):
    by_instance = {}
    for row in rows:
        by_instance.setdefault(row["instance"], {})[row["threads"], row["seconds"], row["seed"]] = row
    print("| instance | bound | 0.1 s | 1 s | 10 s | ten starts | two threads, 1 s, over one, 1.8 s | evaluations, of these |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    columns, dropped = [], []
    for instance, runs in by_instance.items():
        if not all(each in runs for each in RUNS) or not all(row["fits"] for row in runs.values()):
            missing, unfit = sum(each not in runs for each in RUNS), sum(not row["fits"] for row in runs.values())
            dropped.append(f"`{instance}` ({missing} of {len(RUNS)} runs missing, {unfit} that do not fit)")
            continue
        step = {each: runs[each]["makespan_ns"] for each in RUNS}
        bound = max(row["bound_ns"] for row in runs.values())
        again = min(step[1, 1, seed + 1] for seed in range(SEEDS))
        values = [step[1, 0.1, 1] / bound, step[1, 1, 1] / bound, step[1, 10, 1] / bound, again / step[1, 10, 1],
                  step[2, 1, 1] / step[1, 1.8, 1], runs[2, 1, 1]["evaluations"] / runs[1, 1.8, 1]["evaluations"]]
        columns.append(values)
        cells = [f"{value:.4f}" for value in values[:5]] + [f"{values[5]:.2f}"]
        print(f"| `{instance}` | {bound / 1e6:.2f} ms | {' | '.join(cells)} |")
    if columns:
        means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*columns)]
        cells = [f"{mean:.4f}" for mean in means[:5]] + [f"{means[5]:.2f}"]
        print(f"| geometric mean of {len(columns)} | | {' | '.join(cells)} |")
    if dropped:
        print(f"\nLeft out: {', '.join(dropped)}.")
    if not columns:
        return
    loads = [row["load"] for row in rows]
    print(f"\nLoad of the machine: {min(loads):.1f} to {max(loads):.1f}.")
    for threads in (1, 2):
        spent = [row["processor"] for row in rows if row["threads"] == threads and row["seconds"] == 1 and "processor" in row]
        if spent:
            print(f"Processor time in 1 s on {threads} thread{'s' if threads > 1 else ''}: {statistics.fmean(spent):.2f} s.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--show", type=pathlib.Path)
    parser.add_argument("--instances", default=",".join(INSTANCES))
    parser.add_argument("--minutes", type=float, default=math.inf)
    given = parser.parse_args()
    if given.show:
        return show(read(given.show))
    if not given.build or not given.output:
        parser.error("BUILD and -o are needed, or --show")
    measure(given.build, given.instances.split(","), given.output, given.minutes)
    return show(read(given.output))


if __name__ == "__main__":
    main()
