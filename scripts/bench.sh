#!/usr/bin/env bash
# Runs a benchmark on this machine's CPU.
#   scripts/bench.sh [step] [ARGUMENT...]     time of a whole training step: r18, r50, mbf at batch 32
#   scripts/bench.sh head [ARGUMENT...]       time of a step of the classification layer over a million classes
#                                             (--check 3: more and more classes; --check 4: compared with the limits
#                                             of this machine's memory and matrix products; --check 7: two workers)
#   scripts/bench.sh kernels [ARGUMENT...]    time of single kernels (Google Benchmark's arguments)
#   scripts/bench.sh embed [ARGUMENT...]      speed of pfcctl embed and verify, compared with the network's forward
#                                             pass alone, and the memory of embed
#   scripts/bench.sh snapshots [ARGUMENT...]  cost of in-memory snapshots while nothing fails
#   scripts/bench.sh plan [ARGUMENT...]       errors of the step times that pfcctl plan predicts, for 20 jobs
#   scripts/bench.sh watching [ARGUMENT...]   how much open pages and readers of metrics and status slow a step
# step and head measure pfc and the PyTorch reference alternately in one run on the same threads. PyTorch uses the
# fastest installed BLAS, allocator and layout (docs/benchmarks/cpu.md).
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
