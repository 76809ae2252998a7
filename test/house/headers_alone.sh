#!/usr/bin/env bash
# Compiles each header of the library alone, twice included: headers_alone.sh [COMPILER]
# Where a source file beside it includes it first, the build has compiled it alone already.
set -euo pipefail
cd "$(dirname "$0")/../../lib"
export compiler=${1:-g++}
alone() {
  local source=${1%.hpp}.cpp
  [ "$(grep -m1 '^#include' "$source" 2>/dev/null)" != "#include \"$1\"" ] || return 0
  printf '#include "%s"\n#include "%s"\n' "$1" "$1" |
    "$compiler" -std=c++20 -Wall -Wextra -Werror -Wno-missing-field-initializers -fsyntax-only -I. -isystem /usr/include/eigen3 -x c++ - ||
    { echo "$1 does not compile alone"; return 255; }
}
export -f alone
find trainyard -name '*.hpp' | sort | xargs -P "$(nproc)" -I HEADER bash -c 'alone HEADER || exit 255'
for header in $(find trainyard -name '*.hpp'); do [ "$(grep -m1 . "$header")" = "#pragma once" ] || { echo "$header: #pragma once is to be its first line"; exit 1; }; done
echo "$(find trainyard -name '*.hpp' | wc -l) headers compile alone"
