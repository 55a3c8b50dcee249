#!/usr/bin/env bash
# From nothing to a trained model: installs, builds, draws a data set, trains with two workers.
#   scripts/quickstart.sh [FOLDER]     FOLDER: where data and results go (build/quickstart)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/quickstart}
bin=build/cpu/bin

scripts/setup.sh
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # another clone finds what this one has compiled
cmake --preset cpu
cmake --build --preset cpu --target programs
"$bin/pfcctl" check

rm -rf "$out"
mkdir -p "$out"
"$bin/pfcctl" data synth --identities 200 --images-per-identity 30 --out "$out/data"
"$bin/pfc-coordinator" --hosts localhost:2 --port 0 --http-port 0 --config examples/quickstart.json \
  --set "rec=$out/data" --set "output=$out/model"

echo
echo "accuracy on identities never trained on:"
grep -h 'Accuracy-Flip' "$out/model/training.log" | tail -n 1 | sed 's/.*-\[/  [/'
echo "model:   $out/model/backbone.safetensors"
echo "log:     $out/model/training.log"
echo "metrics: $out/model/metrics.jsonl"
