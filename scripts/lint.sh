#!/usr/bin/env bash
# Checks the layout of all sources with clang-format.
#   scripts/lint.sh
#   scripts/lint.sh tidy [FILE...]    also runs clang-tidy on the FILEs, or on all sources: half a minute a file
#   scripts/lint.sh alone [FILE...]   also compiles each FILE, or each source, by itself. This finds missing #includes,
#                                     which the presets hide, because they compile several files together
# First installs missing packages (scripts/setup.sh lint; for tidy and alone also build test).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
scripts/setup.sh lint
git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format --dry-run -Werror
[[ ${1:-} =~ ^(tidy|alone)$ ]] || exit 0
what=$1
shift
scripts/setup.sh build test
files=("$@")
# Creates the compile commands for single files, and the protocol's headers.
source scripts/build_environment.sh
cmake -S . -B build/lint -G Ninja -DPFC_CUDA=OFF -DPFC_TESTS=ALL >/dev/null
cmake --build build/lint --target pfc_coordinator_proto pfc_journal_proto pfc_tensorboard_proto
if [[ $what == alone ]]; then
  objects=("${files[@]/#/$PWD/}")
  objects=("${objects[@]/%/^}")  # ninja's name for the targets made from these files
  ((${#files[@]})) || objects=(all)
  cmake --build build/lint --target "${objects[@]}"
  exit
fi
((${#files[@]})) || mapfile -t files < <(git ls-files '*.cc' ':!tests' ':!bench' \
  ':!kernels/cpu/vector/grouped_conv.cc')  # uses __builtin_shuffle, which only GCC has
# clang-tidy needs an omp.h. clang's is in libomp-16-dev, which would remove any other libomp-dev. Use
# g++'s without the attributes that only g++ knows.
mkdir -p build/lint
sed 's/__malloc__ (omp_free),//' "$(g++ -print-file-name=include/omp.h)" >build/lint/omp.h
# 16, because older versions cannot parse std::source_location of libstdc++ 12.
printf '%s\n' "${files[@]}" |
  xargs -P 2 -n 1 clang-tidy-16 -p build/lint --quiet --extra-arg="-isystem$PWD/build/lint"
