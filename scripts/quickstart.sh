#!/usr/bin/env bash
# From nothing to a trained model: installs, builds, draws a data set, trains with two workers.
#   scripts/quickstart.sh [FOLDER]     FOLDER: where data and results go (build/quickstart)
# Says at the start about how long it will take here, and at the end how long each part took.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
out=${1:-build/quickstart}
bin=build/cpu/bin
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # another clone finds what this one has compiled

table=()
part() {  # part NAME COMMAND [ARGUMENT...]: runs it, and notes how long it took
  local name=$1 start=$SECONDS
  shift
  "$@"
  table+=("$name" "$((SECONDS - start))")
}

# What building, and drawing and training, take on one core, in compilations of common/config/job_json.cc: about
# right on a machine with AVX-512. Another machine is taken to do both slower or faster by as much.
readonly build_units=75 training_units=60
say_how_long() {
  local object start left all ms
  object=$(mktemp)
  start=${EPOCHREALTIME/[.,]/}
  g++ -std=c++20 -O2 -I. -c common/config/job_json.cc -o "$object"
  ms=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
  rm -f "$object"
  left=$(ninja -C build/cpu -n programs | grep -c '^\[' || true)
  all=$(ninja -C build/cpu -t commands programs | wc -l)
  awk -v ms="$ms" -v cores="$(nproc)" -v left="$left" -v all="$all" \
    -v build="$build_units" -v training="$training_units" 'BEGIN {
      build_minutes = build * ms / cores / 60000 * left / all
      training_minutes = training * ms / (cores < 2 ? 1 : 2) / 60000
      printf "quickstart: about %.0f minutes from here on, on %d cores as busy as they are now: ",
        build_minutes + training_minutes + 0.5, cores
      printf "building %.1f (less where ccache has it), drawing and training %.1f\n",
        build_minutes, training_minutes
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
part "drawing faces" draw
part "training" train

echo
echo "accuracy on identities never trained on:"
grep -h 'Accuracy-Flip' "$out/model/training.log" | tail -n 1 | sed 's/.*-\[/  [/'
echo "model:   $out/model/backbone.safetensors"
echo "log:     $out/model/training.log"
echo "metrics: $out/model/metrics.jsonl"
printf '%-20s %4s s\n' "${table[@]}" total "$SECONDS"
