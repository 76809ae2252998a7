#!/usr/bin/env python3
"""REINFORCE (Williams 1992) with numpy: a softmax over devices for each colocation group, 64 placements an update.

    python3 reinforce.py [NETWORK] [CLUSTER] [UPDATES]
"""
import sys

import numpy as np
import trainyard as ty


def reinforce(problem, seed=1, updates=200, samples=64, rate=2.0, entropy=0.01):
    random, batch = np.random.default_rng(seed), ty.Batch(problem)
    group = problem.groups
    able = np.full((problem.group_count, problem.device_count), True)
    np.logical_and.at(able, group, problem.durations_ns >= 0)
    logits = np.where(able, 0.0, -np.inf)
    best, shortest = None, np.inf
    for _ in range(updates):
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        drawn = (random.random((samples, len(p), 1)) > p.cumsum(1)[None, :, :-1]).sum(2)
        steps = batch.makespans(drawn[:, group].astype(np.int32))
        if steps.min() < shortest:
            best, shortest = drawn[steps.argmin()][group], steps.min()
        advantage = (steps.mean() - steps) / (steps.std() + 1)
        chosen = drawn[..., None] == np.arange(p.shape[1])
        log_p = np.log(np.maximum(p, 1e-9))
        bonus = -p * (log_p - (p * log_p).sum(1, keepdims=True))
        logits += rate * (advantage[:, None, None] * (chosen - p)).mean(0) + entropy * bonus
    return ty.Schedule(best)


if __name__ == "__main__":
    network, cluster, updates = (sys.argv[1:] + ["resnet18:batch=32", "2xV100", "200"][len(sys.argv) - 1:])[:3]
    problem = ty.Problem(ty.Graph.zoo(network), ty.Cluster(cluster))
    learned = ty.Placer(lambda problem, seed: reinforce(problem, seed, int(updates)), "reinforce")
    for row in ty.compare(problem, [learned, "heft", "single", "random"], rewrites=False).rows:
        print(f"{row['placer']:12} {row['makespan_ns'] / 1e6:9.3f} ms  gap at most {row['gap']:.1%}")
