"""Puts the page's source files into a C++ file: embed.py OUTPUT HTML CSS JS..."""

import base64
import hashlib
import pathlib
import sys

output, html, css, *scripts = sys.argv[1:]


def read(*names):
    return "".join(pathlib.Path(name).read_text(encoding="utf-8") for name in names)


def literal(text):
    # Chunks, since compilers limit the length of one literal; a chunk ends between lines.
    chunks, chunk = [], ""
    for line in text.splitlines(keepends=True):
        if len(chunk) + len(line) > 8000:
            chunks.append(chunk)
            chunk = ""
        chunk += line
    chunks.append(chunk)
    assert ')~~~"' not in text
    return "\n".join(f'    R"~~~({chunk})~~~"' for chunk in chunks)


script = read(*scripts)
assert "</script" not in script.lower() and "<!--" not in script
digest = "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
lines = ['#include "trainyard/report/page_parts.hpp"', "", "namespace trainyard::detail {", ""]
for name, text in (("Html", read(html)), ("Style", read(css)), ("Script", script), ("ScriptHash", digest)):
    lines.append(f"const std::string_view kPage{name} =\n{literal(text)};\n")
lines.append("}  // namespace trainyard::detail\n")
pathlib.Path(output).write_text("\n".join(lines), encoding="utf-8")
