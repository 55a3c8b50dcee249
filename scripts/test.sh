#!/usr/bin/env bash
# Builds and runs the tests.
#   scripts/test.sh                    all tests, each once: presets cpu, then asan
#   scripts/test.sh PRESET [--targets A,B] [CTEST_ARGUMENT...]
# PRESET: cpu     optimised build: end-to-end tests, comparisons with PyTorch, and unit tests that compute
#         asan    AddressSanitizer and UndefinedBehaviorSanitizer: all other unit tests
#         tsan    ThreadSanitizer: tests of threads
#         cuda    builds the CUDA side and runs the GPU tests, which report "not run" without a GPU
# PFC_CUDA=BESIDE scripts/test.sh cpu does the work of cpu and cuda, and compiles the common code once.
# PFC_CUDA_ARCHITECTURES="90" builds CUDA code for one architecture only.
# --targets builds only these test programs; select their tests with ctest's -R.
# First installs missing packages (scripts/setup.sh). Prints the estimated time at the start, and
# the output of failed tests and the slowest test cases at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
source scripts/build_environment.sh
presets=(cpu asan)
if (($#)); then
  presets=("$1")
  shift
fi
if [[ ! ${presets[0]} =~ ^(cpu|asan|tsan|cuda)$ ]]; then
  echo "test: no preset '${presets[0]}'; expected cpu, asan, tsan or cuda" >&2
  exit 2
fi
only=()
if [[ ${1:-} == --targets ]]; then
  IFS=, read -ra only <<<"${2:?"test: --targets expects names of test programs"}"
  shift 2
fi

parts=(build test)
[[ ${presets[0]} == cpu ]] && parts+=(watch browser deploy)
scripts/setup.sh "${parts[@]}"

targets_of() {  # PRESET: prints the targets to build
  if ((${#only[@]})); then
    echo "${only[@]}"
  elif [[ $1 == cpu ]]; then
    echo all
  elif [[ $1 == cuda ]]; then
    echo programs gpu_tests
  else
    echo unit_tests
  fi
}

# Times of building and of running a preset's tests, as multiples of compile_seconds.
declare -A build_units=([cpu]=260 [asan]=240 [tsan]=100 [cuda]=150) test_units=([cpu]=150 [asan]=70 [tsan]=35 [cuda]=2)

say_how_long() {
  local seconds preset minutes=0
  seconds=$(compile_seconds)
  for preset in "${presets[@]}"; do
    read -ra targets <<<"$(targets_of "$preset")"
    minutes=$(LC_ALL=C awk -v sum="$minutes" -v seconds="$seconds" -v units="${test_units[$preset]}" \
      -v building="$(build_minutes "$seconds" "${build_units[$preset]}" "$preset" "${targets[@]}")" \
      'BEGIN { print sum + building + units * seconds / 60 }')
  done
  LC_ALL=C awk -v minutes="$minutes" 'BEGIN {
    printf "test: about %.0f minutes from here on (less where ccache has compiled it before)\n", minutes + 0.5 }'
}

last_lines() {  # PRESET: prints the end of each failed test's output
  local name logs=build/$1/Testing/Temporary
  [[ -s $logs/LastTestsFailed.log ]] || return 0
  while IFS=: read -r _ name; do
    printf '\ntest: %s failed; the end of its output:\n' "$name"
    awk -v begin="\"$name\" start time:" 'index($0, begin) == 1 { on = 1 }
      on { print } /^<end of output>/ { on = 0 }' "$logs/LastTest.log" | tail -60
  done <"$logs/LastTestsFailed.log"
}

configure() {
  if [[ $1 == cuda ]]; then
    cmake --preset cuda -DPFC_CUDA=ON -DPFC_TESTS=ON \
      ${PFC_CUDA_ARCHITECTURES:+-DPFC_CUDA_ARCHITECTURES="$PFC_CUDA_ARCHITECTURES"}
  else
    cmake --preset "$1" -DPFC_TESTS=ON ${PFC_CUDA:+-DPFC_CUDA="$PFC_CUDA"} \
      ${PFC_CUDA_ARCHITECTURES:+-DPFC_CUDA_ARCHITECTURES="$PFC_CUDA_ARCHITECTURES"}
  fi
}

run_tests() {  # PRESET [CTEST_ARGUMENT...]
  local preset=$1 together=(--parallel 2)
  [[ $preset == cpu ]] && together=(--parallel 4)  # end-to-end tests mostly wait
  shift
  if [[ $preset == cuda ]]; then
    for program in pfc-coordinator pfc-agent pfc-worker pfcctl; do
      "build/cuda/bin/$program" --help >/dev/null || return
    done
    # With a real GPU, run one test at a time.
    [[ -e /dev/nvidiactl ]] && together=()
    set -- -L gpu "$@"
  fi
  ctest --preset "$preset" "${together[@]}" "$@"
}

for preset in "${presets[@]}"; do
  configure "$preset"
done
((${#only[@]})) || say_how_long
status=0 tests_failed=8
for preset in "${presets[@]}"; do
  read -ra targets <<<"$(targets_of "$preset")"
  cmake --build --preset "$preset" --target "${targets[@]}"
  failed=0
  run_tests "$preset" "$@" || failed=$?
  if ((failed)); then
    status=$failed
    ((failed != tests_failed)) || last_lines "$preset"
  fi
done
echo
/usr/bin/python3 -B tests/support/test_times.py "${presets[@]/#/build/}" || true
exit "$status"
