#!/usr/bin/env bash
# check_cuda.sh [--build-only] [--filter TEXT] [STAGE...]: builds the conformance tests with their
# CUDA kernels, runs them on the first CUDA device and prints a table last. Stages, all by default:
#   conformance  the ci set
#   plain        the subset of 600 cases with plain edges only
#   memcheck     the ci set under compute-sanitizer
#   initcheck, synccheck, racecheck   the subset, plain edges
# Needs nvcc, ninja and a C++20 compiler, no CMake and no packages: tl/expected.hpp is taken from
# the system or from .carry/include. CXX, CUDA_ARCH (default 90a) and PROCESSES (default: half the
# cores, at most 8) can be set. Logs go to $OUT or build/check_cuda/logs.
set -euo pipefail
cd "$(dirname "$0")/.."

all_stages=(conformance plain memcheck initcheck synccheck racecheck)
build_only=no filter="" stages=()
while [ $# -gt 0 ]; do
  case $1 in
    --build-only) build_only=yes ;;
    --filter) filter=$2; shift ;;
    *)
      case " ${all_stages[*]} " in
        *" $1 "*) stages+=("$1") ;;
        *) echo "unknown stage '$1'; stages: ${all_stages[*]}" >&2; exit 2 ;;
      esac ;;
  esac
  shift
done
[ ${#stages[@]} -gt 0 ] || stages=("${all_stages[@]}")

cores=$(getconf _NPROCESSORS_ONLN)
processes=${PROCESSES:-$((cores / 2 > 8 ? 8 : cores / 2 > 1 ? cores / 2 : 1))}
cxx=${CXX:-g++}
arch=${CUDA_ARCH:-90a}
out=$PWD/build/check_cuda
logs=${OUT:-$out/logs}
nvcc=$(command -v nvcc || true)
for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
  [ -n "$nvcc" ] || [ ! -x "$folder/bin/nvcc" ] || nvcc=$folder/bin/nvcc
done
[ -n "$nvcc" ] || { echo "nvcc not found" >&2; exit 2; }
cuda_include=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
mkdir -p "$out" "$logs"

shopt -s nullglob
make_unit() {  # make_unit FILE TEMPLATE SED_SCRIPT: keeps a file that is the same, with its time
  mkdir -p "$(dirname "$1")"
  sed "$3" "$2" >"$1.new"
  if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}
make_units() {  # what CMake makes, as cmake/units.cmake says
  local isa condition feature family format blocks types
  while read -r isa condition feature; do
    for family in src/ops/*/cpu_simd.h; do
      family=$(basename "$(dirname "$family")")
      make_unit "$out/ops/$family/cpu_$isa.cpp" src/ops/simd_unit.cpp.in \
        "s/@name@/$family/g; s/@isa@/$isa/g; s/@condition@/$condition/g; s/@feature@/$feature/g"
    done
  done < <(sed -n 's/^ISA(\([^,]*\), \([^,]*\), \([^,]*\), .*/\1 \2 \3/p' src/ops/shared/isa.def)
  while read -r format blocks types; do
    make_unit "$out/ops/matmul/cuda_$format.cu" src/ops/matmul/cuda_format.cu.in \
      "s/@format@/$format/g; s/@blocks@/$blocks/g; s/@types@/$types/g"
  done < <(sed -n 's/^CUDA_FORMAT(\([^,]*\), \([^,]*\), \(.*\))$/\1 \2 \3/p' src/ops/shared/cuda_formats.def)
}
write_build_file() {
  local includes="-I include -I src -I tests -isystem $cuda_include" file symbol objects=""
  [ ! -f .carry/include/tl/expected.hpp ] || includes+=" -isystem .carry/include"
  echo "rule cxx"
  echo "  command = $cxx -std=c++20 -O2 -g1 -DNDEBUG -DONEPASS_HAS_CUDA=1 -DONEPASS_TEST_CUDA" \
    "-ffp-contract=off $includes -MMD -MF \$out.d -c -o \$out \$in"
  echo "  depfile = \$out.d"
  echo "rule fatbin"
  echo "  command = $nvcc -fatbin -std=c++20 -O3 -fmad=false -lineinfo" \
    "-gencode arch=compute_$arch,code=sm_$arch -I include -I src" \
    "-MD -MF \$out.d -MT \$out -o \$out \$in"
  echo "  depfile = \$out.d"
  echo "rule embed"
  echo "  command = printf '.section .rodata\\n.balign 64\\n.global \$symbol\\n\$symbol:\\n" \
    ".incbin \"\$in\"\\n.global \${symbol}_end\\n\${symbol}_end:\\n.byte 0\\n" \
    ".section .note.GNU-stack,\"\",@progbits\\n' | $cxx -x assembler -c -o \$out -"
  echo "rule link"
  echo "  command = $cxx -o \$out \$in -pthread -ldl"
  for file in src/core/*.cpp src/graph/*.cpp src/quant/*.cpp src/ops/*.cpp src/ops/*/*.cpp \
    src/backends/*/*.cpp tests/conformance/*.cpp "$out"/ops/*/*.cpp; do
    case $file in src/core/os_posix.cpp | *_test.cpp) continue ;; esac
    symbol=${file#"$out"/}
    echo "build $out/${symbol//\//_}.o: cxx $file"
    objects+=" $out/${symbol//\//_}.o"
  done
  for file in src/ops/*/cuda*.cu "$out"/ops/*/cuda*.cu; do
    symbol=$(dirname "$file")
    symbol=onepass_fatbin_$(basename "$symbol")_$(basename "$file" .cu)
    echo "build $out/$symbol.fatbin: fatbin $file"
    echo "build $out/$symbol.o: embed $out/$symbol.fatbin"
    echo "  symbol = $symbol"
    objects+=" $out/$symbol.o"
  done
  echo "build $out/conformance_tests: link$objects"
}
make_units
write_build_file >"$out/build.ninja"
echo "--- build: $("$nvcc" --version | tail -n 1), $("$cxx" --version | head -n 1)"
started=$SECONDS
if ! ninja -f "$out/build.ninja" -j "$cores" >"$out/build.log" 2>&1; then
  tail -n 40 "$out/build.log" >&2
  exit 1
fi
echo "--- built in $((SECONDS - started)) s"
[ "$build_only" = no ] || exit 0

# Containers sometimes mount the driver where the loader does not look.
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
  for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/x86_64-linux-gnu; do
    [ ! -e "$folder/libcuda.so.1" ] || export LD_LIBRARY_PATH=$folder:${LD_LIBRARY_PATH:-}
  done
fi
sanitizer=$(command -v compute-sanitizer || true)
[ -n "$sanitizer" ] || sanitizer=$(dirname "$nvcc")/compute-sanitizer

table=()
status=0
run_stage() {
  local stage=$1 command=("$out/conformance_tests" --device cuda:0) begin=$SECONDS pids=() i
  case $stage in
    conformance) command+=(--set ci) ;;
    memcheck) command+=(--set ci --edges plain --memory exact) ;;
    plain) command+=(--set subset --edges plain) ;;
    *) command+=(--set subset --edges plain --memory exact) ;;
  esac
  [ -z "$filter" ] || command+=(--filter "$filter")
  case $stage in
    *check)
      if [ ! -x "$sanitizer" ]; then
        table+=("$(printf '%-12s compute-sanitizer not found' "$stage")")
        status=1
        return
      fi
      command=("$sanitizer" --tool "$stage" --error-exitcode 9 --print-limit 20 "${command[@]}") ;;
  esac
  for ((i = 1; i <= processes; ++i)); do
    timeout 300 "${command[@]}" --shard "$i/$processes" >"$logs/$stage.$i.log" 2>&1 &
    pids+=($!)
  done
  local failed=0 code worst=0
  for i in "${!pids[@]}"; do
    code=0
    wait "${pids[$i]}" || code=$?
    # A shard without a case that passes the filter ends with 1 and says so.
    if [ "$code" -ne 0 ] && ! grep -q '^0 cases, 0 runs' "$logs/$stage.$((i + 1)).log"; then
      failed=$((failed + 1))
      [ "$code" -le "$worst" ] || worst=$code
    fi
  done
  local totals errors
  totals=$(cat "$logs/$stage".*.log |
    awk '/^[0-9]+ cases, [0-9]+ runs, [0-9]+ failed/ {c += $1; r += $3; f += $5}
      END {printf "%d cases, %d runs, %d failed", c, r, f}')
  errors=$(cat "$logs/$stage".*.log |
    awk '/ERROR SUMMARY:/ {n += $4} END {if (n != "") printf ", %d sanitizer errors", n}')
  [ "$failed" -eq 0 ] || {
    status=1
    echo "--- $stage: $failed of $processes processes failed, worst exit status $worst"
    grep -hE '^FAILED|^=+ (Invalid|Error|ERROR|Race|Barrier|Uninit|.*hazard)|error' \
      "$logs/$stage".*.log | grep -v 'largest error' | head -n 25 || true
  }
  table+=("$(printf '%-12s %s%s, %d s: %s' "$stage" "$totals" "$errors" $((SECONDS - begin)) \
    "$([ "$failed" -eq 0 ] && echo passed || echo FAILED)")")
}
for stage in "${stages[@]}"; do
  echo "--- $stage"
  run_stage "$stage"
done
# What came back as one file each is easier to read.
for stage in "${stages[@]}"; do
  cat "$logs/$stage".*.log >"$logs/$stage.log" 2>/dev/null || true
  rm -f "$logs/$stage".[0-9]*.log
done
echo "--- $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi')"
printf '%s\n' "${table[@]}"
echo "--- status $status, $((SECONDS - started)) s in all"
exit "$status"
