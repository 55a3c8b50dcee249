#!/usr/bin/env bash
# Installs, builds, generates a data set, and trains a model with two workers.
#   scripts/quickstart.sh [FOLDER]     FOLDER: for data and results (default build/quickstart)
# Prints the estimated time at the start and the time of each part at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
source scripts/build_environment.sh
out=${1:-build/quickstart}
bin=build/cpu/bin

table=()
part() {  # part NAME COMMAND [ARGUMENT...]: runs it and records its time
  local name=$1 start=$SECONDS
  shift
  "$@"
  table+=("$name" "$((SECONDS - start))")
}

# Times of building, and of generating data and training, as multiples of compile_seconds.
readonly build_units=180 training_units=30
say_how_long() {
  local seconds building
  seconds=$(compile_seconds)
  building=$(build_minutes "$seconds" "$build_units" cpu programs)
  LC_ALL=C awk -v building="$building" -v training="$(LC_ALL=C awk "BEGIN { print $training_units * $seconds / 60 }")" \
    -v cores="$(nproc)" 'BEGIN {
      printf "quickstart: about %.0f minutes from here on, on %d cores: ", building + training + 0.5, cores
      printf "building %.1f (less where ccache has compiled it before), generating data and training %.1f\n",
        building, training
    }'
}

build() { cmake --build --preset cpu --target programs; }

draw() {
  rm -rf "$out"
  mkdir -p "$out"
  "$bin/pfcctl" data synth --identities 200 --images-per-identity 30 --size 64 --out "$out/data"
}

train() {
  "$bin/pfc-coordinator" --hosts localhost:2 --port 0 --http-port 0 \
    --config examples/quickstart.json --set "rec=$out/data" --set "output=$out/model"
}

part "installing packages" scripts/setup.sh build
cmake --preset cpu
say_how_long
part "building" build
"$bin/pfcctl" check
part "generating data" draw
part "training" train

echo
echo "accuracy on identities never trained on:"
grep -h 'Accuracy-Flip' "$out/model/training.log" | tail -n 1 | sed 's/.*-\[/  [/'
echo "model:   $out/model/backbone.safetensors"
echo "log:     $out/model/training.log"
echo "metrics: $out/model/metrics.jsonl"
printf '%-20s %4s s\n' "${table[@]}" total "$SECONDS"
