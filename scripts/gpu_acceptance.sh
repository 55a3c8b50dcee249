#!/usr/bin/env bash
# Proves and measures the CUDA side on a machine with a GPU, and writes docs/benchmarks/<gpu>.md.
#   scripts/gpu_acceptance.sh [--only tests,step] [--minutes 9] [--bin FOLDER]
# Exits with 3, and has run nothing, where there is no GPU; --help tells the rest.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1  # another clone finds what this one has compiled
exec python3 -B "$root/tests/acceptance/gpu_acceptance.py" "$@"
