#!/usr/bin/env bash
# Builds the programs and makes a Debian package of them, build/PRESET/pfc_VERSION_ARCHITECTURE.deb.
#   scripts/package.sh [PRESET]     PRESET: cpu (default) or cuda
# Installs first what is missing for it (scripts/setup.sh build package).
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
# A target of CMake's, "package", would build the tests as well.
cpack
