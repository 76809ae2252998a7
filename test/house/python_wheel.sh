#!/usr/bin/env bash
# Builds a wheel as a user does (pip, meson-python, no network) and uses it from a script outside the source tree.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-/usr/bin/python3} # Debian's python has the packages for the build
folder=$(mktemp -d)
built=$PWD/build-wheel # beside `build`, so that ccache finds compiled objects
rm -rf "$built"
trap 'rm -rf "$folder" "$built"' EXIT

"$python" -m venv --system-site-packages "$folder/venv"
"$folder/venv/bin/pip" wheel --quiet --no-build-isolation --no-deps --config-settings builddir="$built" --wheel-dir "$folder" .
# The wheel holds the module only: no headers, no static library, no program.
"$python" - "$folder"/trainyard-*.whl <<'CHECK'
import sys, zipfile
names = [name for name in zipfile.ZipFile(sys.argv[1]).namelist() if ".dist-info/" not in name]
strange = [name for name in names if not name.startswith("trainyard/")]
assert not strange, strange
assert {"trainyard/__init__.py", "trainyard/_core.pyi", "trainyard/env.py", "trainyard/py.typed"} <= set(names), names
CHECK
"$folder/venv/bin/pip" install --quiet --no-index --no-deps "$folder"/trainyard-*.whl
cd "$folder"
env -u PYTHONPATH venv/bin/python - <<'SCRIPT'
import numpy as np
import trainyard as ty
from trainyard.env import PlacementEnv

assert "venv" in ty.__file__, ty.__file__
problem = ty.Problem(ty.Graph.zoo("resnet18:batch=8"), ty.Cluster("2xV100"))
mine = ty.compare(problem, ["heft", lambda problem, seed: np.zeros(problem.op_count, int)])
assert len(mine) == 2, mine.skipped
steps = ty.Batch(problem).makespans(np.zeros((3, problem.op_count), np.int32))
assert steps.tolist() == [ty.simulate(problem, ty.Schedule(np.zeros(problem.op_count, int))).makespan_ns] * 3
PlacementEnv(problem).reset(seed=1)
print("the wheel works: ResNet-18 on one of 2xV100 takes", steps[0], "ns")
SCRIPT
