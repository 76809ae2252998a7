#!/usr/bin/env python3
"""Kernel parameters: fits in, kernels.json and the library's table out.

    make_kernels.py fits PARAMETERS.json     makes kernels.json from the fits of the published kernels
    make_kernels.py half PROFILES            fits 16-bit kernels to Aceso's profiled-time-eurosys/
    make_kernels.py table                    makes lib/trainyard/cost/kernel_table.cpp from kernels.json

The fits minimize the mean of |predicted / measured - 1| over the rows of one GPU and class (Nelder-Mead in log space,
then one coordinate at a time); `held_out_error` is that mean on the half of the rows that a fit to the other half did
not see, shuffled by Python's random.Random(7). The equations stand in lib/trainyard/cost/kernel_forms.hpp.
"""
import csv
import glob
import json
import math
import os
import random
import re
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, '..', '..', 'lib', 'trainyard', 'cost', 'kernel_table.cpp')
NEUSIGHT = {'source': 'NeuSight (github.com/sitar-lab/NeuSight, commit 6945927): kernels of PyTorch timed alone',
            'licence': 'MIT'}
DEEPBENCH = {'source': 'DeepBench (github.com/baidu-research/DeepBench, commit da81ba7): results of NVIDIA training',
             'licence': 'Apache-2.0'}
ACESO = {'source': 'Aceso (github.com/microsoft/SuperScaler, branch Aceso, commit fa80ad0): ops of GPT layers in float16, '
                   'forward and backward, on V100-SXM2 32 GB', 'licence': 'MIT'}

# Class as published -> class here, names of the parameters in the order of the struct.
PRODUCT = 'e cm cn k0 q em o t0_us h N0 gam r tau_ms'.split()
CONVOLUTION = 'e c k0 em o t0_us d1 d2 ks0 ks1 ks2 q0 q1 q2 wf wn wb w2 st alpha st2 ws'.split()
CLASSES = {
    'linear': ('linear', PRODUCT), 'bmm': ('batched', PRODUCT),
    'gemm': ('narrow', 'e c k0 q em lx o t0_us ks ta'.split()),
    'softmax': ('softmax', 'u1 u2 p H0 k a t0_us'.split()),
    'ln': ('layer_norm', 'u short p H0 k a t0_us'.split()),
    'elem': ('elementwise', 'u_bin u_un u_pow t0_us'.split()),
    'conv': ('convolution', CONVOLUTION),
    'half': ('half_product', 'e tile_ps q c o across'.split()),
    'half_rows': ('half_rows', 'softmax softmax_back norm norm_back unary unary_back dropout dropout_back'.split()),
    'recurrent': ('recurrent', 'floor_us x1 x2 back_floor_us back_x1 back_x2'.split()),
}


def fitted(parameters):
    """The rows of kernels.json from the fits."""
    rows = []
    for key, fit in parameters['classes'].items():
        name, gpu, precision = key.split()
        if name in ('conv_data', 'conv_filter'):
            continue  # one set of parameters for the three directions, beside conv
        origin = DEEPBENCH if name in ('conv', 'gemm') else NEUSIGHT
        error = fit['held_out_error']
        if name == 'conv':
            ways = [parameters['classes'][f'{way} {gpu} {precision}']['held_out_error']
                    for way in ('conv', 'conv_data', 'conv_filter')]
            error = sum(ways) / 3
        rows.append({'class': CLASSES[name][0], 'gpu': gpu.replace('PCIe', 'PCIE'), 'precision': precision,
                     'parameters': fit['parameters'], 'rows': fit['rows'], 'held_out_error': error, **origin})
    for name, title in (('linear', 'linear'), ('bmm', 'batched')):
        pooled = dict(parameters['other']['transferred'][name])
        error = pooled.pop('fit')
        rows.append({'class': title, 'gpu': 'pooled', 'precision': 'fp32', 'parameters': pooled, 'rows': 560,
                     'fit_error': error, **NEUSIGHT})
    recurrent = parameters['other']['recurrent']
    for gpu, precision, key in (('V100-SXM2', 'fp32', 'V100-SXM2 (DGX-1) fp32'),
                                ('V100-SXM2', 'fp16', 'V100-SXM2 (DGX-1) fp16 tensor cores'),
                                ('P100-PCIE', 'fp32', 'P100-PCIe fp32')):
        values = recurrent[key + ' forward_ms'] + recurrent[key + ' backward_ms']
        rows.append({'class': 'recurrent', 'gpu': gpu, 'precision': precision,
                     'parameters': dict(zip(CLASSES['recurrent'][1], values)), 'rows': 26, **DEEPBENCH})
    return rows


TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 128), (128, 32), (32, 64), (64, 32),
         (32, 32), (128, 16), (64, 16))
GPUS = {'V100-SXM2': (80, 125e12, 900e9), 'A100': (108, 312e12, 2039e9), 'H100': (132, 989e12, 3350e9),
        'B200': (148, 2250e12, 7700e9)}  # multiprocessors, FLOP/s, bytes/s
# Best of a search over shapes, bf16, of the peak: github.com/stas00/ml-engineering, compute/accelerator (commit 744d01e).
BEST_SHAPES = {'A100': 0.869, 'H100': 0.803, 'B200': 0.776}


def half_product(form, gpu, batch, m, n, k):
    """half_product_seconds of kernel_forms.cpp, without `across`."""
    e, tile_ps, q, c, o = form[:5]
    processors, peak, bandwidth = GPUS[gpu]
    bandwidth *= 0.85
    k0 = tile_ps * 1e-12 * peak / (2 * processors)
    least = math.inf
    for tile_m, tile_n in TILES:
        slower = max(0.05, 1 + c * (1 / tile_m - 1 / 128) + c * (1 / tile_n - 1 / 256))
        blocks = math.ceil(m / tile_m) * math.ceil(n / tile_n) * batch
        area = 2 * tile_m * tile_n * processors / (peak * min(e, e / slower))
        for split in (1, 2, 4, 8):
            if split > 1 and k / split < 256:
                break
            tiles = blocks * split / processors
            time = (q * math.ceil(tiles) + (1 - q) * max(tiles, 1)) * area * (math.ceil(k / split) + k0)
            least = min(least, time + (8 * split * batch * m * n / bandwidth if split > 1 else 0))
    moving = 2 * batch * (m * k + k * n + m * n) / bandwidth
    return max(least, moving) + o * min(least, moving)


def half_ops(folder):
    """Ops of Aceso's GPT layers, of 2,048 tokens a sample: (op, backward, sizes, seconds). Sizes are those of a product,
    or the elements. Times that hold collectives are left out: row-parallel products, gradients of column-parallel ones."""
    sizes = {'350M': (1024, 16), '1_3B': (2048, 32), '2_6B': (2560, 32), '6_7B': (4096, 32), '13B': (5120, 40)}
    ops = []
    for path in sorted(glob.glob(os.path.join(folder, 'gpt_*_mbs*_tp*_algo0.csv'))):
        named = re.match(r'gpt_(.+)_mbs(\d+)_tp(\d+)_algo0', os.path.basename(path))
        if not named or named[1] not in sizes:
            continue
        (h, heads), samples, ranks = sizes[named[1]], int(named[2]), int(named[3])
        tokens, scores = samples * 2048, samples * heads // ranks
        shapes = {'attention-qkv': (1, tokens, 3 * h // ranks, h), 'MLP-GEMM-1': (1, tokens, 4 * h // ranks, h),
                  'attention-dense': (1, tokens, h, h // ranks), 'MLP-GEMM-2': (1, tokens, h, 4 * h // ranks),
                  'attention-score': (scores, 2048, 2048, h // heads), 'attention-context': (scores, 2048, h // heads, 2048),
                  'attention-softmax': scores * 2048 * 2048, 'attention-dropout': scores * 2048 * 2048,
                  '1st-layernorm': tokens * h, 'MLP-gelu': tokens * 4 * h // ranks}
        with open(path) as file:
            for row in csv.DictReader(file):
                op = row['op_name'].replace('enc-', '')
                if op not in shapes:
                    continue
                column, divided = op in ('attention-qkv', 'MLP-GEMM-1'), op in ('attention-dense', 'MLP-GEMM-2')
                if ranks == 1 or not divided:
                    ops.append((op, False, shapes[op], float(row['forward-compute']) * 1e-6))
                if ranks == 1 or not (divided or column or op == '1st-layernorm'):
                    ops.append((op, True, shapes[op], float(row['backward-compute']) * 1e-6))
    return ops


def nelder_mead(f, start, steps):
    """The least of f near start by Nelder and Mead's simplex (1965), after so many of its steps."""
    n = len(start)
    points = [(f(start), list(start))]
    for i in range(n):
        x = list(start)
        x[i] *= 1.05
        points.append((f(x), x))
    for _ in range(steps):
        points.sort(key=lambda point: point[0])
        worst, x = points[-1]
        centre = [sum(p[i] for _, p in points[:-1]) / n for i in range(n)]
        at = lambda share: [c + share * (c - y) for c, y in zip(centre, x)]
        moved = (f(at(1)), at(1))
        if moved[0] < points[0][0]:
            moved = min(moved, (f(at(2)), at(2)), key=lambda point: point[0])
        elif moved[0] >= points[-2][0]:
            share = 0.5 if moved[0] < worst else -0.5
            moved = (f(at(share)), at(share))
            if moved[0] >= worst:
                best = points[0][1]
                points = [points[0]] + [(f(y), y) for y in ([(a + b) / 2 for a, b in zip(p, best)] for _, p in points[1:])]
                continue
        points[-1] = moved
    return min(points, key=lambda point: point[0])[1]


def fit_half(folder):
    """Rows of kernels.json of 16-bit kernels: V100's fitted, products of later GPUs with its form and their own e."""
    floor, linear = 10e-6, ('attention-qkv', 'MLP-GEMM-1', 'attention-dense', 'MLP-GEMM-2')

    def product(form, op):
        name, backward, (batch, m, n, k), _ = op
        # Queries, keys and values are laid out by heads: 4 bytes an element at the share of an elementwise op.
        beside = 4 * m * n / (GPUS['V100-SXM2'][2] * 0.912) if name == 'attention-qkv' else 0
        if not backward:
            return floor + beside + half_product(form, 'V100-SXM2', batch, m, n, k) * (form[5] if name in linear else 1)
        return (2 * floor + beside + half_product(form, 'V100-SXM2', batch, m, k, n) +
                half_product(form, 'V100-SXM2', batch, k, n, m))

    def error(form, ops):
        return sum(abs(product(form, op) / op[3] - 1) for op in ops) / len(ops)

    def fit(ops):
        limits = [(0.5, 1), (0, 400), (0.01, 1), (5, 80), (0, 1), (1, 1.5)]
        clip = lambda form: [min(max(x, low), high) for x, (low, high) in zip(form, limits)]
        best = [0.85, 75, 0.1, 35, 0.5, 1.2]
        for _ in range(3):  # from where it stopped, until a simplex of its first size finds nothing
            best = clip(nelder_mead(lambda form: error(clip(form), ops), best, 250))
        return best

    ops = half_ops(folder)
    products = [op for op in ops if isinstance(op[2], tuple)]
    random.Random(7).shuffle(products)
    half = len(products) // 2
    held_out = error(fit(products[:half]), products[half:])
    form = fit(products)
    names = CLASSES['half'][1]
    rows = [{'class': 'half_product', 'gpu': 'V100-SXM2', 'precision': 'fp16', 'parameters': dict(zip(names, form)),
             'rows': len(products), 'held_out_error': held_out, **ACESO}]
    shapes = [(m, n, k) for m in (4096, 8192, 16384) for n in (4096, 8192, 16384) for k in (4096, 8192, 16384)]
    for gpu, best in BEST_SHAPES.items():
        reached = lambda e: max(2 * m * n * k / half_product([e, *form[1:]], gpu, 1, m, n, k)
                                for m, n, k in shapes) / GPUS[gpu][1]
        low, high = 0.5, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if reached(middle) < best else (low, middle)
        rows.append({'class': 'half_product', 'gpu': gpu, 'precision': 'fp16',
                     'parameters': {**dict(zip(names, form)), 'e': low, 'across': 1.0}, 'rows': 0,
                     'source': f'best of a shape search, bf16, published ({best} of the peak); the rest of V100',
                     'licence': 'a number, cited'})
    shares, errors = {}, []
    for name, op, each in (('softmax', 'attention-softmax', (4, 6)), ('norm', '1st-layernorm', (4, 6)),
                           ('unary', 'MLP-gelu', (4, 6)), ('dropout', 'attention-dropout', (5, 5))):
        for backward in (False, True):
            found = [(size * each[backward] / GPUS['V100-SXM2'][2], seconds) for what, back, size, seconds in ops
                     if what == op and back == backward and size >= 2 ** 22]
            random.Random(7).shuffle(found)
            share = lambda part: sorted(time / (seconds - 8.2e-6) for time, seconds in part)[len(part) // 2]
            part = share(found[:len(found) // 2])
            errors += [abs((time / part + 8.2e-6) / seconds - 1) for time, seconds in found[len(found) // 2:]]
            shares[name + ('_back' if backward else '')] = share(found)
    rows.append({'class': 'half_rows', 'gpu': 'V100-SXM2', 'precision': 'fp16', 'parameters': shares,
                 'rows': 2 * len(errors), 'held_out_error': sum(errors) / len(errors), **ACESO})
    return rows


def write(path, rows):
    with open(path, 'w') as file:
        file.write('{"about": "parameters of the forms in lib/trainyard/cost/kernel_forms.hpp; seconds, us and ms '
                   'where a name ends so; errors are means of |predicted / measured - 1|",\n "kernels": [\n')
        file.write(',\n'.join('  ' + json.dumps(row) for row in rows) + '\n]}\n')


def table_text(rows):
    names = {name: order for name, order in CLASSES.values()}
    text = ('#include "trainyard/cost/kernel_table.hpp"\n\n'
            '// Made by data/calibrations/make_kernels.py from kernels.json, which says where each row comes from.\n'
            '// clang-format off\n'
            'namespace trainyard::detail {\n'
            'namespace {\n\n'
            'constexpr KernelRow kKernelRows[] = {\n')
    for row in rows:
        values = ', '.join(repr(row['parameters'][name]) for name in names[row['class']])
        wrapped = textwrap.fill(values, 112, initial_indent='     {', subsequent_indent='      ')
        text += f'    {{KernelClass::{row["class"]}, "{row["gpu"]}", "{row["precision"]}",\n{wrapped}}}}},\n'
    return text + ('};\n\n'
                   '}  // namespace\n\n'
                   'std::span<const KernelRow> kernel_rows() { return kKernelRows; }\n\n'
                   'const KernelRow* find_kernel_row(KernelClass form, std::string_view gpu, '
                   'std::string_view precision) {\n'
                   '  for (const KernelRow& row : kKernelRows)\n'
                   '    if (row.form == form && row.gpu == gpu && row.precision == precision) return &row;\n'
                   '  return nullptr;\n'
                   '}\n\n'
                   '}  // namespace trainyard::detail\n'
                   '// clang-format on\n')


def main(arguments):
    path = os.path.join(HERE, 'kernels.json')
    if arguments[:1] == ['fits'] and len(arguments) == 2:
        with open(arguments[1]) as file:
            rows = fitted(json.load(file))
        with open(path) as file:
            rows += [row for row in json.load(file)['kernels'] if row['class'] in ('half_product', 'half_rows')]
        write(path, rows)
    elif arguments[:1] == ['half'] and len(arguments) == 2:
        with open(path) as file:
            rows = [row for row in json.load(file)['kernels'] if row['class'] not in ('half_product', 'half_rows')]
        write(path, rows + fit_half(arguments[1]))
    elif arguments != ['table']:
        sys.exit(__doc__)
    with open(path) as file:
        rows = json.load(file)['kernels']
    with open(TABLE, 'w') as file:
        file.write(table_text(rows))


if __name__ == '__main__':
    main(sys.argv[1:])
