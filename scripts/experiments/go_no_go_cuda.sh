#!/usr/bin/env bash
# go_no_go_cuda.sh [--build-only] [PARTS]: builds benches/cuda/go_no_go, runs its parts (letters of
# AC48D, in the order to run) each in a process of its own and prints their tables. Needs nvcc and its
# host compiler, nothing else. All numbers go to $OUT/go_no_go.csv as well. CUDA_ARCH: default 90a.
set -euo pipefail
cd "$(dirname "$0")/../.."

build_only=no
if [ "${1:-}" = --build-only ]; then
  build_only=yes
  shift
fi
parts=${1:-AC48D}
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
for source in go_no_go matvec_bench layer_bench dense_bench; do
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
rm -f "$results/go_no_go.csv"
for ((i = 0; i < ${#parts}; ++i)); do
  part=${parts:i:1}
  code=0
  timeout 120 "$out/go_no_go" "$results/go_no_go.csv" "$part" || code=$?
  # A fault or a hang of one variant must not cost the others.
  if [ "$code" -gt 1 ] && [[ $part == [48] ]]; then
    echo "--- part $part ended with $code; again without bulk copies"
    timeout 90 "$out/go_no_go" "$results/go_no_go.csv" "$part" nobulk || code=$?
  fi
  [ "$code" -eq 0 ] || status=$code
done
echo "--- status $status, $((SECONDS - started)) s in all"
exit "$status"
