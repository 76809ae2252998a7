"""How ops on parts of one GPU slow each other: each of several classes alone on the first device, and beside each class
on one and on all of the others, which share its memory.

The result is a profile (trainyard-profile/1) whose rows beside others say what these read and write in that time
(`copied_bytes_per_s`): `trainyard calibrate` makes `interference` of it. On CPUs a rehearsal."""
import math
import time

import torch

from executors import Task
from measure import header, host, samples
from recipe import RecipeError


def classes(device, large):
    """By operator type: an op's call on buffers of its own, its FLOPs and its bytes. `large`: for a GPU."""
    side, rows, batch = (2048, 16384, 32) if large else (64, 64, 1)
    new = lambda *shape: torch.randn(*shape, device=device)

    def op(call, flops, *arrays):
        return call, flops, sum(each.numel() * each.element_size() for each in arrays)

    a, b, c = new(side, side), new(side, side), new(side, side)
    yield "MatMul", op(lambda: torch.mm(a, b, out=c), 2 * side**3, a, b, c)
    image, weight = new(batch, 64, 56, 56), new(64, 64, 3, 3)
    yield "Conv", op(lambda: torch.conv2d(image, weight, padding=1), 2 * 9 * 64 * image.numel(), image, weight, image)
    ones, zeros = torch.ones(64, device=device), torch.zeros(64, device=device)
    yield "BatchNormalization", op(lambda: torch.native_batch_norm(image, ones, zeros, None, None, True, 0.1, 1e-5),
                                   8 * image.numel(), image, image)
    x, y, z = new(rows, 1024), new(rows, 1024), new(rows, 1024)
    yield "Relu", op(lambda: torch.clamp_min(x, 0, out=y), x.numel(), x, y)
    yield "Add", op(lambda: torch.add(x, y, out=z), x.numel(), x, y, z)
    yield "Softmax", op(lambda: torch.softmax(x, 1), 5 * x.numel(), x, x)
    gain, bias = torch.ones(1024, device=device), torch.zeros(1024, device=device)
    yield "LayerNormalization", op(lambda: torch.layer_norm(x, [1024], gain, bias), 8 * x.numel(), x, x)
    yield "ReduceSum", op(lambda: x.sum(0), x.numel(), x)


def corun(machine, seconds=60.0, calls=8, steps=3):
    devices = machine.recipe.devices
    if len(devices) < 2:
        raise RecipeError(f"{machine.recipe.path}: its one device has no neighbours; "
                          "export the recipe for a cluster of several devices")
    found = header(machine.recipe, "trainyard-profile/1")
    found.pop("graph"), found.pop("cluster")
    found.update(name="corun", host=host(), links=[], overheads=[], steps=[], ops=[],
                 devices=[dict(device, backend="torch", details=machine.details()) for device in devices])
    own = [dict(classes(machine.device, machine.cuda)) for _ in devices]  # buffers of each device's own
    alone, until = {}, time.monotonic() + seconds

    def beside(kind, other, neighbours):
        """Times of ops of `kind` while neighbours ran `other` all along, and the bytes a second of these."""
        call, _, _ = own[0][kind]
        count = min(200, math.ceil(1.5 * calls * alone[kind] / alone[other]) + 1) if neighbours else 0
        tasks = [Task(("device", k), own[k][other][0]) for k in range(1, neighbours + 1) for _ in range(count)]
        first = len(tasks)
        tasks += [Task(("device", 0), call) for _ in range(calls)]
        executor, times, dropped, spans = machine.executor(tasks), [], [], []
        for i in range(1 + steps):
            taken = executor.step()
            if i == 0:
                continue
            ends = [max(end for _, end in taken.spans[k * count:(k + 1) * count]) for k in range(neighbours)]
            for begin, end in taken.spans[first:]:
                if taken.dropped:
                    dropped.append((end - begin, taken.dropped))
                elif all(end <= last for last in ends):
                    times.append(end - begin)
            spans += taken.spans[:first]
        executor.close()
        return times, dropped, neighbours * own[0][other][2] / (sum(e - b for b, e in spans) / len(spans) * 1e-9) if spans else 0

    def add(kind, times, dropped, more):
        if times:
            _, flops, size = own[0][kind]
            found["ops"].append({"graph": "corun", "op": kind, "type": kind, "signature": f"corun {kind}", "device": devices[0]["name"],
                                 "mode": "step", "flops": flops, "bytes": size, "source": "event" if machine.cuda else "host",
                                 **samples(times, dropped), **more})

    for kind in own[0]:
        times, dropped, _ = beside(kind, None, 0)
        alone[kind] = sorted(times)[len(times) // 2] if times else 1
        add(kind, times, dropped, {})
    for neighbours in sorted({1, len(devices) - 1}):
        for kind in own[0]:
            for other in own[0]:
                if time.monotonic() > until:
                    return found
                times, dropped, rate = beside(kind, other, neighbours)
                add(kind, times, dropped, {"copied_bytes_per_s": rate, "details": {"beside": f"{neighbours} x {other}"}})
    return found
