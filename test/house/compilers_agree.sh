#!/usr/bin/env bash
# compilers_agree.sh BUILD BUILD: checks that the programs of two compilers write every built-in network, and a schedule
# of it, byte for byte alike.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
listed=$("$1/sim/trainyard" models --json | python3 -c '
import json, sys
for model in json.load(sys.stdin)["models"]:
    print(model["name"])')
mapfile -t models <<<"$listed"
differ=0
for model in "${models[@]}"; do
  for side in 1 2; do
    "${!side}/sim/trainyard" import "$model" -o "$folder/graph$side.json" >/dev/null 2>&1
    "${!side}/sim/trainyard" place "$model" --cluster 4xV100 --placer heft -o "$folder/schedule$side.json" >/dev/null 2>&1 ||
      [ $? = 1 ] # exit code 1: does not fit
  done
  for what in graph schedule; do
    cmp -s "$folder/${what}1.json" "$folder/${what}2.json" || { echo "$model: another $what in $2 than in $1"; differ=1; }
  done
done
echo "${#models[@]} networks compared"
exit $differ
