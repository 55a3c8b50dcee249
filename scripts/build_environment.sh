# Sourced by the build scripts: ccache's settings, and estimates of build times.

# Lets several clones of the repository share ccache's results.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# Prints the seconds that this machine takes to compile three typical files (gRPC, Asio, vector code)
# with all cores busy.
compile_seconds() {
  local folder start core
  folder=$(mktemp -d)
  start=${EPOCHREALTIME/[.,]/}
  for ((core = 0; core < $(nproc); core++)); do
    (
      export CCACHE_DISABLE=1  # where g++ is a link to ccache
      g++ -std=c++20 -O1 -I. -c proto/channel.cc -o "$folder/grpc-$core.o"
      g++ -std=c++20 -O1 -I. -c common/process/stop_signals.cc -o "$folder/asio-$core.o"
      g++ -std=c++20 -O3 -I. -mavx2 -mfma -DPFC_ISA=avx2 '-DPFC_ISA_NAME="AVX2"' -DPFC_VECTOR_BYTES=32 \
        -Wno-psabi -c kernels/cpu/vector/elementwise.cc -o "$folder/vector-$core.o"
    ) &
  done
  wait
  rm -rf "$folder"
  LC_ALL=C awk -v us="$((${EPOCHREALTIME/[.,]/} - start))" 'BEGIN { print us / 1000000 }'
}

# build_minutes SECONDS UNITS PRESET TARGET...: prints the estimated minutes to build TARGETs.
# SECONDS: from compile_seconds. UNITS: time of a full build, as a multiple of SECONDS.
build_minutes() {
  local seconds=$1 units=$2 folder=build/$3 left all
  shift 3
  left=$(ninja -C "$folder" -n "$@" | grep -c '^\[' || true)
  all=$(ninja -C "$folder" -t commands "$@" | wc -l)
  LC_ALL=C awk -v seconds="$seconds" -v units="$units" -v cores="$(nproc)" -v left="$left" -v all="$all" \
    'BEGIN { printf "%.1f", units * seconds / cores / 60 * (all ? left / all : 0) }'
}
