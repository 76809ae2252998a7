#!/usr/bin/env python3
"""Environments with the Gymnasium protocol: a policy that balances work, and one that keeps moves that are no worse."""
import numpy as np
import trainyard as ty
from trainyard.env import ImprovementEnv, PlacementEnv

problem = ty.Problem(ty.Graph.zoo("resnet18:batch=32"), ty.Cluster("2xV100"))

env = PlacementEnv(problem)
observation, info = env.reset(seed=1)
load, over = np.zeros(problem.device_count), False
while not over:
    able = observation["mask"] == 1
    device = int(np.where(able, load, np.inf).argmin())
    load[device] += np.expm1(observation["features"][observation["group"][0], 0])
    observation, reward, over, _, info = env.step(device)
print(f"balanced work: {info['makespan_ns'] / 1e6:.3f} ms, reward {reward:.3f}")

env = ImprovementEnv(problem, steps=500, start=ty.place(problem, "single"))
observation, info = env.reset(seed=1)
env.action_space.seed(1)
over = False
while not over:
    action, before = int(env.action_space.sample()), observation["placement"]
    observation, reward, _, over, info = env.step(action)
    if reward < 0 and not over:  # take it back
        group = action // env.devices
        observation, _, _, over, info = env.step(group * env.devices + int(before[group]))
print(f"500 moves from one device: {info['best_ns'] / 1e6:.3f} ms")
