#!/usr/bin/env bash
# Measures, alternating with the PyTorch reference in one run on the same two threads. PyTorch gets the
# fastest BLAS, allocator and layout of those that are installed (docs/benchmarks/cpu.md).
#   scripts/bench.sh [step] [ARGUMENT...]     a whole training step: r18, r50, mbf at batch 32
#   scripts/bench.sh head [ARGUMENT...]       a step of the classification layer over a million classes
#                                             (--check 3 7: more classes, and two workers)
#   scripts/bench.sh kernels [ARGUMENT...]    single kernels (Google Benchmark's arguments)
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-step}
shift || true

scripts/setup.sh
cmake --preset cpu >/dev/null
case $what in
  step)
    cmake --build --preset cpu --target programs
    exec /usr/bin/python3 tests/reference/bench_step.py --bin build/cpu/bin "$@" ;;
  head)
    cmake --build --preset cpu --target head_benchmark
    exec /usr/bin/python3 -B tests/reference/bench_head.py \
      --program build/cpu/benchmarks/head_benchmark "$@" ;;
  kernels)
    cmake --build --preset cpu --target kernels_benchmark
    exec build/cpu/benchmarks/kernels_benchmark "$@" ;;
  *)
    sed -n '2,8p' "$0" >&2
    exit 2 ;;
esac
