#!/usr/bin/env bash
# Compiles each header of the library alone, twice included: headers_alone.sh [COMPILER]
set -euo pipefail
cd "$(dirname "$0")/../../lib"
export compiler=${1:-g++}
find trainyard -name '*.hpp' | sort | xargs -P "$(nproc)" -I HEADER sh -c \
  'printf "#include \"HEADER\"\n#include \"HEADER\"\n" | "$compiler" -std=c++20 -Wall -Wextra -Werror -Wno-missing-field-initializers -fsyntax-only -I. -isystem /usr/include/eigen3 -x c++ - || { echo "HEADER does not compile alone"; exit 255; }'
echo "$(find trainyard -name '*.hpp' | wc -l) headers compile alone"
