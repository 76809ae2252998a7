#!/usr/bin/env python3
"""Compares placements a second of the Python module's Batch, the C++ Batch and DOPPLER's simulator.

    meson configure build -Dpython=enabled && ninja -C build && bench/python_batch.py build

The problem has 200 ops in layers of 8, where each op reads two ops of the previous layer, on 4 devices. Transfers never
wait (`sharing = "none"`, fifo), as in DOPPLER, so that all programs simulate one model; their makespans must be equal.
Each program runs on one thread and is measured by its processor time. Rounds alternate, and the best round counts.

DOPPLER (ICLR 2026) simulates with SimPy processes over a networkx graph, which it copies for each placement. A process
for each edge waits for its producer and then for the transfer; a process for each op waits for its edges, requests a
device and holds it. This is reimplemented here without torch, and with simple processes in place of SimPy's, which
check more. The lean event loop is test/python/peers.py: the same rules without processes.
"""
import heapq
import pathlib
import subprocess
import sys
import tempfile
import time

build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
sys.path[:0] = [str(build / "lib" / "python"), str(pathlib.Path(__file__).resolve().parent.parent / "test" / "python")]

begin = time.perf_counter()
import trainyard as ty  # noqa: E402

imported = time.perf_counter() - begin

import networkx  # noqa: E402
import numpy as np  # noqa: E402
from peers import process_model  # noqa: E402

OPS, WIDTH, DEVICES, ROWS, ROUNDS = 200, 8, 4, 20000, 7


class Processes:
    """An event loop of processes: generators that yield a duration or an Event to wait for."""

    def __init__(self):
        self.now, self.queue, self.count = 0, [], 0

    def at(self, time, callback):
        self.count += 1
        heapq.heappush(self.queue, (time, self.count, callback))

    def start(self, process):
        self.at(self.now, lambda: self.resume(process))

    def resume(self, process):
        for wanted in process:
            if isinstance(wanted, int):
                self.at(self.now + wanted, lambda: self.resume(process))
            elif wanted.happened:
                continue
            else:
                wanted.waiting.append(process)
            return

    def run(self):
        while self.queue:
            self.now, _, callback = heapq.heappop(self.queue)
            callback()
        return self.now


class Event:
    def __init__(self, processes):
        self.processes, self.waiting, self.happened = processes, [], False

    def succeed(self):
        self.happened = True
        for process in self.waiting:
            self.processes.start(process)


class Device:
    """A device that serves requests one at a time, in order."""

    def __init__(self, processes):
        self.processes, self.requests, self.busy = processes, [], False

    def request(self):
        granted = Event(self.processes)
        if self.busy:
            self.requests.append(granted)
        else:
            self.busy, granted.happened = True, True
        return granted

    def release(self):
        if self.requests:
            self.requests.pop(0).succeed()
        else:
            self.busy = False


def doppler(graph, op_time, output_time, placement):
    graph = graph.copy()
    processes = Processes()
    ended = {op: Event(processes) for op in graph.nodes}
    arrived = {edge: Event(processes) for edge in graph.edges}
    devices = {device: Device(processes) for device in set(placement)}

    def communicate(edge, time):
        yield ended[edge[0]]
        yield time
        graph.edges[edge]["arrive_time"] = processes.now
        arrived[edge].succeed()

    def compute(op, device):
        for edge in graph.in_edges(op):
            yield arrived[edge]
        yield device.request()
        graph.nodes[op]["start_time"] = processes.now
        yield op_time[op]
        graph.nodes[op]["end_time"] = processes.now
        device.release()
        ended[op].succeed()

    for a, b in graph.edges:
        processes.start(communicate((a, b), 0 if placement[a] == placement[b] else output_time[a]))
    for op in graph.nodes:
        processes.start(compute(op, devices[placement[op]]))
    return processes.run()


def seconds(work):
    begin = time.thread_time()
    answer = work()
    return time.thread_time() - begin, answer


def main(folder):
    random = np.random.default_rng(1)
    edges = [(op - op % WIDTH - WIDTH + int(i), op) for op in range(WIDTH, OPS)
             for i in sorted(random.choice(WIDTH, 2, replace=False))]
    times, bytes = random.integers(1000, 100000, OPS), random.integers(1000, 50000, OPS)
    graph = ty.Graph.from_arrays(edges, time_ns=times, output_bytes=bytes)
    cluster = ty.Cluster.from_arrays(np.full((DEVICES, DEVICES), 1e9), sharing="none")
    problem = ty.Problem(graph, cluster)
    placements = random.integers(0, DEVICES, (ROWS, OPS), dtype=np.int32)
    batch, loop = ty.Batch(problem, 1), placements[:100].tolist()
    program = None
    if (build / "bench" / "batch_rate").exists():
        files = [str(folder / name) for name in ("graph.json", "cluster.toml", "placements.int32")]
        graph.write(files[0])
        pathlib.Path(files[1]).write_text(cluster.to_toml())
        placements.tofile(files[2])
        program = [str(build / "bench" / "batch_rate"), *files]
    op_time, output_time, digraph = times.tolist(), bytes.tolist(), networkx.DiGraph()
    digraph.add_nodes_from(range(OPS)), digraph.add_edges_from(edges)
    ours, papers, peers, native = [], [], [], []
    for _ in range(ROUNDS):
        took, steps = seconds(lambda: batch.makespans(placements))
        ours.append(ROWS / took)
        took, paper = seconds(lambda: [doppler(digraph, op_time, output_time, row) for row in loop])
        papers.append(len(loop) / took)
        took, peer = seconds(lambda: [process_model(op_time, edges, lambda e, a, b: output_time[a], row) for row in loop])
        peers.append(len(loop) / took)
        if program:
            native.append(float(subprocess.run(program, capture_output=True, text=True, check=True).stdout))
    differ = [name for name, other in (("DOPPLER's", paper), ("the lean one", peer)) if steps[:100].tolist() != other]
    assert not differ, f"they simulate different things: {differ}"
    best = max(ours)
    print(f"import                       {imported:10.3f} s (numpy is imported where it is first used)")
    print(f"Batch, one thread            {best:10,.0f} placements/s")
    if native:
        print(f"C++ Batch, one thread        {max(native):10,.0f} placements/s: Python has {best / max(native):.2f} of it")
    print(f"DOPPLER's simulator          {max(papers):10,.0f} placements/s: Batch is {best / max(papers):.0f} times as fast")
    print(f"a lean event loop in Python  {max(peers):10,.0f} placements/s: Batch is {best / max(peers):.0f} times as fast")


with tempfile.TemporaryDirectory() as folder:
    main(pathlib.Path(folder))
