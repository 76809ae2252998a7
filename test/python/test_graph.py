"""Graphs and clusters from arrays, networkx, files and the zoo; errors for wrong input."""
import json
import pathlib
import tempfile
import unittest

import numpy as np
import trainyard as ty


def diamond(**more):
    """A graph a -> b, c -> d with times of 2, 3, 4, 1 ns and outputs of 5, 3, 3, 0 bytes."""
    return ty.Graph.from_arrays([[0, 1], [0, 2], [1, 3], [2, 3]], time_ns=[2, 3, 4, 1], output_bytes=[5, 3, 3, 0],
                                names=list("abcd"), **more)


def two_devices(**more):
    """Two devices with a link in each direction of one byte a nanosecond."""
    return ty.Cluster.from_arrays(np.full((2, 2), 1e9), **more)


def shared_egresses(sharing):
    """A cluster file whose devices have egresses, no links."""
    text = 'name = "egress"\n'
    for name in "gpu0", "gpu1":
        text += f'[[device]]\nname = "{name}"\nclass = "gpu"\n[[egress]]\ndevice = "{name}"\nbandwidth = "10 GB/s"\n'
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "egress.toml")
        path.write_text(text)
        return ty.Cluster(str(path), sharing=sharing)


class Graphs(unittest.TestCase):
    def test_arrays_come_back_as_they_went_in(self):
        graph = diamond(types=["A", "B", "B", "C"], flops=[1, 2, 3, 4.5], parameter_bytes=np.arange(4, dtype=np.int32))
        self.assertEqual((graph.op_count, graph.tensor_count, graph.op_names), (4, 4, ["a", "b", "c", "d"]))
        self.assertEqual(graph.edges.tolist(), [[0, 1], [0, 2], [1, 3], [2, 3]])
        self.assertEqual(graph.flops.tolist(), [1, 2, 3, 4.5])
        self.assertEqual(graph.parameter_bytes.tolist(), [0, 1, 2, 3])
        self.assertEqual(graph.tensor_bytes.tolist(), [5, 3, 3, 0])
        self.assertEqual(graph.topological_order.tolist(), [0, 1, 2, 3])
        self.assertEqual(ty.Graph.parse(graph.to_json()), graph)

    def test_a_tensor_for_each_edge_crosses_once_for_each(self):
        # a ends at 2; two tensors of 5 cross one link, so c ends at 12 + 4 = 16. One tensor: 2 + 5 + 3 + 4 = 14.
        def star(**bytes):
            return ty.Graph.from_arrays([[0, 1], [0, 2]], time_ns=[2, 3, 4], **bytes)

        cluster = two_devices()
        for graph, step in (star(edge_bytes=[5, 5]), 16), (star(output_bytes=[5, 0, 0]), 14):
            timeline = ty.simulate(ty.Problem(graph, cluster), ty.Schedule([0, 1, 1]))
            self.assertEqual(timeline.makespan_ns, step)

    def test_views_are_not_copies_and_keep_their_owner_alive(self):
        order = diamond().topological_order  # the graph itself is deleted
        self.assertFalse(order.flags.owndata)
        self.assertFalse(order.flags.writeable)
        self.assertEqual(order.tolist(), [0, 1, 2, 3])

    def test_times_by_device_and_none_where_an_op_cannot_run(self):
        graph = ty.Graph.from_arrays([[0, 1]], time_ns={"gpu0": [1, 2], "gpu1": [3, -1]})
        problem = ty.Problem(graph, two_devices())
        self.assertEqual(problem.durations_ns.tolist(), [[1, 3], [2, -1]])
        with self.assertRaisesRegex(ty.InputError, "op 'op1' is on device 'gpu1', which cannot run it"):
            ty.simulate(problem, ty.Schedule([1, 1]))

    def test_networkx_there_and_back(self):
        import networkx

        graph = networkx.DiGraph(name="net")
        graph.add_node("a", time_ns=2, type="A")
        graph.add_node("b", time_ns={"gpu0": 3}, flops=7)
        graph.add_edge("a", "b", bytes=5)
        ours = ty.Graph.from_networkx(graph)
        self.assertEqual((ours.name, ours.op_types, ours.flops.tolist()), ("net", ["A", ""], [0, 7]))
        problem = ty.Problem(ours, two_devices())
        self.assertEqual(problem.durations_ns.tolist(), [[2, -1], [3, -1]])
        back = ours.to_networkx()
        self.assertEqual([(a, b, data["bytes"]) for a, b, data in back.edges(data=True)], [("a", "b", 5)])
        control = networkx.DiGraph()
        control.add_node(1, time_ns=2), control.add_node(2, time_ns=3)
        control.add_edge(1, 2, control=True)
        self.assertEqual(ty.Graph.from_networkx(control).control.tolist(), [[0, 1]])

    def test_the_zoo_and_files(self):
        graph = ty.Graph.zoo("resnet18:batch=2", training="sgd")
        self.assertIn("resnet18", ty.networks())
        clipped = ty.Graph.zoo("resnet18:batch=2", training="sgd", clip=1)
        types = [op.get("type") for op in json.loads(clipped.to_json())["ops"]]
        self.assertEqual(types.count("ClipScale"), 1)
        self.assertGreater(clipped.op_count, graph.op_count + 60)  # a sum of squares for each of 62 parameters
        for norm in -1, float("nan"):
            with self.assertRaisesRegex(ty.InputError, "a norm is a finite number"):
                ty.Graph.zoo("resnet18:batch=2", clip=norm)
        with tempfile.TemporaryDirectory() as folder:
            for name in "graph.json", "graph.json.gz":
                path = str(pathlib.Path(folder) / name)
                graph.write(path)
                self.assertEqual(ty.Graph.read(path), graph)

    def test_any_array_of_the_ops_says_how_many_there_are(self):
        for key, values in ("types", ["a", "b"]), ("layers", ["x", "x"]), ("state_bytes", [1, 2]), ("workspace_bytes", [3, 4]):
            self.assertEqual(ty.Graph.from_arrays([], **{key: values}).op_count, 2)

    def test_colocated_ops_are_one_group(self):
        problem = ty.Problem(diamond(colocate=["x", "", "x", ""]), two_devices())
        self.assertEqual(problem.groups.tolist(), [0, 1, 0, 2])

    def test_a_fabric_and_links_take_the_sharing(self):
        for name in "4xV100", "2x8xH100":
            self.assertNotIn('sharing = "fair"', ty.Cluster(name).to_toml())
            self.assertIn('sharing = "fair"', ty.Cluster(name, sharing="fair").to_toml())


class Refused(unittest.TestCase):
    def test_the_text_is_the_programs_own_and_the_findings_are_there(self):
        with self.assertRaises(ty.InputError) as raised:
            ty.Graph.parse('{"format": "trainyard-graph/1", "ops": [{"name": "a", "outputs": [], "bites": 1}]}')
        self.assertTrue(str(raised.exception).startswith("graph:1:"))
        self.assertIn("error[unknown-key]", str(raised.exception))
        self.assertEqual(raised.exception.findings[0]["code"], "unknown-key")
        self.assertIsInstance(raised.exception, ValueError)
        self.assertEqual(ty.InputError("of a user's own").findings, [])

    def test_wrong_arrays(self):
        for message, make in [
            ("give integers: round", lambda: diamond(parameter_bytes=[1.5] * 4)),
            ("parameter_bytes has 3 values", lambda: diamond(parameter_bytes=[1] * 3)),
            ("names op 7", lambda: ty.Graph.from_arrays([[0, 7]], time_ns=[1, 1])),
            ("names op -1", lambda: ty.Graph.from_arrays([[0, -1]], time_ns=[1, 1])),
            ("cycle", lambda: ty.Graph.from_arrays([[0, 1], [1, 0]], time_ns=[1, 1])),
            ("rows of two op indices", lambda: ty.Graph.from_arrays([0, 1], time_ns=[1, 1])),
            ("negative", lambda: ty.Graph.from_arrays([], time_ns=[-5, 1])),
            ("both given", lambda: diamond(edge_bytes=[1] * 4)),
            ("no ops", lambda: ty.Graph.from_arrays([], time_ns=[])),
            ("not a phase", lambda: diamond(phases=["x"] * 4)),
            ("not a matrix of 2 x 2", lambda: ty.Cluster.from_arrays([[1, 2], [3]])),
            ("bandwidth", lambda: ty.Cluster.from_arrays(np.zeros((2, 2)))),
            ("did you mean", lambda: ty.Cluster("4xV10")),
            ("set sharing to serial or fair", lambda: ty.Cluster("2x8xH100", sharing="none")),
            ("has no links to share", lambda: shared_egresses("fair")),
            ("unknown-network", lambda: ty.Graph.zoo("resnet19")),
            ("not a file from which a graph", lambda: ty.Graph.read("graph.txt")),
            ("error", lambda: ty.Graph.read("/nowhere/graph.json")),
        ]:
            with self.subTest(message), self.assertRaisesRegex(ty.InputError, message):
                make()


if __name__ == "__main__":
    unittest.main()
