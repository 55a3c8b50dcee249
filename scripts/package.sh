#!/usr/bin/env bash
# Builds the programs and a Debian package, build/PRESET/pfc_VERSION_ARCHITECTURE.deb.
#   scripts/package.sh [PRESET]     PRESET: cpu (default) or cuda
# First installs missing packages (scripts/setup.sh build package).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
source scripts/build_environment.sh
preset=${1:-cpu}
if [[ ! $preset =~ ^(cpu|cuda)$ ]]; then
  echo "package: no preset '$preset'; expected cpu or cuda" >&2
  exit 2
fi

scripts/setup.sh build package
cmake --preset "$preset"
cmake --build --preset "$preset" --target installable
cd "build/$preset"
# Not CMake's target "package", which would also build the tests.
cpack
