"""Executors of a step's tasks: threads on CPUs, streams on GPUs.

A Task runs on one line (a device, or a link) after the earlier tasks of that line and after those that it waits for.
Both executors issue tasks in the order of the list, in which every task waits only for earlier ones.

The CUDA half was run on an H100 by PyTorch 2.11 (data/h100).
"""
import queue
import threading
import time

import torch

from program import Program
from recipe import read, written


class Task:
    def __init__(self, line, run, waits=(), before_step=False):
        self.line, self.run, self.waits, self.before_step = line, run, sorted(set(waits)), before_step


class Step:
    """Times of one step in nanoseconds from its start gate: spans by task, and the makespan. `dropped`: why they do not
    count."""

    def __init__(self, spans, dropped=""):
        self.spans, self.dropped = spans, dropped
        self.makespan = max((end for _, end in spans), default=0)


class Transfers:
    """How tensors pass between devices: `copied` from memory to memory, or `bounced` by way of the host's memory, which
    is page-locked where there is CUDA."""

    def __init__(self, bounced=False):
        self.bounced, self.staging = bounced, {}

    def send(self, key, array, device):
        if isinstance(array, tuple):  # what a forward op keeps
            return tuple(None if each is None else self.send((key, i), each, device) for i, each in enumerate(array))
        there = torch.empty_like(array, device=device)
        if self.bounced:
            if key not in self.staging or self.staging[key].shape != array.shape:
                self.staging[key] = torch.empty(array.shape, dtype=array.dtype, pin_memory=array.is_cuda)
            self.staging[key].copy_(array, non_blocking=True)
            array = self.staging[key]
        return there.copy_(array, non_blocking=True)


class ScheduledStep:
    """A schedule as tasks over a program: tensors are made anew in every step and live until its end, so that no memory
    goes from one stream to another within it."""

    def __init__(self, program: Program, schedule, transfers):
        self.program, self.schedule, self.transfers = program, schedule, transfers
        self.stores = [{} for _ in program.recipe.devices]
        self.tasks, self.rows = [], []  # rows: of each task the op, or the transfer
        self._plan()

    def begin(self):
        """Before each step."""
        for store in self.stores:
            store.clear()

    def _plan(self):
        recipe, where = self.program.recipe, self.schedule["placement"]
        there, op_task, links = {}, {}, {}  # the task by which a tensor is on a device; the last one of each link
        for row in self.schedule["tasks"]:
            at = len(self.tasks)
            if isinstance(row, dict):
                source, target = row["from"], row["to"]
                waits = [there[row["tensor"], source]] + [links[link] for link in row.get("links", ()) if link in links]
                links.update((link, at) for link in row.get("links", ()))
                line = ("link", row["links"][0]) if row.get("links") else ("link", source, target)
                self.tasks.append(Task(line, self._transfer(row["tensor"], source, target), waits))
                there[row["tensor"], target] = at
            else:
                op, device = recipe.ops[row], where[row]
                waits = [there[tensor, device] for tensor in read(op)] + [op_task[before] for before in op.get("after", ())]
                inputs = op["kind"] == "input" and not waits and all(task.before_step for task in self.tasks if task.line == ("device", device))
                self.tasks.append(Task(("device", device), self._op(row, device), waits, inputs))
                op_task[row] = at
                there.update(((tensor, device), at) for tensor in written(op))
            self.rows.append(row)

    def _op(self, op, device):
        return lambda: self.program.run(op, device, self.stores[device])

    def _transfer(self, tensor, source, target):
        def run():
            device = self.program.at[target].device
            self.stores[target][tensor] = self.transfers.send((tensor, target), self.stores[source][tensor], device)
        return run


class Threads:
    """A thread for each line, and one core for each thread. On CPUs, and as a rehearsal of what CudaStreams does."""

    clock = "host"

    def __init__(self, tasks):
        self.tasks, self.lines = tasks, {}
        for i, task in enumerate(tasks):
            if not task.before_step:
                self.lines.setdefault(task.line, []).append(i)
            task.crossing = [other for other in task.waits if tasks[other].line != task.line and not tasks[other].before_step]
        # They stay for all steps: a new thread's first convolution would take milliseconds.
        self.queues = [queue.SimpleQueue() for _ in self.lines]
        self.threads = [threading.Thread(target=serve, args=(tasks, own, given), daemon=True)
                        for own, given in zip(self.lines.values(), self.queues)]
        for thread in self.threads:
            thread.start()

    def close(self):
        for given in self.queues:
            given.put(None)
        for thread in self.threads:
            thread.join()

    def step(self):
        taken = Taken(len(self.tasks), len(self.lines))
        for task in self.tasks:
            if task.before_step:
                task.run()
        for given in self.queues:
            given.put(taken)
        taken.gate.wait()
        zero = time.perf_counter_ns()
        taken.gate.wait()
        taken.end.wait()
        if taken.failed:
            raise taken.failed[0]
        return Step([(0, 0) if task.before_step else (begin - zero, end - zero)
                     for task, (begin, end) in zip(self.tasks, taken.spans)])

    def plain(self, count):
        """Makespans without times of tasks: here those of the steps are that."""
        return []


class Taken:
    """What the threads of one step share."""

    def __init__(self, tasks, lines):
        self.done, self.spans, self.failed = [threading.Event() for _ in range(tasks)], [(0, 0)] * tasks, []
        self.gate, self.end = threading.Barrier(lines + 1), threading.Barrier(lines + 1)


def serve(tasks, own, given):
    """The thread of one line: its tasks, step after step."""
    torch.set_num_threads(1)
    with torch.no_grad():
        while (taken := given.get()) is not None:
            taken.gate.wait()
            taken.gate.wait()  # all are here, and the time zero has been taken
            try:
                for i in own:
                    for other in tasks[i].crossing:
                        taken.done[other].wait()
                    if taken.failed:
                        break
                    begin = time.perf_counter_ns()
                    tasks[i].run()
                    taken.spans[i] = (begin, max(begin + 1, time.perf_counter_ns()))
                    taken.done[i].set()
            except BaseException as error:  # the others must not wait for it
                taken.failed.append(error)
                for each in taken.done:
                    each.set()
            taken.end.wait()


class CudaStreams:
    """A stream for each line.

    step() issues everything behind a gate, a kernel that sleeps on a stream of its own, with an event before and after
    each task; all times are from the one event behind the gate. plain() captures the step as a CUDA graph, without these
    events, and replays it between two: no launch of ours is in those times. Events as nodes of a graph would tell more of
    themselves: an H100 takes some 6 us for each, where one in a stream adds 2.
    """

    clock = "event"
    GATE_NS, TASK_NS = 2_000_000, 60_000  # longer than it takes to issue a step, else the step is dropped ("launches")

    def __init__(self, tasks, devices, streams=None):
        """`devices`: the torch.device of each line. `streams`: those of lines that have one (green contexts)."""
        self.tasks = tasks
        self.first = torch.device("cuda", torch.cuda.current_device())
        self.main = torch.cuda.Stream(self.first)
        self.streams = dict(streams or {})
        for task in tasks:
            if task.line not in self.streams:
                self.streams[task.line] = torch.cuda.Stream(devices[task.line])
        self.gate = self.GATE_NS + self.TASK_NS * len(tasks)

    def close(self):
        torch.cuda.synchronize()

    def _issue(self, base, timed):
        """Every line forks from `base`; returns (begin, end) events by task."""
        for stream in self.streams.values():
            stream.wait_event(base)
        events, last = [], {}
        for task in self.tasks:
            stream = self.streams[task.line]
            for other in task.waits:
                if self.tasks[other].line != task.line:
                    stream.wait_event(events[other][1])
            begin = torch.cuda.Event(enable_timing=True) if timed else None
            end = torch.cuda.Event(enable_timing=timed)
            with torch.cuda.stream(stream), torch.no_grad():
                if timed:
                    begin.record(stream)
                task.run()  # of an input: no work, it is there before the step begins
                end.record(stream)
            events.append((begin, end))
            last[task.line] = end
        for end in last.values():  # join
            self.main.wait_event(end)
        return events

    def step(self):
        torch.cuda.synchronize()
        base = torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(self.main):
            torch.cuda._sleep(int(self.gate * 2))  # cycles, of at most 2 GHz
            base.record(self.main)
        events = self._issue(base, True)
        late = base.query()  # the gate opened before all was issued
        torch.cuda.synchronize()
        self.gate = min(1_000_000_000, self.gate * 2) if late else self.gate
        spans = []
        for task, (begin, end) in zip(self.tasks, events):
            if task.before_step:
                spans.append((0, 0))
                continue
            start = max(0, round(base.elapsed_time(begin) * 1e6))
            spans.append((start, max(start + 1, round(base.elapsed_time(end) * 1e6))))
        return Step(spans, "launches" if late else "")

    def plain(self, count):
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.main):
            base = torch.cuda.Event()
            base.record(self.main)
            self._issue(base, False)
        times = []
        with torch.cuda.stream(self.main):
            for i in range(count + 2):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record(self.main)
                graph.replay()
                end.record(self.main)
                end.synchronize()
                if i >= 2:
                    times.append(round(begin.elapsed_time(end) * 1e6))
        return times


def green_streams(gpu, parts):
    """A function that makes a stream on SMs of its own of the GPU: of a part, by its number below `parts`, and with None
    one for copies between them, on the SMs that the split leaves over (where there are none, or too few for a context:
    on any). Green contexts by cuda-bindings.

    One split call for all, since each new one begins at the first SM again; PyTorch sees the streams as external ones.
    """
    from cuda.bindings import driver

    def checked(result):
        error, *rest = result
        if error != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"green contexts: {error!r}")
        return rest[0] if len(rest) == 1 else rest

    torch.cuda.init()
    torch.zeros(1, device=gpu)  # the primary context is there and current
    device = checked(driver.cuDeviceGet(gpu.index or 0))
    whole = checked(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    least = max(8, whole.sm.smCount // parts // 8 * 8)
    groups, made, rest = checked(driver.cuDevSmResourceSplitByCount(parts, whole, 0, least))
    if made < parts:
        raise RuntimeError(f"green contexts: {whole.sm.smCount} SMs give {made} parts of {least} SMs, not {parts} parts")

    def context(group):
        description = checked(driver.cuDevResourceGenerateDesc([group], 1))
        return checked(driver.cuGreenCtxCreate(description, device, driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM))

    contexts = dict(enumerate(context(group) for group in groups[:parts]))
    try:
        contexts[None] = context(rest) if rest.sm.smCount else None
    except RuntimeError:
        contexts[None] = None

    def stream(part):
        if contexts[part] is None:
            return torch.cuda.Stream(gpu)
        made = checked(driver.cuGreenCtxStreamCreate(contexts[part], driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0))
        return torch.cuda.ExternalStream(int(made), device=gpu)

    return stream
