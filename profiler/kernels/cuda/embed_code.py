"""Puts the kernels' machine code, packed, into a C++ file: embed_code.py OUTPUT kernels_ARCHITECTURE.cubin..."""

import pathlib
import sys
import zlib

output, *files = sys.argv[1:]
blocks, rows = [], []
for number, file in enumerate(files):
    architecture = pathlib.Path(file).stem.removeprefix("kernels_")
    code = pathlib.Path(file).read_bytes()
    if not code:  # it could not be compiled
        continue
    packed = pathlib.Path(file + ".z")
    packed.write_bytes(zlib.compress(code, 9))
    name = f"trainyard_kernels_{number}"
    blocks.append(f'''asm(".section .rodata\\n{name}:\\n.incbin \\"{packed.resolve()}\\"\\n{name}_end:\\n.previous");
extern const char begin_{number}[] asm("{name}"), end_{number}[] asm("{name}_end");
''')
    rows.append(f'      {{"{architecture}", {{begin_{number}, std::size_t(end_{number} - begin_{number})}}, {len(code)}}},\n')
table = "".join(rows)
count = len(rows)
pathlib.Path(output).write_text(
    '#include "profiler/kernels/cuda/embedded_kernels.hpp"\n\n' + "".join(blocks)
    + "\nnamespace trainyard::cuda {\n\nstd::span<const EmbeddedKernels> embedded_kernels() {\n"
    + (f"  static const EmbeddedKernels all[] = {{\n{table}  }};\n  return all;\n" if count else "  return {};\n")
    + "}\n\n}  // namespace trainyard::cuda\n",
    encoding="utf-8",
)
