#!/usr/bin/env bash
# probe_cuda.sh [--build-only] [PROBE ARGUMENT...]: builds the library with its CUDA kernels and
# the probe, runs the probe, then runs a short one under compute-sanitizer's memcheck. Needs nvcc
# and a C++20 compiler, no CMake and no packages: tl/expected.hpp is taken from the system or from
# .carry/include. CXX and CUDA_ARCH (default 90) can be set.
set -euo pipefail
cd "$(dirname "$0")/../.."

build_only=no
if [ "${1:-}" = --build-only ]; then
  build_only=yes
  shift
fi

jobs=$(getconf _NPROCESSORS_ONLN)
cxx=${CXX:-g++}
arch=${CUDA_ARCH:-90}
out=$PWD/build/probe_cuda
nvcc=$(command -v nvcc || true)
for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
  [ -n "$nvcc" ] || [ ! -x "$folder/bin/nvcc" ] || nvcc=$folder/bin/nvcc
done
[ -n "$nvcc" ] || { echo "nvcc not found" >&2; exit 2; }
cuda_include=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
mkdir -p "$out/obj" "$out/fatbin"

includes=(-I include -I src -isystem "$cuda_include")
if [ -f .carry/include/tl/expected.hpp ]; then includes+=(-isystem .carry/include); fi
flags=(-std=c++20 -O3 -DNDEBUG -DONEPASS_HAS_CUDA=1 -ffp-contract=off -fPIC -Wall -Wextra
  "${includes[@]}")

shopt -s nullglob
sources=()
for file in src/core/*.cpp src/graph/*.cpp src/quant/*.cpp src/ops/*.cpp src/ops/*/*.cpp \
  src/backends/*/*.cpp benches/cuda_probe.cpp; do
  [ "$file" = src/core/os_posix.cpp ] || sources+=("$file")
done

compile_kernel() {  # compile_kernel src/ops/FAMILY/STEM.cu: its fatbin as a linkable object
  local source=$1 family stem symbol
  family=$(basename "$(dirname "$source")")
  stem=$(basename "$source" .cu)
  symbol=onepass_fatbin_${family}_$stem
  "$nvcc" -fatbin -std=c++20 -O3 -fmad=false -lineinfo \
    -gencode "arch=compute_$arch,code=[compute_$arch,sm_$arch]" \
    -I include -I src -o "$out/fatbin/$symbol.fatbin" "$source"
  printf '__asm__(".section .rodata\\n.balign 64\\n.global %s\\n%s:\\n.incbin \\"%s\\"\\n"\n".global %s_end\\n%s_end:\\n.byte 0\\n.text\\n");\n' \
    "$symbol" "$symbol" "$out/fatbin/$symbol.fatbin" "$symbol" "$symbol" >"$out/fatbin/$symbol.cpp"
  "$cxx" -c -o "$out/obj/$symbol.o" "$out/fatbin/$symbol.cpp"
}

compile_source() {
  local object=$out/obj/${1//\//_}.o
  "$cxx" "${flags[@]}" -c -o "$object" "$1"
}

run_limited() {  # run_limited FUNCTION ARGUMENT...: one call per argument, $jobs at a time
  local function=$1 failed=0 running=0
  shift
  for argument in "$@"; do
    "$function" "$argument" &
    running=$((running + 1))
    if [ "$running" -ge "$jobs" ]; then
      wait -n || failed=1
      running=$((running - 1))
    fi
  done
  while [ "$running" -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
  done
  return "$failed"
}

echo "--- build: $("$nvcc" --version | tail -n 1), $("$cxx" --version | head -n 1)"
rm -f "$out"/obj/*.o
started=$SECONDS
run_limited compile_kernel src/ops/*/cuda*.cu
run_limited compile_source "${sources[@]}"
"$cxx" -o "$out/cuda_probe" "$out"/obj/*.o -pthread -ldl
echo "--- built in $((SECONDS - started)) s: $out/cuda_probe"
[ "$build_only" = no ] || exit 0

# Containers sometimes mount the driver where the loader does not look.
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
  for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/x86_64-linux-gnu; do
    [ ! -e "$folder/libcuda.so.1" ] || export LD_LIBRARY_PATH=$folder:${LD_LIBRARY_PATH:-}
  done
fi

status=0
echo "--- probe"
"$out/cuda_probe" "$@" || status=$?
if [ "$status" -eq 3 ]; then
  echo "--- no CUDA device: nothing was checked" >&2
  exit 3
fi

sanitizer=$(command -v compute-sanitizer || true)
[ -n "$sanitizer" ] || sanitizer=$(dirname "$nvcc")/compute-sanitizer
if [ -x "$sanitizer" ]; then
  echo "--- memcheck"
  # The out-of-memory checks make calls fail on purpose: only kernels and leaks count here.
  "$sanitizer" --tool memcheck --report-api-errors no --leak-check full --error-exitcode 9 \
    "$out/cuda_probe" --layers 2 --replays 20 || status=$?
else
  echo "--- memcheck: compute-sanitizer not found" >&2
  status=1
fi
echo "--- status $status"
exit "$status"
