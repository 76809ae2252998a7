#!/usr/bin/env python3
"""Prints the headers that the umbrella header reaches, one a line: the public library, which is what is installed."""
import pathlib
import re

LIBRARY = pathlib.Path(__file__).resolve().parent


def reach(header, seen):
    if header not in seen:
        seen.add(header)
        for name in re.findall(r'^#include "(trainyard/[^"]+)"', (LIBRARY / header).read_text(), re.MULTILINE):
            reach(name, seen)
    return seen


print("\n".join(sorted(reach("trainyard/trainyard.hpp", set()))))
