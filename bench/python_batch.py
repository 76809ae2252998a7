#!/usr/bin/env python3
"""Placements a second through the Python module's Batch, beside the C++ one and an event loop in Python.

    meson configure build -Dpython=enabled && ninja -C build && bench/python_batch.py build

One problem of 200 ops: layers of 8, each op reading two of the layer before, on 4 devices whose transfers never wait
(`sharing = "none"`, fifo): DOPPLER's rules, so that all three simulate the same thing, and their answers are compared.
The event loop is test/python/peers.py: heapq in place of SimPy's generators, which take several times as long. One
thread each; rounds alternate, and the best of each counts. `build/bench/batch_rate`, where it is built, is the C++ rate.
"""
import pathlib
import subprocess
import sys
import time

build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
sys.path[:0] = [str(build / "lib" / "python"), str(pathlib.Path(__file__).resolve().parent.parent / "test" / "python")]

begin = time.perf_counter()
import trainyard as ty  # noqa: E402

imported = time.perf_counter() - begin

import numpy as np  # noqa: E402
from peers import process_model  # noqa: E402

OPS, WIDTH, DEVICES, ROWS, ROUNDS = 200, 8, 4, 20000, 7


def seconds(work):
    begin = time.perf_counter()
    answer = work()
    return time.perf_counter() - begin, answer


def main():
    random = np.random.default_rng(1)
    edges = [(op - op % WIDTH - WIDTH + int(i), op) for op in range(WIDTH, OPS)
             for i in sorted(random.choice(WIDTH, 2, replace=False))]
    times, bytes = random.integers(1000, 100000, OPS), random.integers(1000, 50000, OPS)
    graph = ty.Graph.from_arrays(edges, time_ns=times, output_bytes=bytes)
    cluster = ty.Cluster.from_arrays(np.full((DEVICES, DEVICES), 1e9), sharing="none")
    problem = ty.Problem(graph, cluster)
    placements = random.integers(0, DEVICES, (ROWS, OPS), dtype=np.int32)
    batch, loop = ty.Batch(problem, 1), placements[:100].tolist()
    peer = program = None
    if (build / "bench" / "batch_rate").exists():
        graph.write("/tmp/batch_rate.json")
        pathlib.Path("/tmp/batch_rate.toml").write_text(cluster.to_toml())
        placements.tofile("/tmp/batch_rate.int32")
        program = [str(build / "bench" / "batch_rate"), "/tmp/batch_rate.json", "/tmp/batch_rate.toml", "/tmp/batch_rate.int32"]
    ours, peers, native = [], [], []
    for _ in range(ROUNDS):
        took, steps = seconds(lambda: batch.makespans(placements))
        ours.append(ROWS / took)
        took, peer = seconds(lambda: [process_model(times.tolist(), edges, lambda e, a, b: int(bytes[a]), row) for row in loop])
        peers.append(len(loop) / took)
        if program:
            native.append(float(subprocess.run(program, capture_output=True, text=True, check=True).stdout))
    assert steps[:100].tolist() == peer, "the two simulate different things"
    print(f"import                       {imported:10.3f} s (numpy is imported where it is first used)")
    print(f"Batch, one thread            {max(ours):10,.0f} placements/s")
    if native:
        print(f"C++ Batch, one thread        {max(native):10,.0f} placements/s: Python has {max(ours) / max(native):.2f} of it")
    print(f"event loop in Python         {max(peers):10,.0f} placements/s: Batch is {max(ours) / max(peers):.0f} times as fast")


main()
