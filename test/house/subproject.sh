#!/usr/bin/env bash
# Builds the outside program with Trainyard as a Meson subproject, and runs it: subproject.sh
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$top"/test/house/outside/* "$work"
mkdir "$work/subprojects"
ln -s "$top" "$work/subprojects/trainyard"
# Not optimized: it is to build, not to be fast.
meson setup "$work/build" "$work" --buildtype=plain --wrap-mode=nodownload --force-fallback-for=trainyard >"$work/log" || { cat "$work/log"; exit 1; }
ninja -C "$work/build" --quiet
[ "$("$work/build/outside")" = "5 ns" ]
echo "the outside program builds with Trainyard as a subproject"
