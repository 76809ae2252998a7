"""From PyTorch to Trainyard and back, in one file that needs only the standard library and torch (1.13 to 2.x).

    from trainyard_torch import export, profile, apply, split_points

    export(model, (images,), "model.json", optimizer="adam")  # then: trainyard place model.json --cluster 2xV100 ...
    profile(model, (images,), "traces")                       # then: trainyard import traces/et.json --times ...
    apply(model, "map.json")                                  # from trainyard export schedule.json --to device-map ...
    split_points("pipeline.json")                             # from trainyard export plan.json --to torch-pipelining
"""
import contextlib
import copy
import inspect
import json
import math
import operator
import pathlib
import warnings

import torch

__all__ = ["apply", "export", "profile", "split_points"]

#: Bytes of optimizer state for each byte of parameters.
OPTIMIZERS = {"none": 0, "sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
#: Views that ATen's schemas do not mark as views.
UNMARKED_VIEWS = {"_unsafe_view", "alias", "lift_fresh_copy"}


def export(model, example_inputs, path=None, *, loss=None, optimizer="adam", name=None):
    """Writes one training step of the model as a graph without weights (trainyard-graph/1), and returns its path.

    torch.fx traces the step without computing (make_fx with fake tensors; with real tensors if that fails, as for
    nn.LSTM in torch 1.13): forward, loss and backward pass op by op, and an update for each parameter. A model that
    torch.fx cannot trace is written as ONNX instead; the returned path ends in .json or .onnx accordingly.

    example_inputs: a tensor, a tuple of positional or a dict of keyword arguments, in the shapes of one step's batch.
    path: default NAME.json. loss: a function from the model's outputs to a scalar (default: the output's .loss, else
    the sum of the means of all floating tensors). optimizer: "sgd", "momentum", "adam", "adamw", or "none" for the
    forward pass alone.
    Raises ValueError if the optimizer is unknown or no parameter requires a gradient, and RuntimeError if the model can
    neither be traced nor written as ONNX.
    """
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer '{optimizer}' is not one of {', '.join(OPTIMIZERS)}")
    name = name or type(model).__name__.lower()
    path = pathlib.Path(path or f"{name}.json")
    args, kwargs = _arguments(example_inputs)
    parameters = dict(model.named_parameters())
    if optimizer != "none" and not any(p.requires_grad for p in parameters.values()):
        raise ValueError(f"no parameter of '{name}' requires a gradient: give optimizer='none' for the forward pass alone")
    failures = []
    for mode in ("fake", "real"):
        try:
            nodes, names = _trace(model, args, kwargs, loss or _mean_of, optimizer != "none", mode)
        except Exception as error:  # any failure: the next way is tried, and all failures are reported at the end
            failures.append(f"make_fx ({mode} tensors): {error}")
            continue
        ops = _Ops(model, nodes, names, optimizer).ops()
        path.write_text(_graph_text(name, ops), encoding="utf-8")
        return path
    path = path.with_suffix(".onnx")
    warnings.warn(f"'{name}' is written as ONNX, because torch.fx cannot trace it. " + "; ".join(failures))
    try:
        torch.onnx.export(model, (*args, kwargs) if kwargs else args, str(path), export_params=False, opset_version=16,
                          do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING)
    except Exception as error:
        raise RuntimeError("\n".join([f"'{name}' cannot be traced", *failures, f"ONNX: {error}"])) from error
    return path


def profile(model, example_inputs, folder=".", *, loss=None, optimizer=None, warmup=3):
    """Runs `warmup` training steps and one more under torch's profiler; writes execution and Kineto traces.

    Returns the two paths; the second is None if this torch has no Kineto (as Debian's). Both traces cover one window,
    so that `trainyard import et.json --times kineto.json` links every kernel. optimizer: a torch.optim.Optimizer
    (default: SGD with a learning rate of 0, so that the weights do not change).
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    args, kwargs = _arguments(example_inputs)
    loss = loss or _mean_of
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.0)
    observer_type = getattr(torch.profiler, "ExecutionTraceObserver", None) or torch.profiler.ExecutionGraphObserver

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(model(*args, **kwargs)).backward()
        optimizer.step()

    for _ in range(warmup):
        step()
    traces = folder / "et.json", folder / "kineto.json"
    observer = observer_type()
    observer.register_callback(str(traces[0]))
    kineto = torch.profiler.kineto_available()
    with contextlib.ExitStack() as stack:
        profiler = stack.enter_context(torch.profiler.profile(record_shapes=True)) if kineto else None
        observer.start()
        with torch.profiler.record_function("ProfilerStep#0"):
            step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        observer.stop()
    observer.unregister_callback()
    if profiler is None:
        return traces[0], None
    profiler.export_chrome_trace(str(traces[1]))
    return traces


def apply(model, schedule, *, devices=None):
    """Moves the model's modules to the devices of a device map, adds hooks that move their inputs, returns the model.

    schedule: a dict {module path: device}, or a file of one (`trainyard export schedule.json --to device-map`). A key
    covers a module and all modules below it, "" the whole model; the longest matching key decides. A key may also name
    a single parameter or buffer. Devices are GPU numbers, "cpu", or anything that torch.device accepts; `devices`
    replaces number k by devices[k]. Keys that the graph has and the model does not ("loss") are ignored. A module whose
    own code combines results of submodules (a residual block) must be under one key.
    Raises ValueError if no key covers a parameter, or if the file is not a device map.
    """
    if not isinstance(schedule, dict):
        schedule = _read(schedule)
        if "format" in schedule:
            raise ValueError(f"a file of the format '{schedule['format']}' names ops, not modules: convert it "
                             "to a device map with `trainyard export FILE --to device-map -o map.json`")

    def device_of(module):
        prefix = module
        while prefix not in schedule:
            if not prefix:
                return None
            prefix = prefix.rpartition(".")[0]
        word = schedule[prefix]
        if isinstance(word, str) and word.isdigit():
            word = int(word)
        if isinstance(word, int):
            word = devices[word] if devices else f"cuda:{word}"
        return torch.device(word)

    bare = [path for path, _ in model.named_parameters() if device_of(path) is None]
    if bare:
        raise ValueError(f"the device map does not cover {', '.join(bare[:5])}" +
                         (f" and {len(bare) - 5} more" if bare[5:] else ""))
    named = dict(model.named_modules())
    for path, module in named.items():
        _move_own(module, lambda key, path=path: device_of(f"{path}.{key}" if path else key))
        own = device_of(path)
        if own is None:
            continue
        inside = [device_of(f"{path}.{child}" if path else child) for child, _ in module.named_modules() if child]
        if all(device == own for device in inside) or any(True for _ in module.parameters(recurse=False)):
            _bring_inputs(module, own)
    return model


def split_points(plan):
    """The split spec for torch.distributed.pipelining.pipeline(): {module path: SplitPoint}.

    plan: a file of `trainyard export plan.json --to torch-pipelining`, or a plan (`trainyard place --plan-out`). If
    this torch has no torch.distributed.pipelining, the values are "BEGINNING" and "END".
    Raises ValueError if the file is neither a split spec nor a plan.
    """
    said = _read(plan)
    if said.get("format") == "trainyard-plan/1":
        words = {stage["from"]: "BEGINNING" for stage in said.get("stages", [])[1:]}
    elif said.get("format") == "trainyard-split/1":
        words = said["splits"]
    else:
        raise ValueError(f"'{plan}' is neither a plan nor a split spec")
    try:
        from torch.distributed.pipelining import SplitPoint
    except ImportError:
        return words
    return {module: SplitPoint[word] for module, word in words.items()}


# --- helpers of all four functions ---


def _read(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def _arguments(example_inputs):
    if isinstance(example_inputs, dict):
        return (), example_inputs
    return (tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)), {}


def _tensors(value):
    if torch.is_tensor(value):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for each in value for t in _tensors(each)] if isinstance(value, (list, tuple)) else []


def _mean_of(outputs):
    if torch.is_tensor(getattr(outputs, "loss", None)):
        return outputs.loss
    means = [t.mean() for t in _tensors(outputs) if t.is_floating_point()]
    if not means:
        raise ValueError("the model returns no floating-point tensor: give loss=")
    return sum(means[1:], means[0])


def _moved(value, device):
    if hasattr(value, "to"):  # a tensor, a PackedSequence, a batch of tokens
        return value.to(device)
    if isinstance(value, dict):
        moved = copy.copy(value)  # keeps the dict's class, such as a ModelOutput
        for key, each in value.items():
            moved[key] = _moved(each, device)
        return moved
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(each, device) for each in value))
    return type(value)(_moved(each, device) for each in value) if isinstance(value, (list, tuple)) else value


def _bring_inputs(module, device):
    if "with_kwargs" in inspect.signature(module.register_forward_pre_hook).parameters:  # torch 2
        module.register_forward_pre_hook(lambda _, args, kwargs: (_moved(args, device), _moved(kwargs, device)),
                                         with_kwargs=True)
    else:
        module.register_forward_pre_hook(lambda _, args: _moved(args, device))


def _move_own(module, device_of):
    """Moves the parameters and buffers of the module itself, not of its submodules, to device_of(key) if not None.

    A parameter remains one object, which keeps ties and optimizers valid, if torch can move its data (not to "meta").
    """
    for key, parameter in module._parameters.items():
        device = device_of(key) if parameter is not None else None
        if device is None or parameter.device == device:
            continue
        moved = parameter.detach().to(device)
        try:
            parameter.data = moved
        except RuntimeError:
            module._parameters[key] = torch.nn.Parameter(moved, parameter.requires_grad)
    for key, buffer in module._buffers.items():
        device = device_of(key) if buffer is not None else None
        if device is not None:
            module._buffers[key] = buffer.to(device)


# --- export ---


@contextlib.contextmanager
def _module_marks(model):
    """Marks every node that torch.fx creates meanwhile with the module whose forward() runs, in meta["module"]."""
    stack, handles = [""], []
    create = torch.fx.Graph.create_node

    def marked(self, *args, **kwargs):
        node = create(self, *args, **kwargs)
        node.meta["module"] = stack[-1]
        return node

    def leave(*_):
        stack.pop()

    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda _, __, path=path: stack.append(path)))
        handles.append(module.register_forward_hook(leave))
    torch.fx.Graph.create_node = marked
    try:
        yield
    finally:
        torch.fx.Graph.create_node = create
        for handle in handles:
            handle.remove()


def _trace(model, args, kwargs, loss, training, mode):
    """The nodes of the step's graph, and a dict from those of parameters and buffers to their names."""
    from torch.fx.experimental.proxy_tensor import make_fx
    try:
        from torch.func import functional_call
    except ImportError:
        from torch.nn.utils.stateless import functional_call
    if mode == "real":  # a real run updates running statistics
        model = copy.deepcopy(model)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    own = [p.detach().requires_grad_(p.requires_grad) for p in parameters.values()]
    held = [b.detach().clone() for b in buffers.values()]

    def results(outputs, trained):
        if not training:
            return _tensors(outputs)
        result = loss(outputs)
        return [result, *torch.autograd.grad(result, [p for p in trained if p.requires_grad], allow_unused=True)]

    def step(own, held, inputs, named):
        values = {**dict(zip(parameters, own)), **dict(zip(buffers, held))}
        return results(functional_call(model, values, tuple(inputs), named), own)

    def step_of_itself(inputs, named):  # for modules that keep references to their parameters, such as nn.LSTM
        return results(model(*inputs, **named), parameters.values())

    with _module_marks(model), (contextlib.nullcontext() if training else torch.no_grad()):
        if mode == "real":
            traced = make_fx(step_of_itself, tracing_mode=mode)(list(args), dict(kwargs))
        else:
            traced = make_fx(step, tracing_mode=mode)(own, held, list(args), dict(kwargs))
    nodes = list(traced.graph.nodes)
    names = dict(zip((n for n in nodes if n.op == "placeholder"), [*parameters, *buffers])) if mode != "real" else {}
    known = {id(t): name for name, t in [*parameters.items(), *buffers.items()]}
    for node in nodes:
        if node.op == "get_attr":
            names[node] = known.get(id(getattr(traced, node.target, None)), "")
    if mode != "real" and any(n.op == "get_attr" and names[n] in parameters for n in nodes):
        raise RuntimeError("a module keeps references to its parameters")
    return nodes, names


def _value(node):
    """The metadata with shape and dtype of a node's tensor; None if the node has several tensors or none."""
    for key in ("val", "tensor_meta"):
        value = node.meta.get(key)
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return value
    return None


def _bytes(value):
    return math.prod(int(d) for d in value.shape) * torch.empty((), dtype=value.dtype).element_size()


def _layer(path):
    """The path with "/" after its first number, where the block ends: "layers.4/norm" for "layers.4.norm"."""
    parts = path.split(".")
    end = next((i + 1 for i, part in enumerate(parts) if part.isdigit()), len(parts))
    return ".".join(parts[:end]) + ("/" + ".".join(parts[end:]) if parts[end:] else "")


def _flops(op, args, inputs, outputs):
    """FLOPs of a call with the arguments `args`; `inputs` are its tensors in order, with repetitions."""
    size = lambda value: math.prod(int(d) for d in value.shape)
    if op in ("mm", "bmm") and len(inputs) > 1:
        return 2 * size(outputs[0]) * int(inputs[0].shape[-1])
    if op in ("addmm", "baddbmm") and len(inputs) > 2:
        return 2 * size(outputs[0]) * int(inputs[1].shape[-1])
    if op in ("mv", "dot"):
        return 2 * size(inputs[0])
    if op == "convolution":  # multiplied: each input element if transposed, else each output element
        return 2 * size(inputs[0] if args[6] else outputs[0]) * size(inputs[1]) // int(inputs[1].shape[0])
    if op == "convolution_backward":
        each = 2 * size(inputs[1] if args[7] else inputs[0]) * size(inputs[2]) // int(inputs[2].shape[0])
        return each * (bool(args[10][0]) + bool(args[10][1]))
    if op.startswith("_scaled_dot_product") and len(inputs) > 2:
        queries = inputs[1] if op.endswith("backward") else inputs[0]
        keys = inputs[2] if op.endswith("backward") else inputs[1]
        return (10 if op.endswith("backward") else 4) * size(queries) * int(keys.shape[-2])
    return sum(size(value) for value in outputs)


class _Ops:
    """A traced step as ops of trainyard-graph/1. Views share their base's storage; in-place ops make new versions."""

    def __init__(self, model, nodes, names, optimizer):
        self.nodes, self.names, self.optimizer = nodes, names, optimizer
        self.parameters = dict(model.named_parameters())
        self.result = [n for n in self.nodes if n.op == "output"][0].args[0]
        self.storage = {}  # node -> storage, or a list of storages
        self.current = {}  # storage -> current tensor in it; None: a parameter or buffer
        self.owner = {}  # storage -> parameter
        self.own = {}  # storage -> parameter or buffer
        self.size = {}  # storage -> bytes
        self.group = {p: p for p in self.parameters}
        self.made = []

    def ops(self):
        self._inputs()
        last = self.result[0] if self.optimizer != "none" else None
        while last is not None and last.op == "call_function" and last.target is operator.getitem:
            last = last.args[0]
        phase = "forward"
        for node in self.nodes:
            if node.op == "call_function":
                self._take(node, phase)
            if node is last:
                phase = "backward"
        if self.optimizer != "none":
            self._updates()
        held = {key for op in self.made if op.get("phase") == "update" for key in op["touches"]}
        for op in self.made:
            touched = op.pop("touches")
            if not touched:
                continue
            op["colocate"] = self._root(touched[0])
            frozen = [self.parameters[key] for key in touched if key not in held]  # parameters without an update
            if frozen:
                op["parameter_bytes"] = sum(p.numel() * p.element_size() for p in frozen)
                held.update(touched)
        return self.made

    def _root(self, parameter):
        while self.group[parameter] != parameter:
            parameter = self.group[parameter]
        return parameter

    def _inputs(self):
        """Parameters, buffers and constants are no tensors of the graph; an Input op produces every other input."""
        for node in self.nodes:
            if node.op == "get_attr" or node in self.names:
                self.storage[node], self.current[node.name] = node.name, None
                if _value(node) is not None:
                    self.size[node.name] = _bytes(_value(node))
                if self.names.get(node):
                    self.own[node.name] = self.names[node]
                if self.names.get(node) in self.parameters:
                    self.owner[node.name] = self.names[node]
            elif node.op == "placeholder" and _value(node) is not None:
                self.storage[node], self.current[node.name] = node.name, node.name
                self.size[node.name] = _bytes(_value(node))
                self.made.append({"name": "input." + node.name, "type": "Input", "touches": [],
                                  "outputs": [{"name": node.name, "bytes": _bytes(_value(node))}]})

    def _storages(self, node):
        storage = self.storage.get(node)
        return storage if isinstance(storage, list) else [] if storage is None else [storage]

    def _take(self, node, phase):
        if node.target is operator.getitem:
            of = self.storage.get(node.args[0])
            self.storage[node] = of[node.args[1]] if isinstance(of, list) else of
            return
        inputs = [n for n in node.all_input_nodes if n in self.storage]
        schema = getattr(node.target, "_schema", None)
        kind = schema.name.split("::")[-1] if schema else getattr(node.target, "__name__", str(node.target))
        returns = [r.alias_info for r in schema.returns] if schema else []
        written = any(a is not None and a.is_write for a in returns) or (kind.endswith("_") and not kind.startswith("__"))
        if inputs and not written and (kind in UNMARKED_VIEWS or any(a is not None for a in returns)):
            self.storage[node] = self.storage[inputs[0]]
            return
        value = _value(node)
        parts = {u.args[1]: _value(u) for u in node.users if u.target is operator.getitem}
        if value is None and not parts and kind.startswith("sym_"):
            return
        read = [s for n in inputs for s in self._storages(n)]
        op = {"name": node.name, "type": kind.rstrip("_") or kind, "phase": phase,
              "inputs": sorted({self.current[s] for s in read if self.current[s] is not None}), "outputs": [],
              "touches": sorted({self.owner[s] for s in read if s in self.owner})}
        for parameter in op["touches"][1:]:
            self.group[self._root(parameter)] = self._root(op["touches"][0])
        if node.meta.get("module"):
            op["layer"] = _layer(node.meta["module"])
        elif own := sorted(self.own[s] for s in read if s in self.own):  # in the model's own forward()
            op["layer"] = _layer(own[0].rpartition(".")[0] or own[0])
        if written and inputs:  # the storage that the view belongs to has a new version
            self.storage[node] = self.storage[inputs[0]]
            self._make(op, node.name, self._storages(inputs[0])[0], _value(inputs[0]))
        elif value is not None:
            self.storage[node] = node.name
            self._make(op, node.name, node.name, value)
        else:
            names = [f"{node.name}.{i}" for i in range(1 + max(parts, default=-1))]
            self.storage[node] = names
            for i, name in enumerate(names):
                self._make(op, name, name, parts.get(i))
        shapes = [v for v in map(_value, inputs) if v is not None]
        results = [v for v in [value, *parts.values()] if v is not None]
        arguments = []
        torch.fx.node.map_arg((node.args, node.kwargs), lambda n: arguments.append(_value(n)) if n in self.storage else None)
        arguments = [v for v in arguments if v is not None]
        op["flops"] = float(_flops(op["type"], node.args, arguments, results)) if results else 0.0
        op["bytes_accessed"] = sum(map(_bytes, shapes)) + sum(map(_bytes, results))
        op["signature"] = " ".join([op["type"], *(f"{str(v.dtype).split('.')[1]}[{','.join(map(str, v.shape))}]" for v in shapes)])
        self.made.append(op)

    def _make(self, op, tensor, storage, value):
        self.size.setdefault(storage, _bytes(value) if value is not None else 0)
        op["outputs"].append({"name": tensor, "bytes": self.size[storage]})
        self.current[storage] = tensor

    def _updates(self):
        trained = [(key, p) for key, p in self.parameters.items() if p.requires_grad]
        for (key, parameter), gradient in zip(trained, self.result[1:]):
            if not hasattr(gradient, "op"):  # the loss does not depend on the parameter
                continue
            size = parameter.numel() * parameter.element_size()
            state = OPTIMIZERS[self.optimizer] * size
            self.made.append({"name": "update." + key, "type": self.optimizer, "phase": "update", "touches": [key],
                              "layer": _layer(key.rpartition(".")[0]),
                              "inputs": sorted({self.current[s] for s in self._storages(gradient) if self.current[s]}),
                              "outputs": [], "flops": float(parameter.numel() * (2 + 5 * OPTIMIZERS[self.optimizer])),
                              "bytes_accessed": 3 * size + 2 * state, "parameter_bytes": size, "state_bytes": state})


def _graph_text(name, ops):
    lines = ",\n  ".join(json.dumps(op) for op in ops)
    return f'{{"format": "trainyard-graph/1", "name": {json.dumps(name)}, "ops": [\n  {lines}]}}\n'
