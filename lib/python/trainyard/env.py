"""Reinforcement-learning environments by Gymnasium's protocol. Gymnasium itself is not needed: where it is installed
the spaces are its own, else the small ones below.

    env = PlacementEnv(problem)                   # place one group a step
    env = ImprovementEnv(problem, steps=200)      # move one group of a whole placement a step
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""
import numpy

from . import Batch, DeltaSimulation, InputError, Schedule

try:
    import gymnasium
except ImportError:
    gymnasium = None


class _Space:
    def __init__(self):
        self._random = numpy.random.default_rng()

    def seed(self, seed=None):
        self._random = numpy.random.default_rng(seed)


class Discrete(_Space):
    """0 to n - 1."""

    def __init__(self, n):
        super().__init__()
        self.n, self.shape, self.dtype = int(n), (), numpy.dtype(numpy.int64)

    def sample(self, mask=None):
        choices = numpy.arange(self.n) if mask is None else numpy.flatnonzero(mask)
        return int(self._random.choice(choices))

    def contains(self, x):
        return isinstance(x, (int, numpy.integer)) and 0 <= int(x) < self.n


class Box(_Space):
    """Arrays of one shape and type, each number from low to high."""

    def __init__(self, low, high, shape, dtype):
        super().__init__()
        self.low, self.high, self.shape, self.dtype = low, high, tuple(shape), numpy.dtype(dtype)

    def sample(self):
        low, high = max(self.low, -1e3), min(self.high, 1e3)
        if self.dtype.kind == "f":
            return self._random.uniform(low, high, self.shape).astype(self.dtype)
        return self._random.integers(int(low), int(high) + 1, self.shape, self.dtype)

    def contains(self, x):
        return (isinstance(x, numpy.ndarray) and x.shape == self.shape and x.dtype == self.dtype
                and bool(numpy.all((self.low <= x) & (x <= self.high))))


class Dict(_Space):
    """A space for each name."""

    def __init__(self, spaces):
        super().__init__()
        self.spaces = dict(spaces)

    def seed(self, seed=None):
        for i, space in enumerate(self.spaces.values()):
            space.seed(None if seed is None else seed + i)

    def sample(self):
        return {name: space.sample() for name, space in self.spaces.items()}

    def contains(self, x):
        return isinstance(x, dict) and x.keys() == self.spaces.keys() and all(
            space.contains(x[name]) for name, space in self.spaces.items())


_spaces = gymnasium.spaces if gymnasium else None
_Discrete, _Box, _Dict = (_spaces.Discrete, _spaces.Box, _spaces.Dict) if gymnasium else (Discrete, Box, Dict)


def group_features(problem):
    """float32[groups, 4 + devices]: of each colocation group ln(1 + x) of its shortest time (ns), its resident bytes,
    the bytes that it reads of other groups and those that others read of it; then whether each device can run it.
    """
    group, durations = problem.groups, problem.durations_ns
    graph, count = problem.graph, problem.group_count
    shortest = numpy.where(durations < 0, numpy.iinfo(numpy.int64).max, durations).min(axis=1)
    able = numpy.ones((count, problem.device_count), numpy.float32)
    numpy.minimum.at(able, group, (durations >= 0).astype(numpy.float32))
    starts, consumers = graph.consumers
    tensor = numpy.repeat(numpy.arange(graph.tensor_count), numpy.diff(starts.astype(numpy.int64)))
    producer = numpy.repeat(numpy.arange(graph.op_count), numpy.diff(graph.first_output.astype(numpy.int64)))
    source, target, bytes = group[producer[tensor]], group[consumers], graph.tensor_bytes[tensor]
    crossing = source != target
    sums = [
        numpy.bincount(group, shortest, count),
        numpy.bincount(group, graph.parameter_bytes + graph.state_bytes, count),
        numpy.bincount(target[crossing], bytes[crossing], count),
        numpy.bincount(source[crossing], bytes[crossing], count),
    ]
    return numpy.concatenate([numpy.log1p(numpy.stack(sums, axis=1)).astype(numpy.float32), able], axis=1)


class _Env(gymnasium.Env if gymnasium else object):
    metadata = {"render_modes": []}
    render_mode = None
    spec = None

    def __init__(self, problem):
        self.problem = problem
        self.lower_bound_ns = max(1, problem.lower_bound_ns())
        self.features = group_features(problem)
        self.able = self.features[:, 4:].astype(numpy.int8)
        self.groups, self.devices = self.able.shape
        self._group = problem.groups
        self._random = numpy.random.default_rng()

    def _seed(self, seed):
        if seed is not None:
            self._random = numpy.random.default_rng(seed)

    def _observation_space(self, **more):
        shape = self.features.shape
        return _Dict({
            "features": _Box(-numpy.inf, numpy.inf, shape, numpy.float32),
            "placement": _Box(-1, self.devices - 1, (self.groups,), numpy.int64),
            **more,
        })

    def _check(self, group, device):
        if not self.able[group, device]:
            raise InputError(f"error[no-device]: device {device} cannot run group {group}\n"
                             "help: choose a device for which env.able[group] is 1")

    @property
    def unwrapped(self):
        return self

    def close(self):
        pass


class PlacementEnv(_Env):
    """Places one colocation group per step, in topological order of their first ops.

    Action: the device index. Observation: features float32[groups, 4 + devices] (group_features), placement
    int64[groups] (-1: not placed), group int64[1] (the one to place; `groups` when all are), mask int8[devices] (which can run it).
    Reward: 0, and at the end minus the step time over the problem's lower bound: -1 is a proven optimum. `info` then has
    makespan_ns and schedule. A placement that does not fit in memory is judged by its time only.
    """

    def __init__(self, problem):
        super().__init__(problem)
        self.action_space = _Discrete(self.devices)
        self.observation_space = self._observation_space(
            group=_Box(0, self.groups, (1,), numpy.int64), mask=_Box(0, 1, (self.devices,), numpy.int8))
        order = self._group[problem.graph.topological_order.astype(numpy.int64)]
        self._order = order[numpy.sort(numpy.unique(order, return_index=True)[1])]
        self._batch = Batch(problem, 1)
        self._placed = self.groups

    def _observe(self):
        done = self._placed == self.groups
        group = self.groups if done else self._order[self._placed]
        return {
            "features": self.features.copy(),
            "placement": self._placement.copy(),
            "group": numpy.array([group], numpy.int64),
            "mask": numpy.zeros(self.devices, numpy.int8) if done else self.able[group].copy(),
        }

    def reset(self, *, seed=None, options=None):
        self._seed(seed)
        self._placement, self._placed = numpy.full(self.groups, -1, numpy.int64), 0
        return self._observe(), {}

    def step(self, action):
        if self._placed == self.groups:
            raise RuntimeError("the episode is over: call reset() to begin another")
        group = self._order[self._placed]
        self._check(group, int(action))
        self._placement[group] = action
        self._placed += 1
        if self._placed < self.groups:
            return self._observe(), 0.0, False, False, {}
        placement = self._placement[self._group].astype(numpy.int32)
        makespan = int(self._batch.makespans(placement[None])[0])
        info = {"makespan_ns": makespan, "schedule": Schedule(placement)}
        return self._observe(), -makespan / self.lower_bound_ns, True, False, info


class ImprovementEnv(_Env):
    """Moves one colocation group of a complete placement per step; ends (truncated) after `steps`.

    Action: group * devices + device. Observation: features and placement as PlacementEnv has them, and step_time
    float32[1], the step time over the problem's lower bound. Reward: the decrease of that. `start`: a Schedule to begin
    with (its policy is kept), else each episode begins with a random placement, by the seed. info has makespan_ns, and
    best_ns of the episode.
    """

    def __init__(self, problem, *, steps=100, start=None):
        super().__init__(problem)
        self.steps, self.start = steps, start
        self.action_space = _Discrete(self.groups * self.devices)
        self.observation_space = self._observation_space(step_time=_Box(0, numpy.inf, (1,), numpy.float32))
        self._first_op = numpy.unique(self._group, return_index=True)[1]
        self._left = 0

    def _observe(self):
        return {
            "features": self.features.copy(),
            "placement": self._placement.copy(),
            "step_time": numpy.array([self._run.makespan_ns / self.lower_bound_ns], numpy.float32),
        }

    def _info(self):
        return {"makespan_ns": self._run.makespan_ns, "best_ns": self._best}

    def reset(self, *, seed=None, options=None):
        self._seed(seed)
        schedule = self.start
        if schedule is None:
            draws = self._random.random(self.able.shape) * self.able
            schedule = Schedule(draws.argmax(axis=1)[self._group])
        self._run = DeltaSimulation(self.problem, schedule)
        self._placement = schedule.placement[self._first_op].astype(numpy.int64)
        self._best, self._left = self._run.makespan_ns, self.steps
        return self._observe(), self._info()

    @property
    def schedule(self):
        """The schedule as it is now."""
        return self._run.schedule

    def step(self, action):
        if self._left == 0:
            raise RuntimeError("the episode is over: call reset() to begin another")
        group, device = divmod(int(action), self.devices)
        self._check(group, device)
        before = self._run.makespan_ns
        if self._placement[group] != device:
            result = self._run.try_move(int(self._first_op[group]), device)
            if result.complete:
                self._run.accept()
                self._placement[group] = device
        self._best = min(self._best, self._run.makespan_ns)
        self._left -= 1
        reward = (before - self._run.makespan_ns) / self.lower_bound_ns
        return self._observe(), reward, False, self._left == 0, self._info()
