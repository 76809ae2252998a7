"""Predicts the step time of neural-network training on several devices, and places its ops.

    import trainyard as ty

    problem = ty.Problem(ty.Graph.zoo("resnet50:batch=32"), ty.Cluster("4xV100"))
    schedule = ty.place(problem, "heft")
    timeline = ty.simulate(problem, schedule)
    steps = ty.Batch(problem).makespans(placements)  # int32[n, ops] -> int64[n], in ns

Times are whole nanoseconds (int64), sizes bytes (int64). Ops, tensors and devices are indices from 0, in the order in
which they were declared. Arrays of timelines and schedules are views of the library's own memory.
"""
from ._core import (
    Batch,
    Cluster,
    Comparison,
    DeltaResult,
    DeltaSimulation,
    Graph as _Graph,
    InputError,
    MissingError,
    NoPlacementError,
    Placer,
    Problem,
    Schedule,
    Simulation,
    Timeline,
    auto_with,
    compare,
    networks,
    place,
    placers,
    simulate,
)
from .networkx import graph_from_networkx, graph_to_networkx

Graph = _Graph


def _from_arrays(
    edges,
    *,
    ops=None,
    time_ns=None,
    output_bytes=None,
    edge_bytes=None,
    flops=None,
    bytes_accessed=None,
    parameter_bytes=None,
    state_bytes=None,
    workspace_bytes=None,
    names=None,
    types=None,
    layers=None,
    colocate=None,
    phases=None,
    control=None,
    name="graph",
):
    """A graph of arrays.

    edges: int[e, 2], producer and consumer of each edge.
    ops: the number of ops; default: the length of the first per-op array that is given.
    time_ns: int[ops], the same on every device; or a dict of such arrays by device name, kind ("V100-SXM2-16GB") or
        class ("gpu", "cpu"), with -1 where the op cannot run. Default: from the costs of the problem.
    output_bytes: int[ops], the tensor of each op, sent to each device once, however many consumers it has there;
        or edge_bytes: int[e], a tensor for each edge.
    flops: float[ops]. bytes_accessed, parameter_bytes, state_bytes, workspace_bytes: int[ops].
    names, types, layers, colocate, phases: lists of str; ops with the same non-empty `colocate` share a device.
    control: int[c, 2], the second op waits for the first, without a tensor.
    """
    if ops is None:
        times = list(time_ns.values()) if isinstance(time_ns, dict) else [time_ns]
        given = times + [output_bytes, flops, bytes_accessed, parameter_bytes, state_bytes, workspace_bytes, names, types,
                         layers, colocate, phases]
        lengths = [len(each) for each in given if each is not None]
        ops = lengths[0] if lengths else max((int(end) for edge in edges for end in edge), default=-1) + 1
    return _from_arrays.core(
        edges, time_ns=time_ns, output_bytes=output_bytes, edge_bytes=edge_bytes, flops=flops,
        bytes_accessed=bytes_accessed, parameter_bytes=parameter_bytes, state_bytes=state_bytes,
        workspace_bytes=workspace_bytes, names=names, types=types, layers=layers, colocate=colocate, phases=phases,
        control=control, ops=ops, name=name)


_from_arrays.core = _Graph.from_arrays
Graph.from_arrays = staticmethod(_from_arrays)
Graph.from_networkx = staticmethod(graph_from_networkx)
Graph.to_networkx = graph_to_networkx

__version__ = "0.1.0"
__all__ = [
    "Batch", "Cluster", "Comparison", "DeltaResult", "DeltaSimulation", "Graph", "InputError", "MissingError",
    "NoPlacementError", "Placer", "Problem", "Schedule", "Simulation", "Timeline", "auto_with", "compare", "networks",
    "place", "placers", "simulate",
]
