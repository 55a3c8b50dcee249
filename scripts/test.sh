#!/usr/bin/env bash
# Builds everything and runs the tests.
#   scripts/test.sh [PRESET] [--targets A,B] [CTEST_ARGUMENT...]
# PRESET: cpu (default), asan, tsan, cuda
# --targets builds only these test programs; choose their tests with ctest's -R.
# Installs first what is missing for it: scripts/setup.sh build test, and for cpu, with its
# end-to-end tests, also watch, browser and deploy.
# Prints the output of failed tests again at its end. One or two end-to-end tests that failed beside
# others, while all else passed, are run once more, alone (CONTRIBUTING.md).
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
  # On a GPU one after the other; where there is none, each only starts and reports that it did not run.
  together=()
  [[ -e /dev/nvidiactl ]] || together=(--parallel 2)
  exec ctest --preset cuda -L gpu "${together[@]}" "$@"
fi
cmake --preset "$preset" -DPFC_TESTS=ON
cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"}

logs=build/$preset/Testing/Temporary
last_lines() {  # of each failed test's output
  local name
  while IFS=: read -r _ name; do
    printf '\ntest: %s failed; the end of its output:\n' "$name"
    awk -v begin="\"$name\" start time:" 'index($0, begin) == 1 { on = 1 }
      on { print } /^<end of output>/ { on = 0 }' "$logs/LastTest.log" | tail -60
  done <"$logs/LastTestsFailed.log"
}

status=0
ctest --preset "$preset" --parallel 2 "$@" || status=$?
tests_failed=8
((status == tests_failed)) || exit "$status"
last_lines
failed=$(cut -d: -f2 "$logs/LastTestsFailed.log")
beside=$(ctest --preset "$preset" -N -L '^beside$' | sed -n 's/^ *Test *#[0-9]*: //p')
if ! grep -qvxFf <(echo "$beside") <<<"$failed" && (($(wc -l <<<"$failed") <= 2)); then
  printf '\ntest: once more, alone: %s\n' "${failed//$'\n'/ }"
  status=0
  ctest --preset "$preset" --rerun-failed || status=$?
  if ((status == 0)); then
    echo "test: passed alone, failed beside others (above, with its output): ${failed//$'\n'/ }"
  elif ((status == tests_failed)); then
    last_lines
  fi
fi
exit "$status"
