#!/usr/bin/env bash
# Compiles what a simulation needs, and no more, under the thread sanitizer, and runs the tests that use threads:
# thread_sanitizer.sh [COMPILER]
set -euo pipefail
cd "$(dirname "$0")/../.."
export compiler=${1:-g++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work
compile() {
  "$compiler" -std=c++20 -O1 -g1 -fsanitize=thread -Ilib -Itest -c "$1" -o "$work/${1//\//-}.o"
}
export -f compile
{
  printf '%s\n' lib/trainyard/{core,graph,cluster,model,cost,transform,problem,simulate,load,bound}/*.cpp
  printf '%s\n' lib/trainyard/solve/{basis_inverse,linear_program,no_cbc,no_clp,simplex}.cpp
  printf '%s\n' test/simulate/{threads,batch,random_problem}.cpp test/support/main.cpp
} | xargs -P "$(nproc)" -I FILE bash -c 'compile FILE || exit 255'
"$compiler" -fsanitize=thread "$work"/*.o -lfmt -o "$work/threads"
TSAN_OPTIONS=halt_on_error=1 "$work/threads"
