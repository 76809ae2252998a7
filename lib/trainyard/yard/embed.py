"""Puts files into a C++ file, by their paths in FOLDER: embed.py OUTPUT FOLDER FILE..."""

import pathlib
import sys

output, folder, *files = sys.argv[1:]


def literal(text):
    # A line is a literal: compilers limit the length of one.
    return "\n".join('      "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in text.splitlines())


lines = ['#include "trainyard/yard/yard_files.hpp"', "", '#pragma GCC diagnostic ignored "-Woverlength-strings"', ""]
lines += ["namespace trainyard::detail {", "namespace {", "", "constexpr YardFile kYardFiles[] = {"]
for file in files:
    name = pathlib.Path(file).resolve().relative_to(pathlib.Path(folder).resolve()).as_posix()
    lines.append(f'    {{"{name}",\n{literal(pathlib.Path(file).read_text(encoding="utf-8"))}}},')
lines += ["};", "", "}  // namespace", "", "std::span<const YardFile> yard_files() { return kYardFiles; }", ""]
lines.append("}  // namespace trainyard::detail\n")
pathlib.Path(output).write_text("\n".join(lines), encoding="utf-8")
