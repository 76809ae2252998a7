#!/usr/bin/env bash
# subproject.sh: builds outside programs with Trainyard as a Meson subproject, under the thread sanitizer and without
# precompiled headers, and runs them: a program that places two ops, and the tests that simulate and plan on many
# threads.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$top/build-subproject # a fixed folder, so that ccache finds compiled objects
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT
cp "$top"/test/house/outside/* "$top/data/examples/cpp/own_placer.cpp" "$work"
ln -s "$top/test" "$work/tests"
mkdir "$work/subprojects"
ln -s "$top" "$work/subprojects/trainyard"
meson setup "$work/build" "$work" -Doptimization=0 -Ddebug=false -Dunity=on -Dunity_size=8 -Db_sanitize=thread -Db_lundef=false -Db_pch=false --wrap-mode=nodownload --force-fallback-for=trainyard \
  >"$work/log" || { cat "$work/log"; exit 1; }
ninja -C "$work/build" --quiet
[ "$("$work/build/outside")" = "5 ns" ]
TSAN_OPTIONS=halt_on_error=1 "$work/build/threads"
echo "programs outside build with Trainyard as a subproject, and simulate and plan on many threads under the thread sanitizer"
