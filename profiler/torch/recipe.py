"""A recipe (trainyard-recipe/1): read, checked, and its first numbers made as Trainyard's cpu backend makes them.

Random numbers are those of lib/trainyard/core/random.hpp: xoshiro256++ (Blackman and Vigna, 2019), a stream a value.
The generator is linear over bits, so that many stretches of one stream are drawn side by side: the state after 2^k
steps is a matrix of bits times the state before.
"""
import gzip
import json
import math

import torch

FORMAT = "trainyard-recipe/1"
KINDS = ("input", "forward", "backward", "add", "scatter", "sum", "update")
TYPES = {
    "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64,
    "int64": torch.int64, "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8,
    "boolean": torch.bool, "bool": torch.bool,
}
MASK = (1 << 64) - 1


class RecipeError(Exception):
    """A file that cannot be run: which, where in it, and what would be right."""


class Recipe:
    """The file's lists as they stand in it. `seed`, `loss` (a value, or None) and `optimizer` are of the step."""

    def __init__(self, path):
        self.path = str(path)
        try:
            with (gzip.open if self.path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
                data = json.load(file)
        except (OSError, EOFError, ValueError) as error:
            raise RecipeError(f"{path}: {error}; export it again: trainyard export MODEL --to recipe") from None
        told = data.get("format") if isinstance(data, dict) else None
        if told != FORMAT:
            raise RecipeError(f"{path}: the format is {told!r}; expected \"{FORMAT}\"")
        try:
            self.graph, self.cluster = data["graph"], data["cluster"]
            self.seed, self.loss, self.optimizer = data["seed"], data["loss"], data["optimizer"]
            self.devices, self.values, self.nodes = data["devices"], data["values"], data["nodes"]
            self.tensors, self.ops, self.schedules = data["tensors"], data["ops"], data["schedules"]
            self._check()
        except (KeyError, TypeError, AttributeError) as error:
            raise RecipeError(f"{path}: incomplete recipe: {type(error).__name__} {error}") from None

    def _check(self):
        made = {}
        for index, op in enumerate(self.ops):
            if op["kind"] not in KINDS:
                raise RecipeError(f"{self.path}: op '{op['name']}' has the kind \"{op['kind']}\"; expected one of {', '.join(KINDS)}")
            for tensor in written(op):
                made[self._number(op, tensor, self.tensors, "tensor")] = index
        for op in self.ops:
            if "node" in op:
                self._number(op, op["node"], self.nodes, "node")
            for operand in op.get("reads", []) + op.get("gradients", []) + op.get("outputs", []):
                if operand and "value" in operand:
                    self._number(op, operand["value"], self.values, "value")
            for tensor in read(op):
                self._number(op, tensor, self.tensors, "tensor")
                if tensor not in made:
                    raise RecipeError(f"{self.path}: op '{op['name']}' reads '{self.tensors[tensor]['name']}', which no op produces")
        for value in self.values:
            if value["type"] not in TYPES:
                raise RecipeError(f"{self.path}: value '{value['name']}' has the type \"{value['type']}\"; expected one of {', '.join(TYPES)}")
        self.producer = made
        for schedule in self.schedules:
            self._check_schedule(schedule)

    def _number(self, op, index, things, what):
        if not isinstance(index, int) or not 0 <= index < len(things):
            raise RecipeError(f"{self.path}: op '{op['name']}' names {what} {index}; there are {len(things)}")
        return index

    def _check_schedule(self, schedule):
        """Every op once, and everything that it reads there before."""
        where, name = schedule["placement"], schedule["name"]
        if len(where) != len(self.ops) or any(not 0 <= device < len(self.devices) for device in where):
            raise RecipeError(f"{self.path}: schedule '{name}' does not place {len(self.ops)} ops on {len(self.devices)} devices")
        there, run = set(), set()
        for task in schedule["tasks"]:
            if isinstance(task, dict):
                if (task["tensor"], task["from"]) not in there:
                    raise RecipeError(f"{self.path}: schedule '{name}' sends tensor {task['tensor']} before it is produced")
                there.add((task["tensor"], task["to"]))
                continue
            op = self.ops[task]
            if task in run:
                raise RecipeError(f"{self.path}: schedule '{name}' runs '{op['name']}' twice")
            run.add(task)
            for tensor in read(op):
                if (tensor, where[task]) not in there:
                    raise RecipeError(
                        f"{self.path}: schedule '{name}' runs '{op['name']}' where '{self.tensors[tensor]['name']}' has not arrived")
            there.update((tensor, where[task]) for tensor in written(op))
        if len(run) != len(self.ops):
            raise RecipeError(f"{self.path}: schedule '{name}' runs {len(run)} of {len(self.ops)} ops")

    def serial(self, device):
        """All ops on one device, in the order of the first schedule, or of the file."""
        tasks = self.schedules[0]["tasks"] if self.schedules else range(len(self.ops))
        return {"name": "serial", "key": "", "placement": [device] * len(self.ops),
                "tasks": [task for task in tasks if not isinstance(task, dict)]}

    def first_numbers(self, index):
        """What an input, a parameter, a buffer or a constant begins with, on the CPU."""
        value = self.values[index]
        shape, kind = value["shape"], TYPES[value["type"]]
        count = math.prod(shape)
        for key in ("integers", "reals"):
            if key in value:
                return torch.tensor(value[key], dtype=torch.float64 if key == "reals" else torch.int64).to(kind).reshape(shape)
        if "filled" in value:
            return torch.full(shape, value["filled"], dtype=torch.float64).to(kind)
        bits = random_bits(self.seed, index, count)
        if "uniform" in value:
            numbers = value["uniform"] * (2 * ((bits >> 11) & (MASK >> 11)).double() * 2.0**-53 - 1)
        elif "normal" in value:
            numbers = normal_quantile((((bits >> 12) & (MASK >> 12)).double() + 0.5) * 2.0**-52)
        else:  # Lemire's product; a draw is rejected with probability below / 2^64, which is not looked for
            high, low = (bits >> 32) & 0xFFFFFFFF, bits & 0xFFFFFFFF
            numbers = (high * value["below"] + ((low * value["below"]) >> 32)) >> 32
        # Through 32 bits, as the cpu backend holds them.
        return (numbers.float() if numbers.is_floating_point() else numbers).to(kind).reshape(shape)

    def dropout_mask(self, node, shape, ratio):
        """Which elements stay: a number of its own for each element of each node (splitmix64)."""
        z = wrapped(((self.seed << 20) + node) & MASK) + (torch.arange(math.prod(shape)) + 1) * wrapped(0x9E3779B97F4A7C15)
        z = (z ^ shifted(z, 30)) * wrapped(0xBF58476D1CE4E5B9)
        z = (z ^ shifted(z, 27)) * wrapped(0x94D049BB133111EB)
        return (shifted(z ^ shifted(z, 31), 40).double() * 2.0**-24 >= torch.tensor(ratio, dtype=torch.float32)).reshape(shape)


def read(op):
    """Tensors that the op reads."""
    operands = op.get("reads", []) + op.get("gradients", []) + op.get("outputs", [])
    tensors = [operand["tensor"] for operand in operands if operand and "tensor" in operand]
    return tensors + (op.get("extras", []) if op["kind"] == "backward" else [])


def written(op):
    """Tensors that the op makes."""
    tensors = [part["tensor"] for result in op.get("results", []) for part in result["parts"]]
    return tensors + (op.get("extras", []) if op["kind"] == "forward" else [])


# Numbers.


def wrapped(number):
    """The signed 64 bits that hold these unsigned ones."""
    return number - (1 << 64) if number >> 63 else number


def shifted(x, by):
    """An unsigned shift to the right."""
    return (x >> by) & (MASK >> by)


def rotated(x, by):
    return (x << by) | shifted(x, 64 - by)


def split_mix(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def first_state(seed, name):
    """The four words of the stream of this name."""
    _, a = split_mix(seed)
    _, state = split_mix(a ^ ((name * 0xD1342543DE82EF95 + 1) & MASK))
    words = []
    for _ in range(4):
        state, word = split_mix(state)
        words.append(word)
    return words


def step_state(s):
    """The state after one step; words of 64 bits, low ones first in the number of 256."""
    s0, s1, s2, s3 = ((s >> (64 * i)) & MASK for i in range(4))
    t = (s1 << 17) & MASK
    s2, s3 = s2 ^ s0, s3 ^ s1
    s1, s0 = s1 ^ s2, s0 ^ s3
    s2 ^= t
    s3 = ((s3 << 45) | (s3 >> 19)) & MASK
    return s0 | s1 << 64 | s2 << 128 | s3 << 192


def times(columns, state):
    """The matrix of bits, by columns, times the state."""
    result = 0
    while state:
        low = state & -state
        result ^= columns[low.bit_length() - 1]
        state ^= low
    return result


POWERS = [[step_state(1 << bit) for bit in range(256)]]  # of the step: after 2^k steps


def power(k):
    while len(POWERS) <= k:
        POWERS.append([times(POWERS[-1], column) for column in POWERS[-1]])
    return POWERS[k]


def random_bits(seed, name, count):
    """The first `count` numbers of a stream, as signed 64 bits."""
    k = count.bit_length() // 2  # stretches of 2^k numbers, about as many of them
    columns, state, states = power(k), sum(word << (64 * i) for i, word in enumerate(first_state(seed, name))), []
    for _ in range(-(-count // (1 << k))):
        states.append([wrapped((state >> (64 * i)) & MASK) for i in range(4)])
        state = times(columns, state)
    if not states:
        return torch.zeros(0, dtype=torch.int64)
    s0, s1, s2, s3 = torch.tensor(states, dtype=torch.int64).t().contiguous().unbind()
    rows = []
    for _ in range(1 << k):
        rows.append(rotated(s0 + s3, 23) + s0)
        t = s1 << 17
        s2, s3 = s2 ^ s0, s3 ^ s1
        s1, s0 = s1 ^ s2, s0 ^ s3
        s2 = s2 ^ t
        s3 = rotated(s3, 45)
    return torch.stack(rows, 1).reshape(-1)[:count]


def polynomial(x, factors):
    result = torch.full_like(x, factors[-1])
    for factor in reversed(factors[:-1]):
        result = result * x + factor
    return result


def normal_quantile(p):
    """Quantiles of the standard normal distribution (Wichura 1988, AS 241, PPND16)."""
    q = p - 0.5
    r = 0.180625 - q * q
    middle = q * polynomial(r, (
        3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
        4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3)) / polynomial(r, (
        1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
        3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3))
    r = torch.sqrt(-torch.log(torch.where(q < 0, p, 1 - p)))
    near = polynomial(r - 1.6, (
        1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
        1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4)) / polynomial(r - 1.6, (
        1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
        1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9))
    far = polynomial(r - 5, (
        6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
        2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7)) / polynomial(r - 5, (
        1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
        1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15))
    tail = torch.where(r <= 5, near, far)
    return torch.where(q.abs() <= 0.425, middle, torch.where(q < 0, -tail, tail))
