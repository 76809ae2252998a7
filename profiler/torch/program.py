"""The interpreter of a recipe: what StepProgram (profiler/kernels/step_program.hpp) is for Trainyard's own executors.

Tensors live in one dictionary for each device of the cluster; parameters, buffers and constants once for each PyTorch
device that reads them. New parameters come into force between steps (`commit`), so that a step may be run again and
again with the same numbers.
"""
import torch

import kernels
from recipe import TYPES, RecipeError, read

LEARNING_RATE, MOMENTUM, FIRST_DECAY, SECOND_DECAY, EPSILON = 1e-3, 0.9, 0.9, 0.999, 1e-8


class Place:
    """What stands on one PyTorch device: values by number, and masks of dropout."""

    def __init__(self, recipe, device):
        self.recipe, self.device, self.values, self.masks = recipe, device, {}, {}

    def mask(self, node, shape, ratio):
        if node not in self.masks:
            self.masks[node] = self.recipe.dropout_mask(node, shape, ratio).to(self.device)
        return self.masks[node]


class Program:
    """`devices`: of each device of the cluster, the PyTorch device that stands for it. Raises RecipeError where an op
    has no kernel here."""

    def __init__(self, recipe, devices):
        self.recipe = recipe
        self.places = {device: Place(recipe, device) for device in devices}
        self.at = [self.places[device] for device in devices]
        self.first = {}  # on the CPU
        missing = sorted({recipe.nodes[op["node"]]["type"] for op in recipe.ops if "node" in op} - set(kernels.FORWARD))
        if missing:
            raise RecipeError(f"{recipe.path}: no kernel for {', '.join(missing)}")
        self.runs = [getattr(self, "_" + op["kind"]) for op in recipe.ops]
        self.calls = [kernels.Call(recipe, op["node"], None) if "node" in op else None for op in recipe.ops]
        self.loss_outputs = {i for i, op in enumerate(recipe.ops) if op["kind"] == "forward" and recipe.loss is not None
                             and recipe.nodes[op["node"]]["outputs"][0] == recipe.loss}
        self.reset()

    def reset(self):
        """Parameters, state and inputs as before the first step."""
        self.loss, self.gradients, self.next, self.moments, self.steps = None, {}, {}, {}, 0
        for place in self.places.values():
            place.values.clear()
        self._correct()

    def held(self, place, index):
        if index not in place.values:
            if index not in self.first:
                self.first[index] = self.recipe.first_numbers(index)
            place.values[index] = self.first[index].to(place.device, copy=True)
        return place.values[index]

    def run(self, op, where, tensors):
        """Runs op number `op` on cluster device `where`; `tensors` has what it reads there, and gets what it makes."""
        self.runs[op](op, self.recipe.ops[op], self.at[where], tensors)

    def commit(self):
        """Ends a step: updated parameters come into force."""
        self.steps += 1
        for index, (weights, _) in self.next.items():
            for place in self.places.values():
                if index in place.values:
                    place.values[index].copy_(weights)
        self._correct()

    def parameters(self):
        """Numbers of each, by name, on the CPU."""
        return {value["name"]: self.held(next(iter(self.places.values())), i).float().cpu()
                for i, value in enumerate(self.recipe.values) if value["role"] == "parameter" and "shape" in value}

    # Reading and writing.

    def _read(self, operand, place, tensors):
        if operand is None:
            return None
        array = self.held(place, operand["value"]) if "value" in operand else tensors[operand["tensor"]]
        return self._seen(operand.get("views", ()), array)

    @staticmethod
    def _seen(views, array):
        """Through the steps: the same memory but where elements go back to their places."""
        for view in views:
            if "strides" in view:
                array = array.contiguous()
                array = array.as_strided(view["shape"], view["strides"], array.storage_offset() + view["offset"])
            elif "to" in view:
                whole, to = array.new_empty(view["shape"]), view["to"]
                whole.as_strided(to["shape"], to["strides"], to["offset"]).copy_(array.reshape(to["shape"]))
                array = whole
            else:
                array = array.reshape(view["shape"])
        return array

    def _deliver(self, op, results, tensors):
        for result in op.get("results", ()):
            array = results[result["position"]].reshape(result["shape"])
            for part in result["parts"]:
                seen = self._seen(part.get("views", ()), array)
                told = self.recipe.tensors[part["tensor"]]
                tensors[part["tensor"]] = seen.reshape(told["shape"]).to(TYPES[told["type"]]).contiguous()

    # The kinds of op.

    def _input(self, _, op, place, tensors):
        self._deliver(op, [self.held(place, op["value"])], tensors)

    def _add(self, _, op, place, tensors):
        self._deliver(op, [self._read(op["reads"][0], place, tensors) + self._read(op["reads"][1], place, tensors)], tensors)

    def _sum(self, _, op, place, tensors):
        shape = op["results"][0]["shape"]
        self._deliver(op, [self._read(op["reads"][0], place, tensors).sum_to_size(shape)], tensors)

    def _scatter(self, _, op, place, tensors):
        whole = None
        for operand, to in zip(op["reads"], op["places"]):
            array = self._read(operand, place, tensors)
            if array is None:
                continue
            if whole is None:
                whole = array.new_zeros(op["results"][0]["shape"])
            whole.as_strided(to["shape"], to["strides"], to["offset"]).add_(array.reshape(to["shape"]))
        self._deliver(op, [whole], tensors)

    def _forward(self, index, op, place, tensors):
        c = self.calls[index]
        c.place, c.kept = place, ()
        c.inputs = [self._read(operand, place, tensors) for operand in op["reads"]]
        outputs = kernels.run_forward(c)
        self._deliver(op, outputs, tensors)
        for extra in op.get("extras", ()):  # one at most: all that is kept
            tensors[extra] = c.kept
        if index in self.loss_outputs:
            self.loss = outputs[0]
        c.inputs, c.kept = [], ()

    def _backward(self, index, op, place, tensors):
        c, node = self.calls[index], self.recipe.nodes[op["node"]]
        c.place = place
        c.kept = tensors[op["extras"][0]] if op.get("extras") else ()
        reads, outputs = op.get("reads", ()), op.get("outputs", ())
        c.inputs = [self._read(operand, place, tensors) for operand in reads]
        c.inputs += [None] * (len(node["inputs"]) - len(c.inputs))
        c.outputs = [self._read(operand, place, tensors) for operand in outputs]
        c.dy = [self._read(operand, place, tensors) for operand in op.get("gradients", ())]
        if all(dy is None for dy in c.dy):  # where gradients start
            kind = TYPES[self.recipe.values[node["outputs"][0]]["type"]]
            c.dy = [torch.ones(c.out_shape(), dtype=kind, device=place.device)] + c.dy[1:]
        c.wants = [result["position"] for result in op["results"]]
        self._deliver(op, kernels.run_backward(c), tensors)
        c.inputs, c.outputs, c.dy, c.kept = [], [], [], ()

    # Updates. Parameters of 2 bytes have a copy of 4 bytes in the state.

    def _correct(self):
        """Adam's bias corrections at the coming update."""
        step = self.steps + 1
        for place in self.places.values():
            place.corrections = torch.tensor([1 - FIRST_DECAY**step, 1 - SECOND_DECAY**step], device=place.device).unbind()

    def _update(self, _, op, place, tensors):
        index, gradient = op["value"], self._read(op["reads"][0], place, tensors)
        self.gradients[index] = gradient
        weights = self.held(place, index)
        if index not in self.next:
            master = weights.float().clone()
            self.next[index] = (torch.empty_like(weights), master)
            self.moments[index] = [torch.zeros_like(master) for _ in range({"momentum": 1, "adam": 2}.get(self.recipe.optimizer, 0))]
        new, master = self.next[index]
        g, moments, rate = gradient.reshape(weights.shape).float(), self.moments[index], LEARNING_RATE
        old = weights if weights.dtype == torch.float32 else master
        if self.recipe.optimizer == "adam":
            first, second = place.corrections
            moments[0].mul_(FIRST_DECAY).add_(g, alpha=1 - FIRST_DECAY)
            moments[1].mul_(SECOND_DECAY).addcmul_(g, g, value=1 - SECOND_DECAY)
            moved = old - rate / first * moments[0] / ((moments[1] / second).sqrt() + EPSILON)
        elif self.recipe.optimizer == "momentum":
            moments[0].mul_(MOMENTUM).add_(g)
            moved = old - rate * moments[0]
        else:
            moved = torch.sub(old, g, alpha=rate)
        if weights.dtype != torch.float32:
            master.copy_(moved)
        new.copy_(moved)


def run_serially(program, schedule, where, clock=None, release=True):
    """All ops one after the other on cluster device `where`. Returns (tensors, spans in clock's units)."""
    recipe, tensors, spans = program.recipe, {}, {}
    left = {}
    if release:
        for op in recipe.ops:
            for tensor in set(read(op)):
                left[tensor] = left.get(tensor, 0) + 1
    for task in schedule["tasks"]:
        begin = clock() if clock else 0
        program.run(task, where, tensors)
        if clock:
            spans[task] = (begin, clock())
        for tensor in set(read(recipe.ops[task])) if release else ():
            left[tensor] -= 1
            if left[tensor] == 0:
                del tensors[tensor]
    return tensors, spans


def forward(program, parameters):
    """The loss of the forward ops, from which torch.autograd can go back, with these parameters by number."""
    recipe, tensors, place = program.recipe, {}, program.at[0]
    if recipe.loss is None:
        raise RecipeError(f"{recipe.path}: the recipe is forward only and has no gradients; "
                          "export it again without --training none")
    saved = dict(place.values)
    place.values.update(parameters)
    with torch.enable_grad():
        for task in recipe.serial(0)["tasks"]:
            if recipe.ops[task]["kind"] in ("input", "forward") and all(t in tensors for t in read(recipe.ops[task])):
                program.run(task, 0, tensors)
    place.values = saved
    return program.loss.sum()


def autograd_gradients(program):
    """(loss, gradients by parameter) of the forward ops by torch.autograd: what the backward ops are held against."""
    recipe, place = program.recipe, program.at[0]
    leaves = {i: program.held(place, i).detach().clone().requires_grad_() for i, value in enumerate(recipe.values)
              if value["role"] == "parameter" and "shape" in value}
    loss = forward(program, leaves)
    used = [i for i in leaves if i in {op["value"] for op in recipe.ops if op["kind"] == "update"}]
    gradients = torch.autograd.grad(loss, [leaves[i] for i in used], allow_unused=True)
    return float(loss), {i: torch.zeros_like(leaves[i]) if g is None else g for i, g in zip(used, gradients)}
