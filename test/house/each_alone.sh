#!/usr/bin/env bash
# Compiles each source and each header of the library alone, without generating code: each_alone.sh BUILD
# BUILD is a build folder for this check. Unity builds compile many sources as one, so a missing include goes unnoticed
# if an earlier source has it. A header that the source of its name includes first is checked by that source. Templates
# used in precompiled headers are instantiated there, which saves three tenths of the work.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
[ -f "$build/build.ninja" ] ||
  CXX=clang++ meson setup "$build" -Dunity=off -Dwerror=true -Dtests=false -Dbenchmarks=disabled -Dnvrtc=disabled -Ddebug=false -Dcpp_args='-Xclang -fpch-instantiate-templates' >/dev/null
ninja -C "$build" -t targets all | sed -n 's/\.pch: .*/.pch/p' | xargs ninja -C "$build" --quiet
python3 - "$build" <<'END' | xargs -0 -P "$(nproc)" -I COMMAND sh -c 'COMMAND || exit 255'
import json, pathlib, re, shlex, sys

build = pathlib.Path(sys.argv[1]).resolve()
for entry in json.loads((build / "compile_commands.json").read_text()):
    source = (build / entry["file"]).resolve()
    if build in source.parents:  # generated source
        continue
    command = re.sub(r" -(o|MQ|MF) \S+| -MD", "", entry["command"]).replace(" -c ", " -fsyntax-only ")
    print(f"cd {shlex.quote(str(build))} && {command}", end="\0")
END
cd lib
alone() {
  [ "$(grep -m1 . "$1")" = "#pragma once" ] || { echo "$1: #pragma once is to be its first line"; return 255; }
  local source=${1%.hpp}.cpp
  [ "$(grep -m1 '^#include' "$source" 2>/dev/null)" != "#include \"$1\"" ] || return 0
  printf '#include "%s"\n#include "%s"\n' "$1" "$1" |
    g++ -std=c++20 -Wall -Wextra -Werror -Wno-missing-field-initializers -fsyntax-only -I. -isystem /usr/include/eigen3 -x c++ - ||
    { echo "$1 does not compile alone"; return 255; }
}
export -f alone
find trainyard -name '*.hpp' | sort | xargs -P "$(nproc)" -I HEADER bash -c 'alone HEADER || exit 255'
echo "$(find trainyard -name '*.hpp' | wc -l) headers compile alone"
