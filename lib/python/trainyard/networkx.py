"""Graphs from and to networkx, by node and edge attributes."""

_NUMBERS = ("flops", "bytes_accessed", "parameter_bytes", "state_bytes", "workspace_bytes")
_WORDS = {"type": "types", "layer": "layers", "colocate": "colocate", "phase": "phases"}


def _column(nodes, key, default):
    """The attribute of each node, `default` if it is left out; None where no node has it."""
    if not any(key in attributes for _, attributes in nodes):
        return None
    return [attributes.get(key, default) for _, attributes in nodes]


def _times(nodes, key):
    """int[ops], or a dict of them if any node gives a dict by device."""
    values = _column(nodes, key, None)
    if values is None:
        return None
    from ._core import InputError

    missing = [node for (node, _), value in zip(nodes, values) if value is None]
    if missing:
        raise InputError(f"error[missing-time]: node {missing[0]!r} has no {key!r}\n"
                         "help: give every node a time, or none")
    if not any(isinstance(value, dict) for value in values):
        return values
    places = sorted({place for value in values if isinstance(value, dict) for place in value})
    return {place: [value.get(place, -1) if isinstance(value, dict) else value for value in values] for place in places}


def graph_from_networkx(graph, *, time="time_ns", bytes="bytes", name=None):
    """A Graph of a networkx.DiGraph or MultiDiGraph; ops are its nodes, in its order, named by str(node).

    Node attributes: `time` (ns; or a dict by device name, kind or class, where a missing one means that the op cannot
    run there), `bytes` (of its output), flops, bytes_accessed, parameter_bytes, state_bytes, workspace_bytes, type,
    layer, colocate, phase. Edge attributes: `bytes`, a tensor for each edge, if no node has `bytes`; control=True, an
    edge without a tensor.
    """
    from ._core import InputError

    from . import Graph

    if not graph.is_directed():
        raise InputError("error[undirected]: the networkx graph is not directed\nhelp: use a DiGraph")
    nodes = list(graph.nodes(data=True))
    index = {node: i for i, (node, _) in enumerate(nodes)}
    edges, edge_bytes, control = [], [], []
    for source, target, attributes in graph.edges(data=True):
        pair = (index[source], index[target])
        if attributes.get("control"):
            control.append(pair)
        else:
            edges.append(pair)
            edge_bytes.append(attributes.get(bytes, 0))
    output_bytes = _column(nodes, bytes, 0)
    return Graph.from_arrays(
        edges,
        ops=len(nodes),
        time_ns=_times(nodes, time),
        output_bytes=output_bytes,
        edge_bytes=edge_bytes if output_bytes is None and any(edge_bytes) else None,
        names=[str(node) for node, _ in nodes],
        control=control or None,
        name=name or graph.name or "graph",
        **{key: _column(nodes, key, 0) for key in _NUMBERS},
        **{column: _column(nodes, key, "") for key, column in _WORDS.items()},
    )


def graph_to_networkx(self):
    """A networkx.MultiDiGraph: a node for each op, by its name, and an edge for each use of a tensor, with its bytes."""
    import networkx

    graph = networkx.MultiDiGraph(name=self.name)
    names = self.op_names
    columns = {"type": self.op_types, "layer": self.layers, "colocate": self.colocation, "phase": self.phases}
    columns.update((key, getattr(self, key).tolist()) for key in _NUMBERS)
    for i, name in enumerate(names):
        graph.add_node(name, **{key: values[i] for key, values in columns.items()})
    starts, consumers = self.consumers
    bytes, tensors = self.tensor_bytes.tolist(), self.tensor_names
    first = self.first_output
    for op, name in enumerate(names):
        for tensor in range(first[op], first[op + 1]):
            for consumer in consumers[starts[tensor]:starts[tensor + 1]]:
                graph.add_edge(name, names[consumer], tensor=tensors[tensor], bytes=bytes[tensor])
    for before, after in self.control.tolist():
        graph.add_edge(names[before], names[after], control=True)
    return graph
