"""Simulators of two placement papers, reimplemented from their rules; times are whole numbers.

Both papers use one process model. Every edge is a process that waits for its producer and then for the transfer time,
which is 0 on one device; transfers never wait for each other. Every op waits for all of its edges and then requests its
device, which serves requests one at a time, in the order in which they are made. The papers differ in the times:

    DOPPLER (ICLR 2026)   op: its cost on any device; edge: the cost of the producer's output
    GiPH (MLSys 2023)     op: work(op) x rate(device); edge: delay(from, to) + bytes(edge) x rate(from, to)

Requests at one instant are served in the order of the ops' numbers, Trainyard's rule for ties. In the papers, the order
depends on the event queue.
"""
import heapq
import re


def process_model(op_time, edges, edge_time, placement):
    """The makespan, from op_time[op], edges [(from, to)], edge_time(edge, from, to) and placement[op]."""
    count = len(op_time)
    waiting, outgoing = [0] * count, [[] for _ in range(count)]
    for number, (source, target) in enumerate(edges):
        waiting[target] += 1
        outgoing[source].append((number, target))
    requests = [[] for _ in range(max(placement) + 1)]
    busy = [False] * len(requests)
    events = [(0, op) for op in range(count) if waiting[op] == 0]  # (time, op): an edge to op ends; (time, ~op): op
    waiting = [max(1, each) for each in waiting]
    heapq.heapify(events)
    now = 0
    while events:
        now = events[0][0]
        while events and events[0][0] == now:  # all events at this time, and the requests that follow
            _, op = heapq.heappop(events)
            if op < 0:
                op = ~op
                busy[placement[op]] = False
                for number, target in outgoing[op]:
                    same = placement[op] == placement[target]
                    heapq.heappush(events, (now + (0 if same else edge_time(number, op, target)), target))
            else:
                waiting[op] -= 1
                if waiting[op] == 0:
                    heapq.heappush(requests[placement[op]], (now, op))
        for device, queue in enumerate(requests):
            if queue and not busy[device]:
                _, op = heapq.heappop(queue)
                busy[device] = True
                heapq.heappush(events, (now + op_time[op], ~op))
    return now


def read_doppler(path):
    """The costs of ops, the costs of their outputs, and the edges in a file of DOPPLER's compute_graph/.

    The file's lines: the number of nodes; the input nodes, which are left out here; edge sources; edge targets; the
    costs of each node that is no input.
    """
    lines = path.read_text().splitlines()
    inputs, sources, targets = ([int(each) for each in re.findall(r"\d+", line)] for line in lines[1:4])
    count = int(lines[0]) - len(inputs)
    costs = [[int(each) for each in re.findall(r"\d+", line)[:2]] for line in lines[4:4 + count]]
    return [cost for cost, _ in costs], [cost for _, cost in costs], list(zip(sources, targets, strict=True))
