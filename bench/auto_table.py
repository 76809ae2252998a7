#!/usr/bin/env python3
"""Compares the placer `auto` with the best other placer and with the lower bound, on every built-in network.

    bench/auto_table.py BUILD -o results.jsonl [--time 10s | --evaluations N] [--threads 2]
                        [--costs roofline] [--models a,b] [--clusters 2xV100,4xV100-pcie] [--others a,b] [--minutes 8]
    bench/auto_table.py --show results.jsonl

Clusters: 2, 4 and 8 V100 on NVLink (built in), and as many on PCIe 3.0 under one host (NxV100-pcie, defined here).
"Others" are all placers that neither search, train nor enumerate, each with its own order of ops, as in
`trainyard compare`; --others selects fewer. Models that no placer fits into memory are left out of the table. If `auto`
does not fit and another placer does, `auto` counts as worse and is in no mean. Runs that the results file already has
are not repeated; --minutes stops after that time, and a later call continues. A results file has one budget and one
kind of costs. Prints a Markdown table.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import time


def pcie_cluster(devices):
    """A cluster file of V100s under one switch: 12 GB/s in each direction, 10 us between two GPUs."""
    text = f'name = "{devices}xV100-pcie"\n[[switch]]\nname = "host"\n'
    for i in range(devices):
        text += f'[[device]]\nname = "gpu{i}"\nkind = "V100-SXM2-16GB"\n'
    for i in range(devices):
        text += (f'[[link]]\nname = "pcie{i}"\nfrom = "gpu{i}"\nto = "host"\nbandwidth = "12 GB/s"\nlatency = "5 us"\n')
    return text


def trainyard(build, words, folder):
    """The program's JSON output; raises RuntimeError unless the exit code is 0 or 1 (nothing fits)."""
    done = subprocess.run([str(build.resolve() / "sim" / "trainyard"), *words, "--json"], cwd=folder,
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def measure(build, model, cluster, costs, budget, others, folder):
    words = [model, "--cluster", cluster if "pcie" not in cluster else f"{cluster}.toml", *costs]
    compared = trainyard(build, ["compare", *words, "--placers", ",".join(others)], folder)
    fitting = [each for each in compared["results"] if each["fits"]]
    best = min(fitting, key=lambda each: each["makespan_ns"], default=None)
    began = time.monotonic()
    found = trainyard(build, ["place", *words, "--placer", "auto", *budget], folder)
    return {"model": model, "cluster": cluster, "load": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%d"), "seconds": time.monotonic() - began,
            "other": best and best["placer"], "other_ns": best and best["makespan_ns"],
            "auto_ns": found["makespan_ns"], "fits": found["fits"], "bound_ns": found["lower_bound_ns"],
            "bound": found["lower_bound"], "plan_bound_ns": found.get("plan_bound_ns"), "plan": found.get("plan"),
            "evaluations": found["evaluations"], "ops": found["ops"]}


def show(rows):
    lost = [row for row in rows if not row["fits"] and row["other_ns"] is not None]
    left = sum(not row["fits"] and row["other_ns"] is None for row in rows)
    rows = [row for row in rows if row["fits"]]
    print("| model | cluster | best other placer | its step | auto | better by | bound | gap | bound of plans | gap |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        if row["other_ns"] is None:
            other, better = ("none fits", "", ""), ""
        else:
            other = (row["other"], f"{row['other_ns'] / 1e6:.2f} ms")
            better = f"{100 * (1 - row['auto_ns'] / row['other_ns']):.1f} %"
        print(f"| {row['model']} | {row['cluster']} | {other[0]} | {other[1]} | {row['auto_ns'] / 1e6:.2f} ms | {better} "
              f"| {row['bound_ns'] / 1e6:.2f} ms | {100 * gap(row):.1f} % | {plans(row)} |")
    for row in lost:
        print(f"| {row['model']} | {row['cluster']} | {row['other']} | {row['other_ns'] / 1e6:.2f} ms | does not fit "
              "| | | | | |")
    if left:
        print(f"\nLeft out: {left} where no placer's schedule fits.")
    print()
    print("| devices | links | rows | geometric mean of auto / best other | worse | median gap | largest gap "
          "| to the larger bound: median | largest |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for devices in ("2", "4", "8", ""):
        for links in ("NVLink", "PCIe") if devices else ("all",):
            part, worse = ([row for row in each if row["cluster"].startswith(devices)
                            and (links == "all" or ("pcie" in row["cluster"]) == (links == "PCIe"))]
                           for each in (rows, lost))
            summary(devices or "all", links, part, len(worse))
    room = [row for row in rows if row["other_ns"] and row["other_ns"] > row["bound_ns"] * 1.03]
    summary("all", "where the bound leaves 3 %, and all fit", room)


def gap(row):
    """The largest share of the step that another schedule of auto's final graph could save."""
    return 1 - row["bound_ns"] / row["auto_ns"]


def plan_gap(row):
    """The gap to the larger of the graph's bound and the plans' bound; a plan bound above the step is ignored."""
    bound = row.get("plan_bound_ns") or 0
    return min(gap(row), 1 - bound / row["auto_ns"]) if bound <= row["auto_ns"] else gap(row)


def plans(row):
    bound = row.get("plan_bound_ns")
    if not bound:
        return "none |"
    return f"{bound / 1e6:.2f} ms | " + (f"{100 * plan_gap(row):.1f} %" if bound <= row["auto_ns"] else "below it")


def summary(devices, links, rows, lost=0):
    """Prints a row about `rows`, where `auto` fits, and `lost` further cases, where only another placer fits."""
    ratios = [row["auto_ns"] / row["other_ns"] for row in rows if row["other_ns"]]
    gaps, least = [gap(row) for row in rows], [plan_gap(row) for row in rows]
    if not ratios:
        if lost:
            print(f"| {devices} | {links} | {len(rows) + lost} | | {lost} | | | | |")
        return
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    print(f"| {devices} | {links} | {len(rows) + lost} | {mean:.4f} | {sum(ratio > 1 for ratio in ratios) + lost} "
          f"| {100 * statistics.median(gaps):.1f} % | {100 * max(gaps):.1f} % "
          f"| {100 * statistics.median(least):.1f} % | {100 * max(least):.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("-o", dest="output", type=pathlib.Path)
    parser.add_argument("--show", type=pathlib.Path)
    parser.add_argument("--time")
    parser.add_argument("--evaluations")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--costs")
    parser.add_argument("--models")
    parser.add_argument("--clusters")
    parser.add_argument("--others")
    parser.add_argument("--minutes", type=float, default=1e9)
    given = parser.parse_args()
    if given.show:
        show([json.loads(line) for line in given.show.read_text().splitlines()])
        return
    if not given.build or not given.output:
        parser.error("BUILD and -o are needed")
    budget = ["--evaluations", given.evaluations] if given.evaluations else ["--time", given.time or "10s"]
    budget += ["--threads", given.threads]
    costs = ["--costs", given.costs] if given.costs else []
    asked = " ".join([*budget, *costs])
    clusters = given.clusters.split(",") if given.clusters else [
        f"{n}xV100{links}" for n in (2, 4, 8) for links in ("", "-pcie")]
    rows = [json.loads(line) for line in given.output.read_text().splitlines()] if given.output.exists() else []
    kept = next((row["budget"] for row in rows if row["budget"] != asked), None)
    if kept:
        parser.error(f"{given.output} has rows of '{kept}', not of '{asked}': ask for those, or give another file")
    known = {(row["model"], row["cluster"]) for row in rows}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for n in (2, 4, 8):
            (pathlib.Path(folder) / f"{n}xV100-pcie.toml").write_text(pcie_cluster(n))
        listed = trainyard(given.build, ["models"], folder)["models"]
        models = given.models.split(",") if given.models else [each["name"] for each in listed]
        others = given.others.split(",") if given.others else [
            each["name"] for each in trainyard(given.build, ["placers"], folder)["placers"]
            if not each["searches"] and not each["exhaustive"] and not each["trains"]]
        for cluster in clusters:
            for model in models:
                if (model, cluster) in known or time.monotonic() - began > 60 * given.minutes:
                    continue
                rows.append({**measure(given.build, model, cluster, costs, budget, others, folder), "budget": asked})
                with given.output.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
