"""What PyTorch's own profiler tells of a recipe's training step: forward pass by our interpreter, backward pass by
torch.autograd and updates by torch.optim, as users have them. For `trainyard import ET --times KINETO`."""
import gzip
import pathlib
import shutil
import sys
import tempfile

import torch

here = pathlib.Path(__file__).resolve().parent
sys.path += [str(here), str(here.parent), str(here.parent.parent / "sim" / "tools")]  # where it is installed; in the tree
import trainyard_torch
from program import FIRST_DECAY, LEARNING_RATE, MOMENTUM, SECOND_DECAY, forward


class Network(torch.nn.Module):
    """A recipe's forward pass; its parameters are those that the recipe updates."""

    def __init__(self, program):
        super().__init__()
        self.program = program
        updated = sorted({op["value"] for op in program.recipe.ops if op["kind"] == "update"})
        self.weights = torch.nn.ParameterDict(
            {str(i): torch.nn.Parameter(program.held(program.at[0], i).detach().clone()) for i in updated})

    def forward(self):
        return forward(self.program, {int(i): weights for i, weights in self.weights.items()})


def optimizer(name, parameters):
    if name == "adam":
        return torch.optim.Adam(parameters, LEARNING_RATE, (FIRST_DECAY, SECOND_DECAY))
    return torch.optim.SGD(parameters, LEARNING_RATE, MOMENTUM if name == "momentum" else 0)


def trace(machine, folder, name):
    """Writes NAME.et.json.gz, and NAME.kineto.json.gz where this torch has Kineto; returns their paths."""
    network, written = Network(machine.program), []
    with tempfile.TemporaryDirectory() as there:
        traces = trainyard_torch.profile(network, (), there, loss=lambda loss: loss,
                                         optimizer=optimizer(machine.recipe.optimizer, list(network.parameters())))
        for kind, path in zip(("et", "kineto"), traces):
            if path is None:
                continue
            written.append(pathlib.Path(folder) / f"{name}.{kind}.json.gz")
            with open(path, "rb") as whole, gzip.open(written[-1], "wb") as packed:
                shutil.copyfileobj(whole, packed)
    return written
