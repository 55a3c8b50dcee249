#!/usr/bin/env bash
# Installs every Debian package that pfc is built, tested and measured with, and nothing else.
# Safe to run again: what is there already is left alone. README.md says what each is for.
set -euo pipefail

packages=(
  # build
  g++ cmake ninja-build ccache pkg-config clang-format
  clang-tidy-16 libomp-16-dev
  # libraries
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libboost-dev libboost-context-dev libboost-filesystem-dev nlohmann-json3-dev prometheus-cpp-dev
  libgloo-dev libdnnl-dev libturbojpeg0-dev libpng-dev libcli11-dev libspdlog-dev libssl-dev
  # tests and benchmarks
  libgtest-dev libgmock-dev libbenchmark-dev python3 python3-numpy python3-torch
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: every package is installed"
  exit 0
fi

sudo=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo" >&2; exit 1; }
  sudo=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
