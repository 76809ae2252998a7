#!/usr/bin/env python3
"""Writes the manual as a man page: man_page.py MANUAL.md VERSION > trainyard.1

Reads the Markdown that the manual is written in: headings, paragraphs, lists of "* ", tables, lines of four spaces as
they stand, `code`, **bold**, *slanted* and [links](url).
"""

import re
import sys


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def inline(text):
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\*[^* ][^*]*\*|\[[^\]]+\]\([^)]+\))", " ".join(text.split()))
    out = ""
    for part in parts:
        if part.startswith(("`", "**")):
            out += "\\fB" + escaped(part.strip("`*")) + "\\fP"
        elif part.startswith("*") and len(part) > 2:
            out += "\\fI" + escaped(part.strip("*")) + "\\fP"
        elif part.startswith("["):
            out += escaped(part[1:part.index("]")])
        else:
            out += escaped(part)
    return "\\&" + out if out.startswith((".", "'")) else out


def cells(row):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def table(rows):
    """Terms with their explanations: a column after the second follows in the same paragraph."""
    out = []
    for row in [cells(row) for row in rows[2:]]:
        out += [".TP", inline(row[0]) or "\\&", "; ".join(inline(cell) for cell in row[1:] if cell)]
    return out


def blocks(text):
    """(kind, lines): heading, code, table, item, text."""
    kind, lines = None, []
    for line in text.splitlines() + [""]:
        if line.startswith("#"):
            now = "heading"
        elif line.startswith("    ") and kind not in ("item", "text"):
            now = "code"
        elif line.startswith("|"):
            now = "table"
        elif line.startswith("* "):
            now = "item"
        elif not line.strip():
            now = "code" if kind == "code" else None
        else:
            now = kind if kind in ("item", "text") else "text"
        if now != kind or now == "heading" or line.startswith("* "):
            if kind:
                yield kind, lines
            lines = []
        kind = now
        lines.append(line)
    if kind and any(line.strip() for line in lines):
        yield kind, lines


def man_page(manual, version):
    out = [f'.TH TRAINYARD 1 "" "trainyard {version}" "User Commands"', ".SH NAME",
           "trainyard \\- predicts the time of a training step on a set of devices, and places its ops", ".SH SYNOPSIS",
           ".B trainyard", "VERB [options]"]
    first = True
    for kind, lines in blocks(manual):
        if kind == "heading":
            level = len(lines[0]) - len(lines[0].lstrip("#"))
            title = lines[0].lstrip("# ").replace("`", "")
            out += [".SH DESCRIPTION" if first else f".{'SH' if level < 3 else 'SS'} {escaped(title.upper())}"]
            first = False
        elif kind == "code":
            while lines and not lines[-1].strip():
                lines.pop()
            out += [".PP", ".nf", ".RS"] + [escaped(line[4:]) for line in lines] + [".RE", ".fi"]
        elif kind == "table":
            out += table(lines)
        elif kind == "item":
            out += [".IP \\(bu 2", inline(" ".join(lines)[2:])]
        else:
            out += [".PP", inline(" ".join(lines))]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("man_page.py MANUAL.md VERSION")
    with open(sys.argv[1], encoding="utf-8") as manual:
        sys.stdout.write(man_page(manual.read(), sys.argv[2]))
