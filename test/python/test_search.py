"""Placers of the catalogue and placers written in Python, the comparison, Ctrl-C."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np
import trainyard as ty


def dealt(problem, seed):
    return problem.groups % problem.device_count


class Placers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.problem = ty.Problem(ty.Graph.zoo("resnet18:batch=8"), ty.Cluster("2xV100"))

    def test_by_name_by_function_by_object(self):
        heft = ty.place(self.problem, "heft")
        self.assertEqual(heft.placer, "heft")
        self.assertEqual(len(heft.placement), self.problem.op_count)
        for mine in dealt, ty.Placer(dealt, "dealt"):
            schedule = ty.place(self.problem, mine)
            self.assertEqual(schedule.placer, "dealt")
            self.assertEqual(schedule.placement.tolist(), dealt(self.problem, 1).tolist())
        self.assertIn("auto", [each.name for each in ty.placers()])

    def test_parameters_and_budgets(self):
        etf = next(each for each in ty.placers() if each.name == "etf")
        self.assertIn("by", etf.parameters)
        ty.place(self.problem, "etf", by="finish")
        with self.assertRaisesRegex(ty.InputError, "parameter"):
            ty.place(self.problem, "etf", bye="finish")
        with self.assertRaisesRegex(ty.InputError, "did you mean"):
            ty.place(self.problem, "heff")
        with self.assertRaises(TypeError):
            ty.place(self.problem, 3)
        a, b = (ty.place(self.problem, "auto", evaluations=200, threads=threads) for threads in (1, 2))
        self.assertEqual(a, b)

    def test_no_placement(self):
        tight = ty.Cluster.from_arrays(np.full((2, 2), 1e9), memory_bytes=10)
        graph = ty.Graph.from_arrays([], time_ns=[1, 1], parameter_bytes=[20, 20])
        with self.assertRaises(ty.NoPlacementError):
            ty.place(ty.Problem(graph, tight), "dp-ideals")

        def none(problem, seed):
            raise ty.NoPlacementError("none today")

        with self.assertRaises(ty.NoPlacementError):
            ty.place(self.problem, none)

    def test_a_comparison_is_rows(self):
        def fails(problem, seed):
            raise ty.InputError("error[mine]: not today")

        comparison = ty.compare(self.problem, ["heft", dealt, "single", fails], rewrites=False)
        self.assertEqual(len(comparison), 3)
        rows = comparison.rows
        self.assertEqual(sorted(row["placer"] for row in rows), ["dealt", "heft", "single"])
        self.assertEqual([row["makespan_ns"] for row in rows], sorted(row["makespan_ns"] for row in rows))
        self.assertIn("not today", comparison.skipped["fails"])
        self.assertIn("dealt", str(comparison))
        for i, row in enumerate(rows):
            self.assertEqual(ty.simulate(self.problem, comparison.schedule(i)).makespan_ns, row["makespan_ns"])
            self.assertEqual(comparison.timeline(i).makespan_ns, row["makespan_ns"])
            self.assertGreaterEqual(row["makespan_ns"], row["lower_bound_ns"])
        with tempfile.TemporaryDirectory() as folder:
            comparison.write_page(folder + "/page.html"), comparison.write_csv(folder + "/table.csv")
            self.assertEqual(len(pathlib.Path(folder, "table.csv").read_text().splitlines()), 4)

    def test_pandas_takes_it(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("no pandas here")
        table = pandas.DataFrame(ty.compare(self.problem, ["heft", "single"]).rows)
        self.assertEqual(str(table.dtypes["makespan_ns"]), "int64")
        self.assertEqual(str(table.dtypes["search_seconds"]), "float64")

    def test_other_exceptions_of_a_placer_are_the_callers(self):
        def broken(problem, seed):
            return 1 // 0

        with self.assertRaises(ZeroDivisionError):
            ty.compare(self.problem, ["single", broken])
        for wrong in "x", [0] * 3, [0.5] * self.problem.op_count, [9] * self.problem.op_count:
            comparison = ty.compare(self.problem, ["single", ty.Placer(lambda p, s: wrong, "wrong")])
            self.assertIn("wrong", comparison.skipped)

    def test_auto_starts_from_ones_own(self):
        calls = []

        def mine(problem, seed):
            calls.append(seed)
            return dealt(problem, seed)

        auto = ty.auto_with((mine,))
        schedule = ty.place(self.problem, auto, evaluations=100, rewrites=False)
        self.assertTrue(calls)
        self.assertLessEqual(ty.simulate(self.problem, schedule).makespan_ns,
                             ty.simulate(self.problem, ty.place(self.problem, dealt)).makespan_ns)

    def test_searches_on_threads_of_python(self):
        found = []
        threads = [threading.Thread(target=lambda: found.append(ty.place(self.problem, "heft"))) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(found, [found[0]] * 4)


class Interrupts(unittest.TestCase):
    def interrupted(self, work):
        """Runs `work` in a new Python process, sends SIGINT when it begins, and returns the words printed then."""
        script = ("import signal\nimport numpy as np, trainyard as ty\n"
                  "def once(*_):\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\n    raise KeyboardInterrupt\n"
                  "signal.signal(signal.SIGINT, once)\n"
                  "problem = ty.Problem(ty.Graph.zoo('inception_v3:batch=8'), ty.Cluster('4xV100'))\n"
                  "print('begins', flush=True)\n"
                  f"try:\n    {work}\n    print('went on')\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
                  "print(ty.simulate(problem, ty.place(problem, 'single')).makespan_ns > 0)\n")
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path[:2]))
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "begins\n")
        time.sleep(0.3)
        try:
            for _ in range(12):  # repeated, as a busy machine may not have started the work
                process.send_signal(signal.SIGINT)
                try:
                    return process.communicate(timeout=10)[0].split()
                except subprocess.TimeoutExpired:
                    continue
            return "went on for two minutes"
        finally:
            process.kill()

    def test_ctrl_c_ends_what_takes_long(self):
        for work in ("ty.place(problem, 'auto', seconds=600)", "ty.compare(problem, ['heft', 'auto'], seconds=600)",
                     "ty.Batch(problem).makespans(np.zeros((2000000, problem.op_count), np.int32))",
                     "ty.place(problem, lambda p, s: __import__('time').sleep(600))"):
            with self.subTest(work):
                self.assertEqual(self.interrupted(work), ["interrupted", "True"])


if __name__ == "__main__":
    unittest.main()
