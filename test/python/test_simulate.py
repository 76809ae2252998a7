"""Schedules, timelines and the three simulations; other threads run meanwhile."""
import pathlib
import tempfile
import threading
import time
import unittest

import numpy as np
import trainyard as ty
from test_graph import diamond, two_devices


def by_hand():
    return ty.Problem(diamond(), two_devices())


class Timelines(unittest.TestCase):
    def test_the_example_by_hand(self):
        # a 0..2, its transfer 2..7, c 7..11 on the other device, its transfer 11..14, d 14..15; b 2..5.
        timeline = ty.simulate(by_hand(), ty.Schedule([0, 0, 1, 0]))
        self.assertEqual((timeline.makespan_ns, timeline.fits), (15, True))
        self.assertEqual(timeline.start_ns.tolist(), [0, 2, 7, 14])
        self.assertEqual(timeline.end_ns.tolist(), [2, 5, 11, 15])
        self.assertEqual(timeline.device.tolist(), [0, 0, 1, 0])
        self.assertEqual({name: each.tolist() for name, each in timeline.transfers.items()},
                         {"tensor": [0, 2], "source": [0, 1], "target": [1, 0], "bytes": [5, 3], "ready_ns": [2, 11],
                          "start_ns": [2, 11], "end_ns": [7, 14]})
        self.assertEqual(timeline.devices["busy_ns"].tolist(), [6, 4])
        self.assertEqual(int(timeline.channels["bytes"].sum()), 8)
        self.assertEqual([step[:2] for step in timeline.critical_path()],
                         [("op", 0), ("transfer", 0), ("op", 2), ("transfer", 1), ("op", 3)])

    def test_views_outlive_their_timeline_and_are_read_only(self):
        start = ty.simulate(by_hand(), ty.Schedule([0, 0, 1, 0])).start_ns
        self.assertFalse(start.flags.owndata)
        self.assertEqual(start.tolist(), [0, 2, 7, 14])
        with self.assertRaises(ValueError):
            start[0] = 1

    def test_no_transfers_are_empty_columns(self):
        transfers = ty.simulate(by_hand(), ty.Schedule([0] * 4)).transfers
        self.assertEqual({len(each) for each in transfers.values()}, {0})

    def test_files_and_drawings(self):
        problem = by_hand()
        schedule = ty.Schedule([0, 0, 1, 0], order=[[0, 1, 3], [2]])
        self.assertEqual(schedule.policy, "strict")
        self.assertEqual(ty.Schedule([0, 0, 1, 0], order=((0, 1, 3), (2,))), schedule)
        for none in 4, -1, 1 << 32:
            with self.assertRaisesRegex(ty.InputError, "there is no op"):
                ty.Schedule([0, 0, 1, 0], order=[[0, 1, none], [2]])
        timeline = ty.simulate(problem, schedule)
        self.assertTrue(timeline.svg().startswith("<svg xmlns="))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            schedule.write(str(path / "s.json"), problem)
            self.assertEqual(ty.Schedule.read(str(path / "s.json"), problem), schedule)
            timeline.write(str(path / "t.json")), timeline.write_trace(str(path / "trace.json.gz"))
            timeline.write_page(str(path / "page.html"))
            self.assertIn("<html", (path / "page.html").read_text())
            with self.assertRaises(ty.InputError):
                timeline.write(str(path / "nowhere" / "t.json"))

    def test_a_device_map_is_read_as_a_schedule(self):
        problem = ty.Problem(ty.Graph.zoo("resnet18:batch=8"), ty.Cluster("2xV100"))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "map.json")
            path.write_text('{"": 0, "layer4": 1}')
            placement = ty.Schedule.read(str(path), problem).placement
            self.assertEqual(set(placement.tolist()), {0, 1})
            path.write_text('{"": 2}')
            with self.assertRaisesRegex(ty.InputError, "on device 2, but cluster '2xV100' has only 2"):
                ty.Schedule.read(str(path), problem)

    def test_a_schedules_arrays_are_its_own_memory(self):
        problem, schedule = by_hand(), ty.Schedule([0, 0, 1, 0])
        schedule.placement[2] = 0
        self.assertEqual(ty.simulate(problem, schedule).makespan_ns, 2 + 3 + 4 + 1)
        schedule.placement[2] = 9
        with self.assertRaisesRegex(ty.InputError, "device number 9"):
            ty.simulate(problem, schedule)

    def test_priorities(self):
        # After a, both b (3) and c (4) wait for one device; c runs first if it has the higher priority.
        timeline = ty.simulate(by_hand(), ty.Schedule([0] * 4, priority=[0, 1, 2, 0]))
        self.assertEqual(timeline.start_ns.tolist(), [0, 6, 2, 9])

    def test_bounds(self):
        problem = by_hand()
        self.assertEqual(problem.lower_bounds_ns()["critical-path"], 2 + 4 + 1)
        self.assertEqual(problem.lower_bound_ns(), max(problem.lower_bounds_ns().values()))


class Batches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.problem = ty.Problem(ty.Graph.zoo("resnet18:batch=8"), ty.Cluster("4xV100"))
        random = np.random.default_rng(1)
        devices = random.integers(0, 4, (300, cls.problem.group_count), dtype=np.int32)
        cls.placements = np.ascontiguousarray(devices[:, cls.problem.groups])

    def test_a_batch_is_one_simulation_each_on_any_number_of_threads(self):
        simulation = ty.Simulation(self.problem)
        expected = [simulation.makespan_ns(ty.Schedule(row)) for row in self.placements]
        for threads in 0, 1, 3:
            steps = ty.Batch(self.problem, threads).makespans(self.placements)
            self.assertEqual(steps.dtype, np.int64)
            self.assertEqual(steps.tolist(), expected)
        self.assertEqual(ty.simulate(self.problem, ty.Schedule(self.placements[0])).makespan_ns, expected[0])
        self.assertEqual(simulation.peaks(ty.Schedule(self.placements[0]))["makespan_ns"], expected[0])

    def test_priorities_hold_for_every_row(self):
        priority = np.arange(self.problem.op_count, dtype=float)
        steps = ty.Batch(self.problem).makespans(self.placements[:20], priority)
        simulation = ty.Simulation(self.problem)
        self.assertEqual(steps.tolist(),
                         [simulation.makespan_ns(ty.Schedule(row, priority=priority)) for row in self.placements[:20]])

    def test_any_integers_and_layout_will_do(self):
        expected = ty.Batch(self.problem).makespans(self.placements).tolist()
        for other in self.placements.astype(np.int64), np.asfortranarray(self.placements), self.placements.astype("u1"):
            self.assertEqual(ty.Batch(self.problem).makespans(other).tolist(), expected)

    def test_rows_that_are_no_placement_are_named(self):
        batch = ty.Batch(self.problem)
        for device in 4, -1, 2**40:
            wrong = self.placements.astype(np.int64)
            wrong[7, 3] = device
            with self.assertRaisesRegex(ty.InputError, "row 7: op "):
                batch.makespans(wrong)
        grouped = self.problem.groups.tolist()
        op = next(i for i, group in enumerate(grouped) if grouped.count(group) > 1)
        wrong = self.placements.copy()
        wrong[9, op] = (wrong[9, op] + 1) % 4
        with self.assertRaisesRegex(ty.InputError, "row 9: ops .* of colocation group"):
            batch.makespans(wrong)
        for shape in self.placements[:, 1:], self.placements[0], self.placements * 1.0:
            with self.assertRaises(ty.InputError):
                batch.makespans(shape)
        with self.assertRaisesRegex(ty.InputError, "not a finite number"):
            batch.makespans(self.placements, np.full(self.problem.op_count, np.nan))
        self.assertEqual(batch.makespans(self.placements[:0]).tolist(), [])

    def test_python_goes_on_meanwhile_and_threads_may_share(self):
        batch, expected = ty.Batch(self.problem, 1), ty.Batch(self.problem).makespans(self.placements).tolist()
        results = []
        many = np.concatenate([self.placements] * 20)
        threads = [threading.Thread(target=lambda: results.append(batch.makespans(many).tolist())) for _ in range(3)]
        for each in threads:
            each.start()
        counted = 0
        while any(each.is_alive() for each in threads):
            counted += 1  # if the batch held the GIL, this loop would run only a few times
            time.sleep(0)
        self.assertGreater(counted, 50)
        self.assertEqual(results, [expected * 20] * 3)


class Deltas(unittest.TestCase):
    def test_moves_agree_with_full_simulations(self):
        problem = Batches.problem if hasattr(Batches, "problem") else None
        problem = problem or ty.Problem(ty.Graph.zoo("resnet18:batch=8"), ty.Cluster("4xV100"))
        random, schedule = np.random.default_rng(2), ty.Schedule(np.zeros(problem.op_count, np.int32))
        run, groups = ty.DeltaSimulation(problem, schedule), problem.groups
        for _ in range(60):
            op, device = int(random.integers(problem.op_count)), int(random.integers(4))
            result = run.try_move(op, device)
            self.assertTrue(result.complete)
            moved = run.schedule
            self.assertTrue((moved.placement[groups == groups[op]] == device).all())
            self.assertEqual(result.makespan_ns, ty.simulate(problem, moved).makespan_ns)
            run.accept() if random.random() < 0.5 else run.reject()
        self.assertEqual(run.timeline().makespan_ns, run.makespan_ns)

    def test_a_limit_leaves_no_trace(self):
        run = ty.DeltaSimulation(by_hand(), ty.Schedule([0] * 4))
        result = run.try_move(2, 1, limit_ns=10)
        self.assertFalse(result.complete)
        self.assertEqual(run.makespan_ns, 10)

    def test_what_is_not_allowed(self):
        run = ty.DeltaSimulation(by_hand(), ty.Schedule([0] * 4))
        with self.assertRaises(IndexError):
            run.try_move(4, 0)
        with self.assertRaises(IndexError):
            run.try_move(0, 2)
        with self.assertRaisesRegex(RuntimeError, "no change is pending"):
            run.accept()
        run.try_move(2, 1)
        with self.assertRaisesRegex(RuntimeError, "accept"):
            run.try_move(2, 0)
        with self.assertRaisesRegex(ty.InputError, "policy strict"):
            ty.DeltaSimulation(by_hand(), ty.Schedule([0] * 4)).try_swap(0, 1)

    def test_strict_orders(self):
        run = ty.DeltaSimulation(by_hand(), ty.Schedule([0] * 4, order=[[0, 1, 2, 3], []]))
        self.assertEqual(run.try_swap(1, 2).makespan_ns, 10)
        run.reject()
        self.assertTrue(run.try_swap(0, 1).deadlock)
        self.assertEqual(run.try_place(2, 1, None).makespan_ns, 15)


if __name__ == "__main__":
    unittest.main()
