"""Puts the kernels' texts, one after the other, and their names into a C++ file: embed.py OUTPUT KERNELS..."""

import pathlib
import re
import sys

output, *sources = sys.argv[1:]
text = "".join(pathlib.Path(source).read_text(encoding="utf-8") for source in sources)
assert ')~~~"' not in text
names = set()
for name in re.findall(r"^KERNEL (\w+)\(", text, flags=re.M):
    names.add(name)
for name in re.findall(r"^(?:UNARY|BINARY)\((\w+),", text, flags=re.M):
    names |= {name + "_f", name + "_d"}
names -= {"name"}
chunks, chunk = [], ""
for line in text.splitlines(keepends=True):  # compilers limit the length of one literal
    if len(chunk) + len(line) > 8000:
        chunks.append(chunk)
        chunk = ""
    chunk += line
chunks.append(chunk)
literal = "\n".join(f'    R"~~~({c})~~~"' for c in chunks)
listed = "".join(f'    "{name}\\n"\n' for name in sorted(names))
pathlib.Path(output).write_text(
    "#include <string_view>\n\nnamespace trainyard::cuda {\n\n"
    "extern const std::string_view kKernelText, kKernelNames;\n"
    f"const std::string_view kKernelText =\n{literal};\n"
    f"const std::string_view kKernelNames =\n{listed};\n\n"
    "}  // namespace trainyard::cuda\n",
    encoding="utf-8",
)
