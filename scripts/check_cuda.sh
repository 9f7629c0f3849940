#!/usr/bin/env bash
# check_cuda.sh [--build-only] [--filter TEXT] [STAGE...]: what waits for a CUDA card, on the first
# one, with a table last. Stages, all by default:
#   conformance  the ci set
#   plain        the subset of 600 cases with plain edges only
#   parity       logits of models beside the CPU's
#   speed        decode and prefill of the models in docs/benchmarks.md
#   memcheck     the ci set under compute-sanitizer
#   initcheck, synccheck, racecheck   the subset, plain edges
# Needs nvcc, CMake, Ninja and the packages of the build and of the benchmarks; on a machine that has
# no package manager they are taken from .carry, which scripts/carry_packages.sh fills elsewhere.
# CUDA_ARCH (default 90a) and PROCESSES (default: half the cores, at most 8) can be set. Logs go to
# $OUT or build/check_cuda/logs.
set -euo pipefail
cd "$(dirname "$0")/.."

all_stages=(conformance plain parity speed memcheck initcheck synccheck racecheck)
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
out=$PWD/build/check_cuda
logs=${OUT:-$out/logs}
mkdir -p "$out" "$logs"
shopt -s nullglob

echo "--- build"
started=$SECONDS
if ! { cmake -B "$out" -G Ninja -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH="$PWD/.carry" \
         -D ONEPASS_CUDA=ON -D ONEPASS_CUDA_ARCH="${CUDA_ARCH:-90a}" -D ONEPASS_CUDA_EMU=OFF \
         -D ONEPASS_BUILD_EXAMPLES=OFF -D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=8 &&
       cmake --build "$out" --target conformance_tests device_parity onepass-cli \
         --parallel "$cores"; } >"$logs/build.log" 2>&1; then
  tail -n 40 "$logs/build.log" >&2
  exit 1
fi
nvcc=$(sed -n 's/^ONEPASS_NVCC:FILEPATH=//p' "$out/CMakeCache.txt")
echo "--- built in $((SECONDS - started)) s with $("$nvcc" --version | tail -n 1)"
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
  local stage=$1 command=("$out/bin/conformance_tests" --device cuda:0) begin=$SECONDS pids=() i
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
small_models=(synthetic:tiny:q8_0 synthetic:tiny-qwen3:q4_0 synthetic:tiny-qwen3moe:q8_0
  synthetic:tiny-gemma3:q4_0 models/stories-12m-q8_0.gguf)
large_models=(synthetic:{smollm135m:q8_0,qwen3-0.6b:q8_0,llama1b:q4_0,llama1b:q8_0}
  synthetic:llama8b:{q4_0,q4_k,q8_0})
run_models() {  # run_models STAGE MODELS... -- COMMAND...: {} is the model
  local stage=$1 begin=$SECONDS models=() model log failed=0
  shift
  while [ "$1" != -- ]; do models+=("$1"); shift; done
  shift
  for model in "${models[@]}"; do
    log=$logs/$stage.${model//[:\/]/_}.log
    timeout 120 "${@//\{\}/$model}" >"$log" 2>&1 || failed=$((failed + 1))
    grep -hE 'pp512|tg128|NMSE|FAILED|error' "$log" || true
  done
  [ "$failed" -eq 0 ] || status=1
  table+=("$(printf '%-12s %d models, %d failed, %d s' "$stage" "${#models[@]}" "$failed" \
    $((SECONDS - begin)))")
}
for stage in "${stages[@]}"; do
  echo "--- $stage"
  case $stage in
    parity) run_models parity "${small_models[@]}" -- "$out/bin/device_parity" {} ;;
    speed)
      run_models speed "${large_models[@]}" -- \
        "$out/bin/onepass" bench --device cuda -m {} -p 512 -n 128 ;;
    *) run_stage "$stage" ;;
  esac
done
# What came back as one file each is easier to read.
for stage in "${stages[@]}"; do
  cat "$logs/$stage".*.log >"$logs/$stage.log" 2>/dev/null || true
  rm -f "$logs/$stage".?*.log
done
echo "--- $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi')"
printf '%s\n' "${table[@]}"
echo "--- status $status, $((SECONDS - started)) s in all"
exit "$status"
