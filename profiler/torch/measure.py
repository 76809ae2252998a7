"""Measurements of recipes: what becomes trainyard-profile/1 and trainyard-runs/1."""
import datetime
import math
import os
import platform
import statistics
import sys
import time

import torch

import kernels
from executors import CudaStreams, ScheduledStep, Task, Threads, Transfers, green_streams
from program import Program, run_serially
from recipe import RecipeError

WARM, MEASURED = 2, 3  # steps of a round


class Machine:
    """The PyTorch devices that stand for a recipe's devices.

    `device`: "cpu", where each is a thread; or "cuda", where all are streams of one GPU. `parts`: green contexts, one
    for each of its devices. `bounced`: transfers go by the host's memory. `tf32`: products of 32-bit floats on GPUs with
    10 bits of mantissa, as PyTorch has convolutions unless told otherwise.
    """

    def __init__(self, recipe, device="cpu", parts=False, bounced=False, tf32=False):
        self.recipe, self.bounced = recipe, bounced
        self.cuda = device != "cpu"
        if self.cuda and not torch.cuda.is_available():
            raise RecipeError("--device cuda: this machine has no GPU, or this PyTorch has no CUDA")
        for each in recipe.devices:
            if self.cuda and each["class"] == "cpu":
                raise RecipeError(f"{recipe.path}: '{each['name']}' is a cpu; --device cuda runs only gpus")
        self.device = torch.device(device)
        if self.cuda:
            self.device = torch.device("cuda", self.device.index or 0)
            torch.cuda.set_device(self.device)
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        else:
            torch.set_num_threads(1)  # a device is a core
        self.parts = self.cuda and parts and len(recipe.devices) > 1
        self.make_stream = green_streams(self.device, len(recipe.devices)) if self.parts else None
        self.streams = {}  # of parts, by line: kept, as contexts have few
        self.program = Program(recipe, [self.device] * len(recipe.devices))

    def executor(self, tasks):
        if not self.cuda:
            return Threads(tasks)
        lines = list(dict.fromkeys(task.line for task in tasks))
        for line in lines if self.parts else ():
            if line not in self.streams:
                self.streams[line] = self.make_stream(line[1] if line[0] == "device" else None)
        return CudaStreams(tasks, {line: self.device for line in lines}, {line: self.streams[line] for line in lines if self.parts})

    def scheduled(self, schedule):
        step = ScheduledStep(self.program, schedule, Transfers(self.bounced))
        executor = self.executor(step.tasks)
        return step, executor

    @property
    def path(self):
        return "host-bounce" if self.bounced else "d2d" if self.cuda else "memory"

    def details(self):
        """Names and versions: recorded, never computed with."""
        found = {"torch": torch.__version__, "python": platform.python_version(), "links": self.path,
                 "devices": "green contexts" if self.parts else "streams" if self.cuda else "threads"}
        if self.cuda:
            properties = torch.cuda.get_device_properties(self.device)
            found.update(gpu=properties.name, sms=str(properties.multi_processor_count), cuda=str(torch.version.cuda),
                         cudnn=str(torch.backends.cudnn.version()),
                         tf32=f"matmul {torch.backends.cuda.matmul.allow_tf32}, cudnn {torch.backends.cudnn.allow_tf32}")
        return found


def host(seconds=0.4):
    """The machine, and by how much the same arithmetic scatters on it: (largest - smallest) / median."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), cpu)
    except OSError:
        pass
    a, blocks, until = torch.ones(256, 256), [], time.perf_counter() + seconds
    while time.perf_counter() < until or len(blocks) < 10:
        begin = time.perf_counter_ns()
        for _ in range(8):
            a @ a
        blocks.append(time.perf_counter_ns() - begin)
    blocks = sorted(blocks[2:])
    blocks = blocks[: max(1, len(blocks) * 9 // 10)]  # but for the slowest tenth, which something else has
    swing = (blocks[-1] - blocks[0]) / statistics.median(blocks)
    return {"cpu": cpu, "cores": os.cpu_count() or 1, "kernel": platform.release(), "noise_floor": {"compute_swing": round(swing, 4)}}


def header(recipe, form):
    return {"format": form, "graph": recipe.graph, "cluster": recipe.cluster,
            "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tool": {"version": f"torch {torch.__version__}"}}


def samples(times, dropped=()):
    found = {"samples_ns": [max(1, round(each)) for each in times]}
    if dropped:
        found["dropped"] = [{"ns": max(1, round(ns)), "reason": reason} for ns, reason in dropped]
    return found


def steps(step, executor, rounds, until):
    """The good steps and the dropped ones, of rounds of warm and measured ones; at least one round."""
    for done in range(rounds):
        if done > 0 and time.monotonic() > until:
            return
        for i in range(WARM + MEASURED):
            step.begin()
            taken = executor.step()
            if i >= WARM:
                yield taken


# A profile.


def profile(machine, rounds=6, seconds=60.0):
    """trainyard-profile/1: ops and steps on one device of each kind, ops under each schedule of several, links."""
    recipe, found = machine.recipe, header(machine.recipe, "trainyard-profile/1")
    found["name"] = found.pop("graph")
    found.pop("cluster")
    found["host"] = host()
    found["devices"] = [dict(device, backend="torch", details=machine.details()) for device in recipe.devices]
    found.update(ops=[], links=[], overheads=[], steps=[])
    kinds, schedules = set(), []
    for i, device in enumerate(recipe.devices):
        if device["kind"] not in kinds:
            kinds.add(device["kind"])
            schedules.append(recipe.serial(i))
    schedules += [schedule for schedule in recipe.schedules if len(set(schedule["placement"])) > 1]
    until = time.monotonic() + seconds
    for i, schedule in enumerate(schedules):
        left = until - time.monotonic()
        if i > 0 and left < 0:
            break
        profile_steps(machine, schedule, rounds, time.monotonic() + left / (len(schedules) - i), found)
    if len(recipe.devices) > 1:
        found["links"] = links(machine)
    return found


def profile_steps(machine, schedule, rounds, until, found):
    recipe, where = machine.recipe, schedule["placement"]
    step, executor = machine.scheduled(schedule)
    busy = len(set(where))
    op_times, gaps, whole = {}, {}, ([], [])
    for taken in steps(step, executor, rounds, until):
        if taken.dropped:
            whole[1].append((taken.makespan, taken.dropped))
            continue
        whole[0].append(taken.makespan)
        for device, gap in mean_gaps(step, taken).items():
            gaps.setdefault(device, []).append(gap)
        for row, (begin, end) in zip(step.rows, taken.spans):
            if not isinstance(row, dict):
                op_times.setdefault(row, []).append(end - begin)
    plain = plain_steps(executor, "serial") if busy == 1 else []
    if plain:  # gaps, and what events add to ops, follow from steps without these
        whole, gaps = (plain, []), {}
    executor.close()
    timed = 0
    for index, op in enumerate(recipe.ops):
        if op["type"] == "Input" or not op_times.get(index):
            continue
        timed += 1
        row = {"graph": recipe.graph, "op": op["name"], "type": op["type"], "signature": op["signature"],
               "device": recipe.devices[where[index]]["name"], "mode": "step", "flops": op["flops"], "bytes": op["bytes"],
               "busy_devices": busy, "source": executor.clock, **samples(op_times[index])}
        if op["kind"] == "backward" and kernels.recomputes(recipe.nodes[op["node"]]["type"]):
            row["details"] = {"gradient": "by autograd, with the forward op in it"}
        found["ops"].append(row)
    for device, times in sorted(gaps.items()):
        found["overheads"].append({"device": recipe.devices[device]["name"], "what": "gap", **samples(times)})
    if busy == 1 and whole[0]:
        found["steps"].append({"graph": recipe.graph, "device": recipe.devices[where[0]]["name"], "ops": timed, **samples(*whole)})


def plain_steps(executor, schedule, count=20):
    """Makespans of steps in which no task is timed, as CUDA graphs; none on CPUs."""
    try:
        return executor.plain(count)
    except RuntimeError as error:
        print(f"{schedule}: the step cannot be captured as a CUDA graph: {error}", file=sys.stderr)
        return []


def mean_gaps(step, taken):
    """By device: the mean idle time between an op and the next one of its device that waited for nothing else."""
    last, sums = {}, {}
    for i, task in enumerate(step.tasks):
        if task.line[0] != "device" or task.before_step:
            continue
        before = last.get(task.line[1])
        last[task.line[1]] = i
        if before is None:
            continue
        end = taken.spans[before][1]
        if all(taken.spans[other][1] <= end for other in task.waits):
            total, count = sums.get(task.line[1], (0, 0))
            sums[task.line[1]] = (total + max(0, taken.spans[i][0] - end), count + 1)
    return {device: total / count for device, (total, count) in sums.items()}


def links(machine, most=1 << 26, count=12, seconds=20.0):
    """A ladder of transfers on each route, as the executor makes them: from the end of an op that sends to the start of
    one that receives. 256 B and 4 times as much each time; larger ones fewer."""
    recipe, found, until = machine.recipe, [], time.monotonic() + seconds
    pairs = [(a, b) for a in range(len(recipe.devices)) for b in range(len(recipe.devices)) if a != b]
    for source, target in pairs:
        if found and time.monotonic() > until:
            break
        link = {"from": recipe.devices[source]["name"], "to": recipe.devices[target]["name"], "path": machine.path,
                "engine": "ce" if machine.cuda else "cpu", "pinned": True, "sizes": []}
        size = 256
        while size <= most:
            link["sizes"].append({"bytes": size, **ladder_step(machine, source, target, size, count if size <= 1 << 20 else max(4, count // 3))})
            size *= 4
        found.append(link)
    return found


def ladder_step(machine, source, target, size, count):
    array = torch.ones(size, dtype=torch.uint8, device=machine.device)
    flag = torch.zeros(1, device=machine.device)
    transfers, kept = Transfers(machine.bounced), {}
    tasks = [Task(("device", source), lambda: flag.add_(1)),
             Task(("link", source, target), lambda: kept.update(there=transfers.send("ladder", array, machine.device)), [0]),
             Task(("device", target), lambda: flag.add_(1), [1])]
    executor, times, dropped = machine.executor(tasks), [], []
    for i in range(WARM + count):
        taken = executor.step()
        if i >= WARM:
            ns = taken.spans[2][0] - taken.spans[0][1]
            dropped.append((ns, taken.dropped)) if taken.dropped else times.append(ns)
    executor.close()
    return samples(times, dropped)


# Runs.


def outputs_of(program):
    """Loss, and gradients by parameter, on the CPU."""
    return (float(program.loss) if program.loss is not None else 0.0,
            {index: gradient.detach().float().reshape(-1).cpu().clone() for index, gradient in program.gradients.items()})


def reference(machine):
    """Loss and gradients of the step on one device, and the most that its allocator held, in bytes (CUDA)."""
    if machine.cuda:
        torch.cuda.reset_peak_memory_stats(machine.device)
    with torch.no_grad():
        run_serially(machine.program, machine.recipe.serial(0), 0)
    peak = torch.cuda.max_memory_allocated(machine.device) if machine.cuda else 0
    return outputs_of(machine.program), peak


def difference(expected, got):
    """The largest difference of the losses and of each parameter's gradients, as a share of what may be: 1 % of the
    loss; 5 % of the largest gradient of the parameter, and 1e-4 of that of all (profiler/validate/outputs.hpp)."""
    worst = abs(got[0] - expected[0]) / (0.01 * max(abs(got[0]), abs(expected[0]), 1e-30))
    most = max((float(g.abs().max()) for g in expected[1].values() if g.numel()), default=0.0)
    for index, g in expected[1].items():
        if g.numel() == 0:
            continue
        allowed = 0.05 * float(g.abs().max()) + 1e-4 * most + 1e-30
        share = float((got[1][index] - g).abs().max()) / allowed
        worst = max(worst, share if math.isfinite(share) else math.inf)
    return worst if math.isfinite(worst) else math.inf


def runs(machine, rounds=6, seconds=120.0, plain=30):
    """trainyard-runs/1: the steps of every schedule, in turns, and their outputs against those of one device."""
    recipe, found = machine.recipe, header(machine.recipe, "trainyard-runs/1")
    found["host"], found["details"] = host(), machine.details()
    found["ops"] = [op["name"] for op in recipe.ops]
    if not recipe.schedules:
        raise RecipeError(f"{recipe.path}: the recipe has no schedule; "
                          "export it again with --placer, --schedule or --rank")
    expected, peak = reference(machine)
    runners, rows = [], []
    for schedule in recipe.schedules:
        if any(row["key"] == schedule["key"] for row in rows):  # placers may agree
            continue
        step, executor = machine.scheduled(schedule)
        step.begin()
        executor.step()
        got = outputs_of(machine.program)
        step.begin()
        worst = difference(expected, got)
        row = {"schedule": schedule["name"], "key": schedule["key"], "loss": got[0], "outputs_agree": worst <= 1,
               "transfers": [{"tensor": recipe.tensors[task["tensor"]]["name"], "from": recipe.devices[task["from"]]["name"],
                              "to": recipe.devices[task["to"]]["name"]} for task in step.rows if isinstance(task, dict)],
               "plain_ns": [], "steps": []}
        if machine.cuda:
            row["clock_skew_ns"] = 1000  # twice the resolution of events
        if peak:
            row["allocated_bytes"] = peak  # of the step on one device: schedules keep their tensors to the end
        runners.append((step, executor))
        rows.append(row)
    until = time.monotonic() + seconds
    for turn in range(rounds):
        if turn > 0 and time.monotonic() > until:
            break
        for (step, executor), row in zip(runners, rows):
            for taken in steps(step, executor, 1, until):
                row["steps"].append(recorded(step, taken))
            step.begin()  # lets its tensors go
    for (step, executor), row in zip(runners, rows):
        row["plain_ns"] = plain_steps(executor, row["schedule"], plain)
        executor.close()
        step.begin()
    found["runs"] = rows
    return found


def recorded(step, taken):
    ops, transfers = [(0, 0)] * len(step.program.recipe.ops), []
    for row, span in zip(step.rows, taken.spans):
        if isinstance(row, dict):
            transfers.append(span)
        else:
            ops[row] = span
    row = {"makespan_ns": taken.makespan, "ops_ns": [each for span in ops for each in span],
           "transfers_ns": [each for span in transfers for each in span]}
    if taken.dropped:
        row["dropped"] = taken.dropped
    return row
