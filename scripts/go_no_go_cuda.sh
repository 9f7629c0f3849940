#!/usr/bin/env bash
# go_no_go_cuda.sh [--build-only] [PARTS]: builds and runs benches/cuda/go_no_go (PARTS: letters of
# ABC, in the order to run; default ACB) and prints its tables. Needs nvcc and its host compiler,
# nothing else. All numbers go to $OUT/go_no_go.csv as well, if OUT is set. CUDA_ARCH (default 90a).
set -euo pipefail
cd "$(dirname "$0")/.."

build_only=no
if [ "${1:-}" = --build-only ]; then
  build_only=yes
  shift
fi
parts=${1:-ACB}
arch=${CUDA_ARCH:-90a}
out=$PWD/build/go_no_go
results=${OUT:-$out}
nvcc=$(command -v nvcc || true)
for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
  [ -n "$nvcc" ] || [ ! -x "$folder/bin/nvcc" ] || nvcc=$folder/bin/nvcc
done
[ -n "$nvcc" ] || { echo "nvcc not found" >&2; exit 2; }
mkdir -p "$out" "$results"

started=$SECONDS
pids=()
objects=()
for source in go_no_go matvec_bench layer_bench; do
  "$nvcc" -std=c++20 -O3 -fmad=false -lineinfo -gencode "arch=compute_$arch,code=sm_$arch" \
    -Xcompiler -Wall -c -o "$out/$source.o" "benches/cuda/$source.cu" &
  pids+=($!)
  objects+=("$out/$source.o")
done
for pid in "${pids[@]}"; do wait "$pid"; done
"$nvcc" -gencode "arch=compute_$arch,code=sm_$arch" -o "$out/go_no_go" "${objects[@]}" \
  -Xcompiler -pthread
echo "--- built in $((SECONDS - started)) s"
[ "$build_only" = no ] || exit 0

# Containers sometimes mount the driver where the loader does not look.
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
  for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/x86_64-linux-gnu; do
    [ ! -e "$folder/libcuda.so.1" ] || export LD_LIBRARY_PATH=$folder:${LD_LIBRARY_PATH:-}
  done
fi
status=0
timeout 420 "$out/go_no_go" "$results/go_no_go.csv" "$parts" | tee "$results/go_no_go.txt" || status=$?
echo "--- status $status, $((SECONDS - started)) s in all"
exit "$status"
