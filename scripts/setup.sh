#!/usr/bin/env bash
# Installs Debian packages, and nothing else.
#   scripts/setup.sh [PART...]
# PART: build    compilers and libraries: what building and training need (the default)
#       test     what the tests need as well: GoogleTest, Python, PyTorch as a reference
#       bench    what the benchmarks need as well: Google Benchmark, PyTorch, OpenBLAS
#       launchers Open MPI and Slurm: without them, their tests are not run
#       watch    Prometheus and Alertmanager: without them, their tests are not run
#       browser  Chromium: without it, the tests of the page at / are not run
#       deploy   systemd and YAML for Python: without them, tests of deploy/ are not run
#       lint     clang-format and clang-tidy
#       package  what scripts/package.sh needs as well
# Safe to run again: installed packages are kept. Never removes a package: if an installation would
# remove one, it stops with a message. docs/install.md gives the purpose of each library.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"

build=(
  g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libboost-dev libboost-context-dev nlohmann-json3-dev prometheus-cpp-dev
  libgloo-dev libdnnl-dev libturbojpeg0-dev libpng-dev zlib1g-dev libwebp-dev libcli11-dev libspdlog-dev libssl-dev
  libhwloc-dev libonnx-dev liburing-dev
)
# libopenblas0-pthread: without it PyTorch multiplies matrices several times more slowly. faketime
# and nftables: for faults in tests/e2e/check_test.py. LMDB and dmlc-core write test files for our
# readers.
test=(git libgtest-dev libgmock-dev libbenchmark-dev python3 python3-numpy python3-torch faketime nftables
  protobuf-compiler python3-protobuf python3-onnx python3-pil liblmdb-dev python3-lmdb libdmlc-dev libopenblas0-pthread)
bench=(libgtest-dev libgmock-dev libbenchmark-dev python3 python3-numpy python3-torch
  libopenblas0-pthread libopenblas0-openmp libjemalloc2 libtcmalloc-minimal4)
# Not libomp-dev: its versions exclude each other, and scripts/lint.sh uses g++'s omp.h.
launchers=(openmpi-bin slurmctld slurmd slurm-client munge iproute2 python3-yaml)
watch=(prometheus prometheus-alertmanager)
browser=(chromium chromium-driver python3-selenium python3-pil fonts-dejavu-core)
deploy=(systemd python3-yaml)
lint=(git g++ clang-format clang-tidy-16)
package=(python3 dpkg-dev)

(($#)) || set -- build
wanted=()
for part in "$@"; do
  case $part in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    launchers) wanted+=("${launchers[@]}") ;;
    watch) wanted+=("${watch[@]}") ;;
    browser) wanted+=("${browser[@]}") ;;
    deploy) wanted+=("${deploy[@]}") ;;
    lint) wanted+=("${lint[@]}") ;;
    package) wanted+=("${package[@]}") ;;
    *)
      echo "setup: no part '$part'; expected build, test, bench, launchers, watch, browser, deploy, lint or package" >&2
      exit 2 ;;
  esac
done

missing=()
for name in "${wanted[@]}"; do
  dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
done
if ((${#missing[@]} == 0)); then
  echo "setup: everything for $* is installed"
  exit 0
fi

sudo=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo" >&2; exit 1; }
  sudo=(sudo)
fi
echo "setup: installing for $*: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
if ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-remove --no-install-recommends "${missing[@]}"; then
  echo "setup: apt-get could not install this; nothing was removed (apt-get's reason is above)" >&2
  exit 1
fi
