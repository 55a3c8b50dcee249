#!/usr/bin/env bash
# Checks layout, and with "tidy" also runs clang-tidy (minutes; needs a configured build/cpu).
#   scripts/lint.sh [tidy [FILE...]]
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.h' '*.cc' | xargs clang-format --dry-run -Werror
[[ ${1:-} == tidy ]] || exit 0
shift
files=("$@")
((${#files[@]})) || mapfile -t files < <(git ls-files '*.cc' ':!tests')
printf '%s\n' "${files[@]}" | xargs -P 2 -n 1 clang-tidy -p build/cpu --quiet
