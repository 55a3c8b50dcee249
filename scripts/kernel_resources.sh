#!/usr/bin/env bash
# Prints the compiler's report on each of our kernels as a table for docs/cuda.md: registers,
# shared memory, spilled bytes. Needs nvcc but no GPU.
#   scripts/kernel_resources.sh [file.cu ...]      all of kernels/cuda by default
# ARCH: the architecture, default sm_90. CUDA_HOME: CUDA's folder, if nvcc is not on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/help.sh "$@"
nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
if [[ ! -x $nvcc ]]; then
  echo "kernel_resources.sh: no nvcc on the PATH or in CUDA_HOME; install the CUDA toolkit" >&2
  exit 1
fi
files=("$@")
if [[ $# -eq 0 ]]; then files=(kernels/cuda/*/*.cu); fi

echo "| kernel | registers | shared memory | spills |"
echo "|---|---|---|---|"
for file in "${files[@]}"; do
  "$nvcc" -std=c++20 --expt-relaxed-constexpr -I. -arch="${ARCH:-sm_90}" --resource-usage -cubin \
    -o /dev/null "$file" 2>&1 |
    awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
         /spill stores/ { spills = $5 + $9 }
         /Used [0-9]+ registers/ {
           shared = 0
           for (i = 1; i < NF; ++i) {
             if ($i == "Used") registers = $(i + 1)
             if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
           }
           print name "\t" registers "\t" shared "\t" spills
         }' |
    c++filt |
    # Keep the kernel's name and template arguments; drop parameters and namespaces.
    sed -E 's/^void //; s/pfc:://g; s/\(anonymous namespace\):://g; s/batch_norm:://g;
            s/std:://g; s/\([A-Za-z]+\)([0-9])/\1/g; s/\([^\t]*\)\t/\t/; s/__nv_bfloat16/bf16/g;
            s/__half/half/g' |
    sort |
    awk -F'\t' '{ print "| `" $1 "` | " $2 " | " $3 " | " $4 " |" }'
done
