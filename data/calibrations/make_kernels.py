#!/usr/bin/env python3
"""Kernel parameters: fits in, kernels.json and the library's table out.

    make_kernels.py fits PARAMETERS.json     makes kernels.json from the fits of the published kernels
    make_kernels.py table                    makes lib/trainyard/cost/kernel_table.cpp from kernels.json

The fits minimize the mean of |predicted / measured - 1| over the rows of one GPU and class (Nelder-Mead in log space,
then one coordinate at a time); `held_out_error` is that mean on the half of the rows that a fit to the other half did
not see, shuffled by Python's random.Random(7). The equations stand in lib/trainyard/cost/kernel_forms.hpp.
"""
import json
import os
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, '..', '..', 'lib', 'trainyard', 'cost', 'kernel_table.cpp')
NEUSIGHT = {'source': 'NeuSight (github.com/sitar-lab/NeuSight, commit 6945927): kernels of PyTorch timed alone',
            'licence': 'MIT'}
DEEPBENCH = {'source': 'DeepBench (github.com/baidu-research/DeepBench, commit da81ba7): results of NVIDIA training',
             'licence': 'Apache-2.0'}
VTRAIN = {'source': 'vTrain (github.com/VIA-Research/vTrain): measured GPT steps on two A100', 'licence': 'MIT'}
SHAPES = {'source': 'best of a shape search, bf16, published for H100 SXM (0.803 of the peak); k0 and q of A100',
          'licence': 'a number, cited'}

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
    'half': ('half_product', 'e k0 q'.split()),
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
    vtrain = parameters['other']['half']['A100 vtrain']
    a100 = {name: vtrain[name] for name in ('e', 'k0', 'q')}
    rows.append({'class': 'half_product', 'gpu': 'A100', 'precision': 'fp16', 'parameters': a100, 'rows': 71, **VTRAIN})
    rows.append({'class': 'half_product', 'gpu': 'H100', 'precision': 'fp16', 'parameters': {**a100, 'e': 0.8},
                 'rows': 0, **SHAPES})
    recurrent = parameters['other']['recurrent']
    for gpu, precision, key in (('V100-SXM2', 'fp32', 'V100-SXM2 (DGX-1) fp32'),
                                ('V100-SXM2', 'fp16', 'V100-SXM2 (DGX-1) fp16 tensor cores'),
                                ('P100-PCIE', 'fp32', 'P100-PCIe fp32')):
        values = recurrent[key + ' forward_ms'] + recurrent[key + ' backward_ms']
        rows.append({'class': 'recurrent', 'gpu': gpu, 'precision': precision,
                     'parameters': dict(zip(CLASSES['recurrent'][1], values)), 'rows': 26, **DEEPBENCH})
    return rows


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
        with open(path, 'w') as file:
            file.write('{"about": "parameters of the forms in lib/trainyard/cost/kernel_forms.hpp; seconds, us and ms '
                       'where a name ends so; errors are means of |predicted / measured - 1|",\n "kernels": [\n')
            file.write(',\n'.join('  ' + json.dumps(row) for row in rows) + '\n]}\n')
    elif arguments != ['table']:
        sys.exit(__doc__)
    with open(path) as file:
        rows = json.load(file)['kernels']
    with open(TABLE, 'w') as file:
        file.write(table_text(rows))


if __name__ == '__main__':
    main(sys.argv[1:])
