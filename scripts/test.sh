#!/usr/bin/env bash
# Builds everything and runs the tests.
#   scripts/test.sh [PRESET] [--targets A,B] [CTEST_ARGUMENT...]
# PRESET: cpu (default), asan, tsan, cuda
# --targets builds only these test programs; choose their tests with ctest's -R.
# Installs first what is missing for it: scripts/setup.sh build test, and for cpu, with its
# end-to-end tests, also watch, browser and deploy.
# The sanitizer presets run the unit tests, the end-to-end and reference tests run with cpu
# (CMakePresets.json). cuda builds the programs with CUDA and runs what needs a GPU, which is
# reported as not run where there is none; PFC_CUDA_ARCHITECTURES="90" builds for one kind alone.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
preset=${1:-cpu}
shift || true
if [[ ! $preset =~ ^(cpu|asan|tsan|cuda)$ ]]; then
  echo "test: no preset '$preset'; expected cpu, asan, tsan or cuda" >&2
  exit 2
fi

targets=()
if [[ ${1:-} == --targets ]]; then
  IFS=, read -ra targets <<<"${2:?"test: --targets expects names of test programs"}"
  shift 2
fi

parts=(build test)
[[ $preset == cpu ]] && parts+=(watch browser deploy)
scripts/setup.sh "${parts[@]}"
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # another clone finds what this one has compiled
if [[ $preset == cuda ]]; then
  cmake --preset cuda -DPFC_CUDA=ON -DPFC_TESTS=ON \
    ${PFC_CUDA_ARCHITECTURES:+-DPFC_CUDA_ARCHITECTURES="$PFC_CUDA_ARCHITECTURES"}
  cmake --build --preset cuda --target programs gpu_tests
  for program in pfc-coordinator pfc-agent pfc-worker pfcctl; do
    build/cuda/bin/$program --help >/dev/null
  done
  exec ctest --preset cuda -L gpu "$@"
fi
cmake --preset "$preset" -DPFC_TESTS=ON
cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"}

ctest --preset "$preset" --parallel 2 "$@"
