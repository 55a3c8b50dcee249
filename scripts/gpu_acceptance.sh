#!/usr/bin/env bash
# Tests and measures the CUDA side on a machine with a GPU, and writes docs/benchmarks/<gpu>.md.
#   scripts/gpu_acceptance.sh [--call a] [--only tests,step] [--minutes 9] [--bin FOLDER]
# Without a GPU, runs nothing and exits with 3. See --help for more options.
set -euo pipefail
started_in=$PWD
cd "$(dirname "$0")/.."
source scripts/build_environment.sh
root=$PWD
cd "$started_in"  # --bin may be relative to it
exec python3 -B "$root/bench/acceptance/gpu_acceptance.py" "$@"
