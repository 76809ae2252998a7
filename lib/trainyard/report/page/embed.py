"""Puts a page's source files into a C++ file, as strings named PREFIXHtml, PREFIXStyle, PREFIXScript and
PREFIXScriptHash that HEADER declares: embed.py OUTPUT HEADER PREFIX FILE.{html,css,js}..."""

import base64
import hashlib
import pathlib
import sys

output, header, prefix, *sources = sys.argv[1:]


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


html, css, script = (read(*(name for name in sources if name.endswith(end))) for end in (".html", ".css", ".js"))
assert "</script" not in script.lower() and "<!--" not in script
digest = "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
# Every compiler in use takes literals of this length; the standard only asks for 65,536 characters.
lines = [f'#include "{header}"', "", '#pragma GCC diagnostic ignored "-Woverlength-strings"', ""]
lines += ["namespace trainyard::detail {", ""]
for name, text in (("Html", html), ("Style", css), ("Script", script), ("ScriptHash", digest)):
    lines.append(f"const std::string_view {prefix}{name} =\n{literal(text)};\n")
lines.append("}  // namespace trainyard::detail\n")
pathlib.Path(output).write_text("\n".join(lines), encoding="utf-8")
