"""The environments follow Gymnasium's protocol and agree with the simulator."""
import unittest

import numpy as np
import trainyard as ty
from test_graph import diamond, two_devices
from trainyard import env


class Environments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.problem = ty.Problem(ty.Graph.zoo("resnet18:batch=8"), ty.Cluster("2xV100"))

    def episode(self, environment, seed):
        environment.action_space.seed(seed)
        observation, info = environment.reset(seed=seed)
        self.assertTrue(environment.observation_space.contains(observation))
        trace, over = [], False
        while not over:
            action = environment.action_space.sample()
            self.assertTrue(environment.action_space.contains(action))
            observation, reward, terminated, truncated, info = environment.step(action)
            self.assertTrue(environment.observation_space.contains(observation))
            trace.append((action, reward, observation["placement"].tolist()))
            over = terminated or truncated
        with self.assertRaisesRegex(RuntimeError, "over"):
            environment.step(0)
        return trace, info

    def test_equal_seeds_give_equal_episodes(self):
        for make in env.PlacementEnv, lambda problem: env.ImprovementEnv(problem, steps=30):
            a, b, c = (self.episode(make(self.problem), seed)[0] for seed in (1, 1, 2))
            self.assertEqual(a, b)
            self.assertNotEqual(a, c)

    def test_the_reward_is_the_step_time(self):
        environment = env.PlacementEnv(self.problem)
        trace, info = self.episode(environment, 3)
        self.assertEqual(len(trace), self.problem.group_count)
        step = ty.simulate(self.problem, info["schedule"]).makespan_ns
        self.assertEqual(info["makespan_ns"], step)
        self.assertEqual(trace[-1][1], -step / self.problem.lower_bound_ns())
        self.assertEqual({reward for _, reward, _ in trace[:-1]}, {0.0})

    def test_improvements_add_up(self):
        start = ty.place(self.problem, "single")
        environment = env.ImprovementEnv(self.problem, steps=40, start=start)
        trace, info = self.episode(environment, 4)
        fallen = ty.simulate(self.problem, start).makespan_ns - info["makespan_ns"]
        self.assertAlmostEqual(sum(reward for _, reward, _ in trace) * environment.lower_bound_ns, fallen, delta=1)
        self.assertEqual(ty.simulate(self.problem, environment.schedule).makespan_ns, info["makespan_ns"])

    def test_features_by_hand(self):
        # Groups {a, c}, b, d. {a, c} takes 2 + 4 and reads no other group; b reads 5 and d reads 3 bytes of it.
        problem = ty.Problem(diamond(colocate=["x", "", "x", ""], parameter_bytes=[7, 0, 1, 0]), two_devices())
        features = env.group_features(problem)
        np.testing.assert_allclose(np.expm1(features[:, :4]), [[6, 8, 0, 8], [3, 0, 5, 3], [1, 0, 6, 0]], rtol=1e-5)
        self.assertEqual(features[:, 4:].tolist(), [[1, 1]] * 3)

    def test_a_device_that_cannot_run_the_group(self):
        graph = ty.Graph.from_arrays([[0, 1]], time_ns={"gpu0": [1, 2], "gpu1": [3, -1]})
        environment = env.PlacementEnv(ty.Problem(graph, two_devices()))
        environment.reset(seed=1)
        observation = environment.step(1)[0]
        self.assertEqual(observation["mask"].tolist(), [1, 0])
        with self.assertRaisesRegex(ty.InputError, "cannot run group 1"):
            environment.step(1)


if __name__ == "__main__":
    unittest.main()
