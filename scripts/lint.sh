#!/usr/bin/env bash
# Checks layout, and with "tidy" also runs clang-tidy on the sources or on those given. It takes
# half a minute a file, and needs a build/cpu that has been built (for the protocol's headers).
#   scripts/lint.sh [tidy [FILE...]]
# Installs first what is missing for it (scripts/setup.sh lint).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
scripts/setup.sh lint
git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format --dry-run -Werror
[[ ${1:-} == tidy ]] || exit 0
shift
files=("$@")
((${#files[@]})) || mapfile -t files < <(git ls-files '*.cc' ':!tests' \
  ':!kernels/cpu/vector/grouped_conv.cc')  # __builtin_shuffle is GCC's alone
# clang-tidy needs an omp.h. clang's own is in libomp-16-dev, which would remove any other libomp-dev:
# take g++'s, without the attributes that only g++ knows.
mkdir -p build/lint
sed 's/__malloc__ (omp_free),//' "$(g++ -print-file-name=include/omp.h)" >build/lint/omp.h
# 16: older ones do not know std::source_location of libstdc++ 12.
printf '%s\n' "${files[@]}" |
  xargs -P 2 -n 1 clang-tidy-16 -p build/cpu --quiet --extra-arg="-isystem$PWD/build/lint"
