#!/bin/sh
# Trains the policy of this folder anew: make.sh BUILD. The same bytes on every machine; half a minute of one core.
set -eu
trainyard=$1/sim/trainyard
here=$(dirname "$0")
# Of each family the first 6 of the 16 that are for training; members from the 17th on are for tests.
members=$(for family in cifar10 ptb nmt; do "$trainyard" models family:$family --seed 1 --count 6 | grep -o '[a-z_0-9]*:[a-z0-9=,]*'; done)
# shellcheck disable=SC2086 # one word each
"$trainyard" train $members inception_v3 googlenet resnet50 nasnet_mobile transformer rnnlm \
  --cluster 4xV100 --placer placeto --updates 200 --seed 1 -o "$here/general.json"
