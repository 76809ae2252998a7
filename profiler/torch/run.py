#!/usr/bin/env python3
"""Runs training steps of recipes in PyTorch, and measures them, on CPUs or on a GPU.

    trainyard export lenet:batch=8 --cluster 2xcpu-core --to recipe --rank 4 -o recipe.json
    python3 profiler/torch/run.py check RECIPE                  compare its gradients with torch.autograd's
    python3 profiler/torch/run.py probe [-o probe.json]         describe the machine
    python3 profiler/torch/run.py profile RECIPE -o profile.json    then: trainyard calibrate profile.json
    python3 profiler/torch/run.py execute RECIPE -o runs.json       then: trainyard validate ... --backend recorded --runs
    python3 profiler/torch/run.py corun RECIPE -o corun.json        time ops while other devices are busy; then: calibrate
    python3 profiler/torch/run.py trace FOLDER RECIPE...        write traces of its step (Kineto, execution); then: trainyard import
    python3 profiler/torch/run.py collect FOLDER RECIPE...      probe, profile and execute, as one archive

A recipe says what each op computes from which numbers, and has schedules of the ops (lib/trainyard/io/FORMATS.md).
Needs PyTorch (1.13 or later) and Python's standard library; green contexts (--parts) need cuda-bindings too.
With --device cuda the devices are streams of one GPU, --parts makes them green contexts, and each step is also captured
as one CUDA graph.
"""
import argparse
import json
import os
import pathlib
import sys
import tarfile
import time

# Before CUDA begins: steps are issued behind a gate, on more streams than it has queues for by default.
os.environ.setdefault("CUDA_SCALE_LAUNCH_QUEUES", "4x")
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
try:
    import torch
except ImportError as error:
    sys.exit(f"run.py: {error}: install PyTorch (Debian: python3-torch)")

import corun
import kernels
import measure
import traces
from probe import probe
from program import autograd_gradients, run_serially
from recipe import Recipe, RecipeError


def write(found, path):
    """Whole, or not at all."""
    path = pathlib.Path(path)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(found, file)
        file.write("\n")
    os.replace(partial, path)


def machine(options, recipe):
    return measure.Machine(Recipe(recipe), options.device, options.parts, options.links == "bounced", options.tf32)


def check(options):
    here = machine(options, options.recipe)
    loss, expected = autograd_gradients(here.program)
    with torch.no_grad():
        run_serially(here.program, here.recipe.serial(0), 0)
    got, gradients = measure.outputs_of(here.program)
    most = max((float(g.abs().max()) for g in expected.values()), default=0.0)
    worst, where = 0.0, "none"
    for index, g in expected.items():
        error = float((gradients[index].reshape(g.shape) - g.float().cpu()).abs().max()) / max(1e-30, 0.01 * most + float(g.abs().max()))
        if not error <= worst:  # or none
            worst, where = error, here.recipe.values[index]["name"]
    print(f"loss {got:.7g}, by autograd {loss:.7g}; gradients of {len(expected)} parameters differ by at most {worst:.2g} ({where})")
    short = any(value["type"] in ("bfloat16", "float16") for value in here.recipe.values)
    return 0 if worst <= (0.05 if short else 1e-3) and abs(got - loss) <= (0.02 if short else 1e-4) * abs(loss) else 1


def run_probe(options):
    found = probe(options.device, options.parts)
    write(found, options.output) if options.output else print(json.dumps(found, indent=1))
    return 0


def profile(options):
    found = measure.profile(machine(options, options.recipe), options.rounds, options.time)
    write(found, options.output)
    print(f"{len(found['ops'])} op times and {len(found['links'])} links")
    return 0


def execute(options):
    found = measure.runs(machine(options, options.recipe), options.rounds, options.time)
    write(found, options.output)
    for run in found["runs"]:
        good = sorted(step["makespan_ns"] for step in run["steps"] if "dropped" not in step)
        middle = f"{good[len(good) // 2] / 1e6:.3f} ms" if good else "no good step"
        plain = sorted(run["plain_ns"])
        graph = f", {plain[len(plain) // 2] / 1e6:.3f} ms as a CUDA graph" if plain else ""
        agree = "" if run["outputs_agree"] else "; ITS OUTPUTS DIFFER from those of one device"
        print(f"{run['schedule']}: {middle}{graph}, loss {run['loss']:.6g}{agree}")
    return 0 if all(run["outputs_agree"] for run in found["runs"]) else 1


def run_corun(options):
    found = corun.corun(machine(options, options.recipe), options.time)
    write(found, options.output)
    print(f"{len(found['ops'])} op times, alone and while other devices are busy")
    return 0


def trace(options):
    """Of each recipe, and a few steps of its schedules; on GPUs those of 32-bit floats with products as TF32, too. What
    fails is noted."""
    folder, until, failed = pathlib.Path(options.folder), time.monotonic() + options.time, 0
    folder.mkdir(parents=True, exist_ok=True)
    asked = options.tf32
    for recipe in options.recipe:
        name = pathlib.Path(recipe).name.split(".")[0]
        whole = all(value["type"] not in ("bfloat16", "float16") for value in Recipe(recipe).values)
        for options.tf32 in (False, True) if options.device != "cpu" and whole else (asked,):
            try:
                if time.monotonic() > until:
                    raise TimeoutError("no time left")
                here, title = machine(options, recipe), name + ("-tf32" if options.tf32 else "")
                print(*traces.trace(here, folder, title), sep="\n", flush=True)
                if here.recipe.schedules:
                    write(measure.runs(here, 1, 0), folder / f"{title}.runs.json")
            except Exception as error:
                failed += 1
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
    return 1 if failed else 0


def collect(options):
    """As far as the time goes, in the order given; what fails is noted, and the next one runs. The archive has a name
    of its own beside the folder."""
    folder, until, failed = pathlib.Path(options.folder), time.monotonic() + options.time, []
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder.with_name(folder.name + ".tar.gz")

    def step(name, function):
        left = until - time.monotonic()
        if left <= 0:
            failed.append(f"{name}: no time left")
            return
        try:
            function(left)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")

    step("probe", lambda left: write(probe(options.device, options.parts), folder / "probe.json"))
    for at, recipe in enumerate(options.recipe):
        name = pathlib.Path(recipe).name.split(".json")[0]
        share = lambda left: left / (2 * (len(options.recipe) - at))
        step(f"{name} profile", lambda left: write(
            measure.profile(machine(options, recipe), options.rounds, share(left)), folder / f"{name}.profile.json"))
        step(f"{name} execute", lambda left: write(
            measure.runs(machine(options, recipe), options.rounds, 2 * share(left)), folder / f"{name}.runs.json"))
        with tarfile.open(archive, "w:gz") as packed:  # what there is, also where the next one is stopped
            packed.add(folder, folder.name)
    print("\n".join(failed + [str(archive)]))
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name, function, seconds, **texts):
        sub = verbs.add_parser(name, **texts)
        sub.set_defaults(function=function)
        sub.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 (default: cpu)")
        sub.add_argument("--parts", action="store_true", help="cuda: use parts of the GPU as devices (green contexts)")
        sub.add_argument("--tf32", action="store_true", help="cuda: compute products of 32-bit floats as TF32 (default: off)")
        sub.add_argument("--links", choices=("copied", "bounced"), default="copied",
                         help="transfers: copied directly, or bounced through host memory (default: copied)")
        sub.add_argument("--rounds", type=int, default=6,
                         help=f"number of rounds, each of {measure.WARM} warm-up and {measure.MEASURED} measured steps (default: 6)")
        sub.add_argument("--time", type=float, default=seconds, help=f"seconds after which no new round begins (default: {seconds:g})")
        return sub

    verb("check", check, 60, help="compare the gradients of a recipe with torch.autograd").add_argument("recipe")
    verb("probe", run_probe, 60, help="describe the machine: versions, clocks, launches, copies").add_argument("-o", "--output")
    for name, function, help in (("profile", profile, "measure op and link times: trainyard-profile/1"),
                                 ("execute", execute, "run steps of its schedules: trainyard-runs/1")):
        sub = verb(name, function, 60, help=help)
        sub.add_argument("recipe")
        sub.add_argument("-o", "--output", required=True)
    sub = verb("corun", run_corun, 60, help="measure ops while other devices are busy: trainyard-profile/1")
    sub.add_argument("recipe")
    sub.add_argument("-o", "--output", required=True)
    sub = verb("trace", trace, 240, help="write Kineto and execution traces")
    sub.add_argument("folder")
    sub.add_argument("recipe", nargs="+")
    sub = verb("collect", collect, 480, help="probe, profile and execute, for several recipes, as one archive")
    sub.add_argument("folder")
    sub.add_argument("recipe", nargs="+")
    options = parser.parse_args()
    try:
        return options.function(options)
    except (RecipeError, kernels.Unsupported) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
