"""The process model of DOPPLER and GiPH equals `sharing = "none"` under fifo, exact to the unit of time."""
import os
import pathlib
import random
import unittest

import numpy as np
import trainyard as ty
from peers import process_model, read_doppler

DATA = os.environ.get("TRAINYARD_REFERENCE_DATA", "")
FOLDER = pathlib.Path(DATA, "formats", "doppler")


class Doppler(unittest.TestCase):
    @unittest.skipUnless(DATA and FOLDER.is_dir(), "TRAINYARD_REFERENCE_DATA has no formats/doppler")
    def test_its_graphs_take_as_long(self):
        files = sorted(FOLDER.glob("*.txt"))
        self.assertEqual(len(files), 10)
        for path in files:
            devices = 8 if path.name.startswith("8gpu") else 4
            costs, outputs, edges = read_doppler(path)
            # At one byte a nanosecond, a transfer between any two devices takes the cost of its output.
            cluster = ty.Cluster.from_arrays(np.full((devices, devices), 1e9), sharing="none")
            problem = ty.Problem(ty.Graph.from_arrays(edges, time_ns=costs, output_bytes=outputs), cluster)
            placements = np.random.default_rng(1).integers(0, devices, (20, len(costs)), dtype=np.int32)
            placements[0] = 0
            with self.subTest(path.name):
                expected = [process_model(costs, edges, lambda e, a, b: outputs[a], row.tolist()) for row in placements]
                self.assertEqual(expected[0], sum(costs))
                self.assertEqual(ty.Batch(problem).makespans(placements).tolist(), expected)


class Giph(unittest.TestCase):
    def test_random_programs_on_unlike_devices_take_as_long(self):
        draw = random.Random(1)
        for case in range(200):
            ops, devices = draw.randint(2, 15), draw.randint(2, 6)
            edges = [(a, b) for a in range(ops) for b in range(a + 1, ops) if draw.random() < 0.3]
            bytes = [draw.randint(1, 50) for _ in edges]
            work = [draw.randint(1, 20) for _ in range(ops)]
            speed = [draw.randint(1, 5) for _ in range(devices)]
            rate = [[draw.choice([1, 2, 5]) for _ in range(devices)] for _ in range(devices)]  # ns a byte
            delay = [[draw.randint(0, 10) for _ in range(devices)] for _ in range(devices)]
            cluster = ty.Cluster.from_arrays(1e9 / np.array(rate), latency_ns=delay, sharing="none")
            times = {f"gpu{d}": [each * speed[d] for each in work] for d in range(devices)}
            problem = ty.Problem(ty.Graph.from_arrays(edges, time_ns=times, edge_bytes=bytes, ops=ops), cluster)
            placement = [draw.randrange(devices) for _ in range(ops)]
            expected = process_model([work[op] * speed[placement[op]] for op in range(ops)], edges,
                                     lambda e, a, b: delay[placement[a]][placement[b]]
                                     + bytes[e] * rate[placement[a]][placement[b]], placement)
            with self.subTest(case):
                self.assertEqual(ty.simulate(problem, ty.Schedule(placement)).makespan_ns, expected)


if __name__ == "__main__":
    unittest.main()
