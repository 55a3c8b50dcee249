#!/usr/bin/env bash
# Packs an archive for scripts/gpu_acceptance.sh on a machine with a GPU and without compilers.
#   scripts/gpu_bundle.sh OUT.tar.xz [BUILD]
# BUILD: the build folder, in which the targets programs and gpu_tests have been built (default build/cuda).
# The archive contains scripts/, bench/ and tests/ of the sources, and bundle/ with the programs and their libraries.
# If the variable PFC_TEST_DATA is set, it also contains a part of that folder's faces, as faces/lfw112. The libraries
# of CUDA, cuDNN and NCCL are left out: the other machine has its own, or PyTorch's. Fails if the archive exceeds 60 MiB.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
archive=${1:?"gpu_bundle: expected a file to write, OUT.tar.xz"} build=${2:-build/cuda}
most=$((60 << 20)) held_out=0.15
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir -p "$folder/bundle/bin" "$folder/bundle/lib"
cp scripts/gpu_bundle_run "$folder/bundle/run"
left_out='^(ld-linux|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcuda|libcudart|libcublas|libcublasLt|libcudnn|libnccl)[._-]'
for program in "$build"/bin/{pfc-coordinator,pfc-agent,pfc-worker,pfcctl} "$build"/tests/*_gpu_test \
  "$build"/benchmarks/head_benchmark; do
  cp "$program" "$folder/bundle/bin/"
  ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | while read -r library; do
    [[ $(basename "$library") =~ $left_out ]] || cp -Ln "$library" "$folder/bundle/lib/"
  done
done
strip --strip-all "$folder"/bundle/bin/* && strip --strip-unneeded "$folder"/bundle/lib/*
git archive --format=tar HEAD scripts bench tests CMakePresets.json | tar -x -C "$folder"
if [[ -n ${PFC_TEST_DATA:-} ]]; then
  # Keep only the held-out part: "train" is larger, and all pairs of the verification set stay.
  "$build/bin/pfcctl" data split "$PFC_TEST_DATA/lfw112" --held-out "$held_out" --out "$folder/split"
  mkdir "$folder/faces"
  mv "$folder/split/held-out" "$folder/faces/lfw112"
  cp "$PFC_TEST_DATA/lfw112/lfw_fold10.bin" "$folder/faces/lfw112/"
fi
# The programs share much code, so a large dictionary compresses well.
tar -C "$folder" -c bundle scripts bench tests CMakePresets.json $([[ -d $folder/faces ]] && echo faces) |
  xz --lzma2=preset=6,dict=256MiB >"$archive"
size=$(stat -c %s "$archive")
echo "$archive: $((size >> 20)) MiB; unpack it on the GPU machine and run: PFC_TEST_DATA=faces scripts/gpu_acceptance.sh --bin bundle --call a --out OUT"
if ((size > most)); then
  echo "gpu_bundle: $archive has $((size >> 20)) MiB, at most $((most >> 20)) are allowed; build for one architecture: -DPFC_CUDA_ARCHITECTURES=90" >&2
  exit 1
fi
