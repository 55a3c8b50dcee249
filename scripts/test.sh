#!/usr/bin/env bash
# Builds everything and runs the tests.
#   scripts/test.sh [PRESET] [CTEST_ARGUMENT...]     PRESET: cpu (default), asan, tsan
# The sanitizer presets run the unit tests; the end-to-end and reference tests run with cpu.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-cpu}
shift || true

scripts/setup.sh
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # another clone finds what this one has compiled
cmake --preset "$preset"
cmake --build --preset "$preset"

selection=()
case $preset in
  asan) selection=(--label-exclude 'e2e|reference') ;;
  # libgomp is not instrumented, so its barriers look like races: one OpenMP thread.
  tsan) selection=(--label-exclude 'e2e|reference'); export OMP_NUM_THREADS=1 ;;
esac
export LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp"
ctest --preset "$preset" --parallel 2 "${selection[@]}" "$@"
