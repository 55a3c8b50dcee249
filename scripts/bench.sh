#!/usr/bin/env bash
# Measures pfc and the PyTorch reference alternately in one run on the same two threads. PyTorch gets
# the fastest installed BLAS, allocator and layout (docs/benchmarks/cpu.md).
#   scripts/bench.sh [step] [ARGUMENT...]     a whole training step: r18, r50, mbf at batch 32
#   scripts/bench.sh head [ARGUMENT...]       a step of the classification layer over a million classes
#                                             (--check 3 7: more classes, and two workers; --check 4:
#                                             against what memory and matrix products allow)
#   scripts/bench.sh kernels [ARGUMENT...]    single kernels (Google Benchmark's arguments)
#   scripts/bench.sh embed [ARGUMENT...]      pfcctl embed and verify against the forward pass alone, and memory
#   scripts/bench.sh snapshots [ARGUMENT...]  cost of in-memory snapshots while nothing fails
#   scripts/bench.sh plan [ARGUMENT...]       accuracy of predicted step times of 20 jobs
#   scripts/bench.sh watching [ARGUMENT...]   cost of monitoring per step: with all monitors, and without any
# First installs missing packages (scripts/setup.sh build bench) and builds.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
source scripts/build_environment.sh
what=${1:-step}
shift || true
case $what in
  step | head | kernels | embed | snapshots | plan | watching) ;;
  *)
    echo "bench: no benchmark '$what'; expected step, head, kernels, embed, snapshots, plan or watching" >&2
    exit 2 ;;
esac

scripts/setup.sh build bench
cmake --preset cpu -DPFC_TESTS=ON >/dev/null
case $what in
  step | snapshots | plan | watching)
    cmake --build --preset cpu --target programs
    exec /usr/bin/python3 -B bench/*/"bench_$what.py" --bin build/cpu/bin "$@" ;;
  embed)
    cmake --build --preset cpu --target programs evaluation_benchmark
    exec /usr/bin/python3 -B bench/cpu/bench_embed.py --bin build/cpu/bin "$@" ;;
  head)
    cmake --build --preset cpu --target head_benchmark head_limits
    exec /usr/bin/python3 -B bench/cpu/bench_head.py \
      --program build/cpu/benchmarks/head_benchmark "$@" ;;
  kernels)
    cmake --build --preset cpu --target kernels_benchmark
    exec build/cpu/benchmarks/kernels_benchmark "$@" ;;
esac
