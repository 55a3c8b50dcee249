#!/usr/bin/env bash
# Builds everything and runs the tests.
#   scripts/test.sh [PRESET] [CTEST_ARGUMENT...]     PRESET: cpu (default), asan, tsan
# The sanitizer presets run the unit tests, the end-to-end and reference tests run with cpu
# (CMakePresets.json).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-cpu}
shift || true

scripts/setup.sh
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # another clone finds what this one has compiled
cmake --preset "$preset"
cmake --build --preset "$preset"

ctest --preset "$preset" --parallel 2 "$@"
