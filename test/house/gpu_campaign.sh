#!/usr/bin/env bash
# Rehearses the GPU campaign without a GPU: each step succeeds, and the archive has every file to be kept. A campaign
# that is stopped during a step packs its files at once.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
profiler/gpu_campaign "$out/all" all recording
kept='lenet-1-float32-calibration.json offload-lenet-1000kB.schedule.json validate-offload-lenet-1000kB.log validate-lenet-2-float32-bounced.log'
! "${TRAINYARD_PYTHON:-python3}" -c 'import torch' 2>/dev/null ||
  kept+=' corun.json lenet-1-float32-torch.placed.json.gz lenet-1-float32-torch.runs.json traces/lenet-bfloat16.et.json.gz'
for file in $kept; do
  tar -tzf "$out/all/campaign.tar.gz" "./$file" >/dev/null
done

printf '#!/bin/sh\ntouch "%s/begun"\nexec sleep 300\n' "$out" >"$out/hangs"
chmod +x "$out/hangs"
TRAINYARD_PROGRAM=$out/hangs profiler/gpu_campaign "$out/stopped" collect recording >/dev/null 2>&1 &
campaign=$!
until [ -e "$out/begun" ]; do sleep 0.1; done
begin=$SECONDS
kill -TERM "$campaign"
code=0
wait "$campaign" || code=$?
[ "$code" = 143 ] && [ $((SECONDS - begin)) -lt 60 ] # the step would have run for 80 s
tar -tzf "$out/stopped/campaign.tar.gz" ./cpu.toml >/dev/null
echo "the campaign ends well, and packs at once where it is stopped"
