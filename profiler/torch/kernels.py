"""What operators compute, by PyTorch's own kernels: forward, and backward as far as a training step asks for it.

FORWARD[type](c) returns the outputs by position; BACKWARD[type](c) returns the wanted gradients by input position.
A type without an entry in BACKWARD has its gradient from autograd, which runs the forward op once more (`recomputes`).
Types and attributes are ONNX's, and Linear, Gelu and SoftmaxCrossEntropy besides.
"""
import math

import torch
from torch.nn import functional

from recipe import TYPES

aten = torch.ops.aten


class Unsupported(Exception):
    """An operator, or an attribute of one, without a kernel here."""


class Call:
    """Arguments of one op. An entry None is not given, or not read by this op."""

    def __init__(self, recipe, node_index, place):
        self.recipe, self.index, self.place = recipe, node_index, place
        self.node = recipe.nodes[node_index]
        self.type, self.attributes = self.node["type"], self.node.get("attributes", {})
        self.inputs, self.outputs, self.dy, self.kept, self.wants = [], [], [], (), ()

    def shape(self, i):
        """Of input i, read or not."""
        return self.recipe.values[self.node["inputs"][i]]["shape"]

    def out_shape(self, i=0):
        return self.recipe.values[self.node["outputs"][i]]["shape"]

    def input(self, i):
        return self.inputs[i] if i < len(self.inputs) else None

    def get(self, key, usual):
        return self.attributes.get(key, usual)

    def constant(self, i, key=None, usual=()):
        """Whole numbers of an attribute, or of input i, whose contents the recipe tells."""
        if key in self.attributes:
            return self.attributes[key]
        index = self.node["inputs"][i] if i < len(self.node["inputs"]) else None
        if index is None:
            return list(usual)
        value = self.recipe.values[index]
        if "filled" in value and value["role"] == "constant":
            return [value["filled"]] * math.prod(value["shape"])
        if "integers" not in value and "reals" not in value:
            raise Unsupported(f"no kernel for {self.type} if its input {i} is not constant")
        return value.get("integers", value.get("reals"))

    def stand_in(self, i):
        """A tensor of input i's shape and type whose numbers are not read."""
        return self.dy[0].new_empty(self.shape(i))


FORWARD, BACKWARD = {}, {}


def forward(*types):
    return lambda function: [FORWARD.__setitem__(each, function) for each in types] and function


def backward(*types):
    return lambda function: [BACKWARD.__setitem__(each, function) for each in types] and function


def recomputes(kind):
    return kind not in BACKWARD


def run_forward(c):
    return FORWARD[c.type](c)


def run_backward(c):
    return BACKWARD.get(c.type, by_autograd)(c)


def by_autograd(c):
    """An input that the gradient does not read stands as zeros: only what is linear in it leaves it unread."""
    saved = c.inputs
    with torch.enable_grad():
        c.inputs = [None if index is None else (c.dy[0].new_zeros(c.shape(i)) if x is None else x.detach())
                    for i, (index, x) in enumerate(zip(c.node["inputs"], saved))]
        leaves = [c.inputs[i].requires_grad_() for i in c.wants]
        outputs = FORWARD[c.type](c)
        pairs = [(y, dy) for y, dy in zip(outputs, c.dy) if dy is not None]
        gradients = torch.autograd.grad([y for y, _ in pairs], leaves, [dy for _, dy in pairs], allow_unused=True)
    c.inputs = saved
    return {i: torch.zeros_like(leaf) if g is None else g for i, leaf, g in zip(c.wants, leaves, gradients)}


# Element by element.

UNARY = {
    "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log,
    "Reciprocal": torch.reciprocal, "Neg": torch.neg, "Abs": torch.abs, "Erf": torch.erf, "Sin": torch.sin, "Cos": torch.cos,
    "Floor": torch.floor, "Ceil": torch.ceil, "Round": torch.round, "Sign": torch.sign, "Not": torch.logical_not,
    "Softsign": functional.softsign, "Mish": functional.mish, "HardSwish": functional.hardswish, "Identity": lambda x: x,
    "Softplus": functional.softplus,
}
for name, function in UNARY.items():
    FORWARD[name] = lambda c, function=function: [function(c.inputs[0])]
FORWARD["Gelu"] = lambda c: [functional.gelu(c.inputs[0], approximate=c.get("approximate", "none"))]
FORWARD["LeakyRelu"] = lambda c: [functional.leaky_relu(c.inputs[0], c.get("alpha", 0.01))]
FORWARD["Elu"] = lambda c: [functional.elu(c.inputs[0], c.get("alpha", 1.0))]
FORWARD["Swish"] = lambda c: [c.inputs[0] * torch.sigmoid(c.get("alpha", 1.0) * c.inputs[0])]
FORWARD["HardSigmoid"] = lambda c: [torch.clamp(c.get("alpha", 0.2) * c.inputs[0] + c.get("beta", 0.5), 0, 1)]


@forward("Clip")
def clip(c):
    least = c.get("min", None) if len(c.inputs) < 2 or c.inputs[1] is None else c.constant(1)[0]
    most = c.get("max", None) if len(c.inputs) < 3 or c.inputs[2] is None else c.constant(2)[0]
    return [torch.clamp(c.inputs[0], least, most)]


@forward("Cast", "CastLike")
def cast(c):
    return [c.inputs[0].to(TYPES[c.recipe.values[c.node["outputs"][0]]["type"]])]


# Gradients that read the output.
BACKWARD["Relu"] = lambda c: {0: aten.threshold_backward(c.dy[0], c.outputs[0], 0)}
BACKWARD["Sigmoid"] = lambda c: {0: aten.sigmoid_backward(c.dy[0], c.outputs[0])}
BACKWARD["Tanh"] = lambda c: {0: aten.tanh_backward(c.dy[0], c.outputs[0])}
BACKWARD["Sqrt"] = lambda c: {0: c.dy[0] / (2 * c.outputs[0])}
BACKWARD["Exp"] = lambda c: {0: c.dy[0] * c.outputs[0]}
BACKWARD["Reciprocal"] = lambda c: {0: -c.dy[0] * c.outputs[0] * c.outputs[0]}
BACKWARD["Neg"] = lambda c: {0: -c.dy[0]}
BACKWARD["Gelu"] = lambda c: {0: aten.gelu_backward(c.dy[0], c.inputs[0], approximate=c.get("approximate", "none"))}

BINARY = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Pow": torch.pow, "Equal": torch.eq, "Greater": torch.gt,
    "Less": torch.lt, "GreaterOrEqual": torch.ge, "LessOrEqual": torch.le, "And": torch.logical_and, "Or": torch.logical_or,
}
for name, function in BINARY.items():
    FORWARD[name] = lambda c, function=function: [function(c.inputs[0], c.inputs[1])]
FORWARD["Where"] = lambda c: [torch.where(c.inputs[0].bool(), c.inputs[1], c.inputs[2])]
FORWARD["Sum"] = lambda c: [sum(c.inputs[1:], c.inputs[0])]
FORWARD["Mean"] = lambda c: [sum(c.inputs[1:], c.inputs[0]) / len(c.inputs)]


@forward("Div")
def div(c):
    whole = not c.inputs[0].is_floating_point()
    return [torch.div(c.inputs[0], c.inputs[1], rounding_mode="trunc") if whole else c.inputs[0] / c.inputs[1]]


@forward("Max", "Min")
def extremes(c):
    function = torch.maximum if c.type == "Max" else torch.minimum
    result = c.inputs[0]
    for other in c.inputs[1:]:
        result = function(result, other)
    return [result]


@backward("Add", "Sum", "Sub", "Mul", "Div", "Where", "Mean")
def operand_gradients(c):
    """Each summed over what was broadcast."""
    result = {}
    for i in c.wants:
        g = c.dy[0]
        if c.type == "Mul":
            g = g * c.inputs[1 - i]
        elif c.type == "Sub" and i == 1:
            g = -g
        elif c.type == "Div":
            g = g / c.inputs[1] if i == 0 else -g * c.inputs[0] / (c.inputs[1] * c.inputs[1])
        elif c.type == "Mean":
            g = g / len(c.inputs)
        elif c.type == "Where":
            g = torch.where(c.inputs[0].bool() == (i == 1), g, torch.zeros_like(g))
        result[i] = g.sum_to_size(c.shape(i))
    return result


# Products of matrices.


@forward("Linear")
def linear(c):
    return [functional.linear(c.inputs[0], c.inputs[1].t(), c.input(2))]


@backward("Linear")
def linear_gradients(c):
    dy, result = c.dy[0].reshape(-1, c.dy[0].shape[-1]), {}
    if 0 in c.wants:
        result[0] = (dy @ c.inputs[1].t()).reshape(c.shape(0))
    if 1 in c.wants:
        result[1] = c.inputs[0].reshape(-1, c.inputs[0].shape[-1]).t() @ dy
    if 2 in c.wants:
        result[2] = dy.sum(0)
    return result


@forward("Gemm")
def gemm(c):
    a = c.inputs[0].t() if c.get("transA", 0) else c.inputs[0]
    b = c.inputs[1].t() if c.get("transB", 0) else c.inputs[1]
    if c.input(2) is None:
        return [c.get("alpha", 1.0) * (a @ b) if c.get("alpha", 1.0) != 1 else a @ b]
    return [torch.addmm(c.inputs[2], a, b, beta=c.get("beta", 1.0), alpha=c.get("alpha", 1.0))]


@backward("Gemm")
def gemm_gradients(c):
    dy, alpha, result = c.dy[0], c.get("alpha", 1.0), {}
    scaled = dy * alpha if alpha != 1 else dy
    if 0 in c.wants:
        b = c.inputs[1] if c.get("transB", 0) else c.inputs[1].t()
        result[0] = b.t() @ scaled.t() if c.get("transA", 0) else scaled @ b
    if 1 in c.wants:
        a = c.inputs[0] if c.get("transA", 0) else c.inputs[0].t()
        result[1] = scaled.t() @ a.t() if c.get("transB", 0) else a @ scaled
    if 2 in c.wants:
        result[2] = (dy * c.get("beta", 1.0) if c.get("beta", 1.0) != 1 else dy).sum_to_size(c.shape(2))
    return result


FORWARD["MatMul"] = lambda c: [torch.matmul(c.inputs[0], c.inputs[1])]


@backward("MatMul")
def matmul_gradients(c):
    if len(c.shape(0)) < 2 or len(c.shape(1)) < 2:
        return by_autograd(c)
    result = {}
    if 0 in c.wants:
        result[0] = torch.matmul(c.dy[0], c.inputs[1].transpose(-1, -2)).sum_to_size(c.shape(0))
    if 1 in c.wants and len(c.shape(1)) == 2:  # one matrix for all rows
        result[1] = c.inputs[0].reshape(-1, c.shape(1)[0]).t() @ c.dy[0].reshape(-1, c.shape(1)[1])
    elif 1 in c.wants:
        result[1] = torch.matmul(c.inputs[0].transpose(-1, -2), c.dy[0]).sum_to_size(c.shape(1))
    return result


# Windows.


class Window:
    """Geometry of a convolution or a pool: what PyTorch takes, and the padding that it does not (`before` unlike after)."""

    def __init__(self, c, kernel):
        x, y, n = c.shape(0)[2:], c.out_shape()[2:], len(kernel)
        self.kernel = list(kernel)
        self.stride, self.dilation = c.get("strides", [1] * n), c.get("dilations", [1] * n)
        pads = c.get("pads", [0] * (2 * n))
        mode = c.get("auto_pad", "NOTSET")
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            both = [max(0, (y[i] - 1) * self.stride[i] + (kernel[i] - 1) * self.dilation[i] + 1 - x[i]) for i in range(n)]
            less = [total // 2 for total in both]
            more = [total - half for total, half in zip(both, less)]
            pads = less + more if mode == "SAME_UPPER" else more + less
        elif mode == "VALID":
            pads = [0] * (2 * n)
        self.even = pads[:n] == pads[n:]
        self.pads = pads[:n] if self.even else [0] * n
        self.extra = [] if self.even else [pads[i + side * n] for i in reversed(range(n)) for side in (0, 1)]

    def padded(self, x, value=0.0):
        return x if self.even else functional.pad(x, self.extra, value=value)

    def unpadded(self, dx, shape):
        """Of a gradient of the padded input."""
        if self.even:
            return dx
        starts = list(reversed(self.extra[0::2]))
        return dx[tuple([slice(None)] * 2 + [slice(a, a + size) for a, size in zip(starts, shape[2:])])]


@forward("Conv")
def conv(c):
    w = Window(c, c.shape(1)[2:])
    x, n = w.padded(c.inputs[0]), len(w.kernel)
    return [torch.convolution(x, c.inputs[1], c.input(2), w.stride, w.pads, w.dilation, False, [0] * n, c.get("group", 1))]


@backward("Conv")
def conv_gradients(c):
    w, n = Window(c, c.shape(1)[2:]), len(c.shape(1)) - 2
    x = w.padded(c.stand_in(0) if c.inputs[0] is None else c.inputs[0])
    weight = c.stand_in(1) if c.inputs[1] is None else c.inputs[1]
    wants = [i in c.wants for i in range(3)]
    if wants == [False, False, True]:
        return {2: c.dy[0].sum([0, *range(2, n + 2)])}
    dx, dw, db = aten.convolution_backward(c.dy[0], x, weight, [c.shape(1)[0]] if wants[2] else None, w.stride, w.pads,
                                           w.dilation, False, [0] * n, c.get("group", 1), wants)
    return {i: w.unpadded(g, c.shape(0)) if i == 0 else g for i, g in enumerate((dx, dw, db)) if wants[i]}


@forward("ConvTranspose")
def conv_transpose(c):
    w, n = Window(c, c.shape(1)[2:]), len(c.shape(1)) - 2
    if not w.even or c.get("auto_pad", "NOTSET") != "NOTSET":
        raise Unsupported("no kernel for ConvTranspose with uneven padding")
    return [torch.convolution(c.inputs[0], c.inputs[1], c.input(2), w.stride, w.pads, w.dilation, True,
                              c.get("output_padding", [0] * n), c.get("group", 1))]


def planes(c):
    """A pool's window, of two or three dimensions."""
    w = Window(c, c.attributes["kernel_shape"])
    if len(w.kernel) not in (2, 3):
        raise Unsupported(f"no kernel for {c.type} in {len(w.kernel)} dimensions")
    return w


@forward("MaxPool")
def max_pool(c):
    w = planes(c)
    pool = aten.max_pool2d_with_indices if len(w.kernel) == 2 else aten.max_pool3d_with_indices
    y, indices = pool(w.padded(c.inputs[0], -math.inf), w.kernel, w.stride, w.pads, w.dilation, bool(c.get("ceil_mode", 0)))
    c.kept = (indices,)
    return [y]


@backward("MaxPool")
def max_pool_gradient(c):
    w = planes(c)
    pool = aten.max_pool2d_with_indices_backward if len(w.kernel) == 2 else aten.max_pool3d_with_indices_backward
    x = w.padded(c.stand_in(0))
    dx = pool(c.dy[0], x, w.kernel, w.stride, w.pads, w.dilation, bool(c.get("ceil_mode", 0)), c.kept[0])
    return {0: w.unpadded(dx, c.shape(0))}


def average_arguments(c):
    w = planes(c)
    include = bool(c.get("count_include_pad", 0))
    if not w.even and not include:
        raise Unsupported("no kernel for AveragePool with uneven padding and count_include_pad 0")
    return w, (w.kernel, w.stride, w.pads, bool(c.get("ceil_mode", 0)), include, None)


@forward("AveragePool")
def average_pool(c):
    w, arguments = average_arguments(c)
    return [(aten.avg_pool2d if len(w.kernel) == 2 else aten.avg_pool3d)(w.padded(c.inputs[0]), *arguments)]


@backward("AveragePool")
def average_pool_gradient(c):
    w, arguments = average_arguments(c)
    pool = aten.avg_pool2d_backward if len(w.kernel) == 2 else aten.avg_pool3d_backward
    return {0: w.unpadded(pool(c.dy[0], w.padded(c.stand_in(0)), *arguments), c.shape(0))}


FORWARD["GlobalAveragePool"] = lambda c: [c.inputs[0].mean(list(range(2, c.inputs[0].dim())), keepdim=True)]
FORWARD["GlobalMaxPool"] = lambda c: [c.inputs[0].amax(list(range(2, c.inputs[0].dim())), keepdim=True)]
BACKWARD["GlobalAveragePool"] = lambda c: {0: (c.dy[0] / math.prod(c.shape(0)[2:])).expand(c.shape(0))}


# Normalizations.


@forward("BatchNormalization")
def batch_norm(c):
    trains = c.node["batch_statistics"]
    y, mean, inverse = torch.native_batch_norm(c.inputs[0], c.inputs[1], c.inputs[2], c.input(3), c.input(4), trains,
                                               1 - c.get("momentum", 0.9), c.get("epsilon", 1e-5))
    c.kept = (mean, inverse)
    return [y]


@backward("BatchNormalization")
def batch_norm_gradients(c):
    trains, wants = c.node["batch_statistics"], [i in c.wants for i in range(3)]
    mean, inverse = c.kept if trains else (None, None)
    if not trains and c.input(3) is None:  # then the gradient of the scale needs x, and that of x does not
        raise Unsupported("no kernel for BatchNormalization with running statistics that its gradient does not read")
    x = c.stand_in(0) if c.inputs[0] is None else c.inputs[0]
    results = aten.native_batch_norm_backward(c.dy[0], x, c.inputs[1], c.input(3), c.input(4), mean, inverse, trains,
                                              c.get("epsilon", 1e-5), wants)
    return {i: g for i, g in enumerate(results) if wants[i]}


def normalized(c):
    axis = c.get("axis", -1)
    return c.shape(0)[axis if axis < 0 else axis - len(c.shape(0)):]


def like_x(c, i):
    """Weights of 4 bytes beside values of 2 in the type of these, which layer norms ask for."""
    return None if c.input(i) is None else c.inputs[i].to(c.inputs[0].dtype)


@forward("LayerNormalization")
def layer_norm(c):
    y, mean, inverse = torch.native_layer_norm(c.inputs[0], normalized(c), like_x(c, 1), like_x(c, 2), c.get("epsilon", 1e-5))
    c.kept = (mean, inverse)
    return [y, mean, inverse]


@backward("LayerNormalization")
def layer_norm_gradients(c):
    wants = [i in c.wants for i in range(3)]
    weight, bias = like_x(c, 1), like_x(c, 2)
    bias = weight if wants[2] and bias is None else bias  # its shape is all that is read
    results = aten.native_layer_norm_backward(c.dy[0], c.inputs[0], normalized(c), c.kept[0], c.kept[1], weight, bias, wants)
    return {i: g for i, g in enumerate(results) if wants[i]}


@forward("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(c):
    x, dims = c.inputs[0], list(range(-len(normalized(c)), 0))
    y = x * torch.rsqrt(x.float().pow(2).mean(dims, keepdim=True) + c.get("epsilon", 1e-5)).to(x.dtype)
    return [y if c.input(1) is None else y * c.inputs[1]]


@forward("InstanceNormalization")
def instance_norm(c):
    return [torch.instance_norm(c.inputs[0], c.inputs[1], c.inputs[2], None, None, True, 0.1, c.get("epsilon", 1e-5), False)]


@forward("GroupNormalization")
def group_norm(c):
    return [torch.group_norm(c.inputs[0], c.attributes["num_groups"], c.inputs[1], c.inputs[2], c.get("epsilon", 1e-5))]


# Rows: softmax and losses.

FORWARD["Softmax"] = lambda c: [torch.softmax(c.inputs[0], c.get("axis", -1))]
FORWARD["LogSoftmax"] = lambda c: [torch.log_softmax(c.inputs[0], c.get("axis", -1))]
BACKWARD["Softmax"] = lambda c: {
    0: aten._softmax_backward_data(c.dy[0], c.outputs[0], c.get("axis", -1), c.outputs[0].dtype)}
BACKWARD["LogSoftmax"] = lambda c: {
    0: aten._log_softmax_backward_data(c.dy[0], c.outputs[0], c.get("axis", -1), c.outputs[0].dtype)}


def class_dimension(c):
    """The last one; of images, and always in ONNX's own loss, the second."""
    rank = len(c.shape(0))
    return min(1, rank - 1) if c.type != "SoftmaxCrossEntropy" or rank == 4 else rank - 1


@forward("SoftmaxCrossEntropy", "SoftmaxCrossEntropyLoss")
def cross_entropy(c):
    if c.input(2) is not None:
        raise Unsupported(f"no kernel for {c.type} with class weights")
    classes = class_dimension(c)
    logp = torch.log_softmax(c.inputs[0].float(), classes)  # kept in 32 bits
    chosen = logp.gather(classes, c.inputs[1].long().unsqueeze(classes)).squeeze(classes)
    c.kept = (logp,)
    reduction = c.get("reduction", "mean")
    loss = -(chosen.mean() if reduction == "mean" else chosen.sum() if reduction == "sum" else chosen)
    return [loss.to(c.inputs[0].dtype).reshape(c.out_shape()), logp.to(c.inputs[0].dtype)]


@backward("SoftmaxCrossEntropy", "SoftmaxCrossEntropyLoss")
def cross_entropy_gradient(c):
    classes, logp = class_dimension(c), c.kept[0]
    labels = c.inputs[1].long().unsqueeze(classes)
    scale = c.dy[0].float()
    if c.get("reduction", "mean") == "mean":
        scale = scale / labels.numel()
    scale = scale.unsqueeze(classes) if c.get("reduction", "mean") == "none" else scale.reshape(())
    dx = logp.exp()
    dx.scatter_add_(classes, labels, torch.full_like(dx, -1).narrow(classes, 0, 1))
    return {0: dx.mul_(scale).to(c.dy[0].dtype)}


@forward("Dropout")
def dropout(c):
    ratio = c.constant(1, "ratio", [0.5]) if c.input(1) is not None or "ratio" in c.attributes else 0.5
    ratio = ratio[0] if isinstance(ratio, list) else ratio
    mask = c.place.mask(c.index, c.shape(0), ratio)
    c.kept = (mask,)
    return [c.inputs[0] * mask * (1 / (1 - ratio)), mask]


@backward("Dropout")
def dropout_gradient(c):
    ratio = c.constant(1, "ratio", [0.5])
    return {0: c.dy[0] * c.kept[0] * (1 / (1 - (ratio[0] if isinstance(ratio, list) else ratio)))}


# Choosing, joining, reducing.


@forward("Gather")
def gather(c):
    axis, indices = c.get("axis", 0), c.inputs[1].long()
    if axis in (0, -len(c.shape(0))):
        return [functional.embedding(indices, c.inputs[0]) if len(c.shape(0)) == 2 else c.inputs[0][indices]]
    shape = list(c.shape(0))
    axis %= len(shape)
    chosen = c.inputs[0].index_select(axis, indices.reshape(-1) % shape[axis])
    return [chosen.reshape(shape[:axis] + list(indices.shape) + shape[axis + 1:])]


@backward("Gather")
def gather_gradient(c):
    axis, shape, indices = c.get("axis", 0) % len(c.shape(0)), c.shape(0), c.inputs[1].long()
    if axis == 0 and len(shape) == 2:
        return {0: aten.embedding_dense_backward(c.dy[0].contiguous(), indices, shape[0], -1, False)}
    dy = c.dy[0].reshape(shape[:axis] + [-1] + shape[axis + 1:])
    return {0: c.dy[0].new_zeros(shape).index_add_(axis, indices.reshape(-1) % shape[axis], dy)}


FORWARD["GatherElements"] = lambda c: [c.inputs[0].gather(c.get("axis", 0), c.inputs[1].long())]
FORWARD["Concat"] = lambda c: [torch.cat(c.inputs, c.attributes["axis"])]
FORWARD["Tile"] = lambda c: [c.inputs[0].repeat(c.constant(1))]


@forward("CumSum")
def running_sum(c):
    axis, x = c.constant(1)[0], c.inputs[0]
    turned = x.flip(axis) if c.get("reverse", 0) else x
    sums = turned.cumsum(axis) - turned if c.get("exclusive", 0) else turned.cumsum(axis)
    return [sums.flip(axis) if c.get("reverse", 0) else sums]


@forward("Trilu")
def trilu(c):
    diagonal = c.constant(1)[0] if c.input(1) is not None else 0
    return [(torch.triu if c.get("upper", 1) else torch.tril)(c.inputs[0], diagonal)]


@forward("Pad")
def pad(c):
    pads, n = c.constant(1, "pads"), len(c.shape(0))
    if len(pads) != 2 * n or c.get("mode", "constant") != "constant":
        raise Unsupported("no kernel for Pad of only some axes, or with a mode other than constant")
    value = c.constant(2)[0] if c.input(2) is not None else c.get("value", 0.0)
    return [functional.pad(c.inputs[0], [pads[i + side * n] for i in reversed(range(n)) for side in (0, 1)], value=value)]


@forward("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
def reduce(c):
    axes = c.constant(1, "axes")
    if not axes and c.get("noop_with_empty_axes", 0):
        return [c.inputs[0]]
    axes = axes or list(range(len(c.shape(0))))
    function = {"ReduceSum": torch.sum, "ReduceMean": torch.mean, "ReduceMax": torch.amax, "ReduceMin": torch.amin}[c.type]
    return [function(c.inputs[0], axes, bool(c.get("keepdims", 1)))]


@forward("ArgMax", "ArgMin")
def arg(c):
    function = torch.argmax if c.type == "ArgMax" else torch.argmin
    return [function(c.inputs[0], c.get("axis", 0), bool(c.get("keepdims", 1)))]


# Recurrent layers, by PyTorch's own (cuDNN's on GPUs). Their gradients run them again.


def gates(w, order, hidden):
    """Blocks of rows, one a gate, in PyTorch's order."""
    return torch.cat([w[..., gate * hidden:(gate + 1) * hidden, :] if w.dim() > 1 else w[gate * hidden:(gate + 1) * hidden]
                      for gate in order])


@forward("LSTM", "GRU", "RNN")
def recurrent(c):
    x = c.inputs[0] if c.inputs[0] is not None else c.kept[0]
    bias, h0, c0 = (c.kept[1:] if c.kept else (c.input(3), c.input(5), c.input(6)))
    w, r, hidden = c.inputs[1], c.inputs[2], c.attributes["hidden_size"]
    if c.get("layout", 0) or c.input(4) is not None or c.input(7) is not None or c.get("direction", "forward") == "reverse":
        raise Unsupported(f"no kernel for {c.type} with layout 1, sequence lengths, peepholes or direction reverse")
    if c.type == "GRU" and not c.get("linear_before_reset", 0):
        raise Unsupported("no kernel for GRU with linear_before_reset 0")
    directions = w.shape[0]
    order = {"LSTM": [0, 2, 3, 1], "GRU": [1, 0, 2], "RNN": [0]}[c.type]
    weights = []
    for d in range(directions):
        weights += [gates(w[d], order, hidden), gates(r[d], order, hidden)]
        if bias is not None:
            half = len(order) * hidden
            weights += [gates(bias[d, :half], order, hidden), gates(bias[d, half:], order, hidden)]
    first = x.new_zeros(directions, x.shape[1], hidden)
    h0, c0 = first if h0 is None else h0, first if c0 is None else c0
    if not c.kept:
        c.kept = (x, c.input(3), c.input(5), c.input(6))
    rest = (bias is not None, 1, 0.0, True, directions == 2, False)
    if c.type == "LSTM":
        y, *states = torch.lstm(x, (h0, c0), weights, *rest)
    else:
        relu = c.get("activations", ["Tanh"])[0] == "Relu"
        y, *states = (torch.gru if c.type == "GRU" else torch.rnn_relu if relu else torch.rnn_tanh)(x, h0, weights, *rest)
    return [y.reshape(x.shape[0], x.shape[1], directions, hidden).permute(0, 2, 1, 3), *states]


@backward("LSTM", "GRU", "RNN")
def recurrent_gradients(c):
    """By autograd, of what the forward op kept."""
    x, bias, h0, c0 = c.kept
    given = {0: x, 1: c.inputs[1], 2: c.inputs[2], 3: bias, 5: h0, 6: c0}
    saved = c.inputs, c.kept
    with torch.enable_grad():
        leaves = {i: tensor.detach().requires_grad_(i in c.wants) for i, tensor in given.items() if tensor is not None}
        c.inputs = [leaves.get(i) for i in range(max(7, len(c.inputs)))]
        c.kept = ()
        outputs = FORWARD[c.type](c)
        pairs = [(y, dy) for y, dy in zip(outputs, c.dy) if dy is not None]
        gradients = torch.autograd.grad([y for y, _ in pairs], [leaves[i] for i in c.wants], [dy for _, dy in pairs])
    c.inputs, c.kept = saved
    return dict(zip(c.wants, gradients))
