#!/usr/bin/env bash
# screenshots.sh BUILD: pictures of the program's pages, in BUILD/screenshots. Exits with 4 without a browser or node.
set -euo pipefail
cd "$(dirname "$0")/../.."
pictures=$(cd "$1" && pwd)/screenshots
trainyard=$(cd "$1" && pwd)/sim/trainyard
for browser in chromium chromium-browser google-chrome ''; do command -v "$browser" >/dev/null && break; done
if [ -z "$browser" ] || ! command -v node >/dev/null; then
  echo "no pictures of the pages: they need chromium and node"
  exit 4
fi
rm -rf "$pictures"
mkdir -p "$pictures"
cat >"$pictures/study.toml" <<'END'
name = "scaling"
cluster = ["2xV100", "4xV100", "8xV100"]
model = ["resnet50", "vgg16"]
placer = ["heft", "data-parallel", "expert"]
END
(
  cd "$pictures"
  "$trainyard" compare inception_v3 --cluster 4xV100 --placers heft,etf,expert,single,data-parallel --report compare.html
  "$trainyard" validate lenet:batch=8 --placer round-robin --cluster 2xcpu-core --backend recording --rank 4 --report validate.html
  "$trainyard" sweep study.toml -o sweep
  mv sweep/index.html sweep.html
  rm -r sweep study.toml
) >/dev/null
node test/report/screenshots.mjs "$browser" "$pictures" "$pictures"/{compare,validate,sweep}.html
