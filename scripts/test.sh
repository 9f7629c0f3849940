#!/usr/bin/env bash
# test.sh [STAGE...]: runs the stages named, checks and dev by default, and prints minutes and test
# counts per stage. Stages: checks dev asan fuzz tsan release; "all" is all of them, as CI runs it.
# Every stage runs even if an earlier one failed; the exit status is 0 only if all passed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

all_stages=(checks dev asan fuzz tsan release)
jobs=$(getconf _NPROCESSORS_ONLN)

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(checks dev)
[ "${stages[*]}" != all ] || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  case " ${all_stages[*]} " in
    *" $stage "*) ;;
    *) echo "unknown stage '$stage'; stages: ${all_stages[*]}" >&2; exit 2 ;;
  esac
done

scripts/install_packages.sh test || exit 1

table=()
failures=()  # what failed, with the end of its output, printed again below everything else
total_passed=0 total_failed=0 total_skipped=0 total_seconds=0
passed=0 failed=0 skipped=0

step() {  # step NAME COMMAND...: one check, counted as one test
  local name=$1
  shift
  echo "--- $name"
  if "$@"; then
    passed=$((passed + 1))
  else
    echo "FAILED: $name" >&2
    failures+=("failed: $name")
    failed=$((failed + 1))
    return 1
  fi
}

quick_cuda() {  # Without a card CUDA kernels are compiled but never run: a fifth of the time.
  if [[ $(nvidia-smi -L 2>/dev/null) != GPU* && $(nvcc --help 2>/dev/null) == *--Ofast-compile* ]]; then
    echo --Ofast-compile=mid
  fi
}

build_and_test() {  # build_and_test PRESET [CTEST ARGUMENT...]
  local preset=$1 junit counts flags=(-D ONEPASS_PCH=ON) target=()
  shift
  # Several files at a time, as src/CMakeLists.txt says.
  [ "$preset" = fuzz ] || flags+=(-D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=8)
  if [ "$preset" = release ]; then
    target=(--target release_checks)
    flags+=(-D "ONEPASS_CUDA_FLAGS=$(quick_cuda)")
  else
    # Line tables are enough to read a failure of a sanitizer, and tests name their lines.
    flags+=(-D "CMAKE_CXX_FLAGS_DEBUG=-O1$([ "$preset" = dev ] || echo " -g1")")
  fi
  junit=$PWD/build/$preset/junit.xml
  if ! { cmake --preset "$preset" "${flags[@]}" &&
         cmake --build --preset "$preset" "${target[@]}" --parallel "$jobs"; }; then
    echo "FAILED: build $preset" >&2
    failures+=("failed: build $preset")
    failed=$((failed + 1))
    return 1
  fi
  rm -f "$junit"
  ctest --preset "$preset" --parallel "$jobs" --output-junit "$junit" "$@"
  local status=$?
  if ! counts=$(python3 scripts/checks/count_tests.py "$junit"); then
    counts="0 0 0"
  fi
  local p f s
  read -r p f s <<<"$counts"
  # A ctest that fails without a failed test (none found, a crash of ctest) is itself a failure.
  [ "$status" -eq 0 ] || [ "$f" -gt 0 ] || f=1
  [ "$f" -eq 0 ] || failures+=("$preset: $(python3 scripts/checks/count_tests.py --failed "$junit")")
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

run_stage() {
  case $1 in
    checks)
      step format scripts/format.sh
      step layers python3 scripts/checks/check_layers.py
      step release python3 scripts/checks/check_release.py
      step size python3 scripts/checks/check_size.py
      step changes python3 scripts/count_change.py
      step "seed api" python3 scripts/checks/check_seed_api.py
      ;;
    dev)
      if build_and_test dev; then
        step "seed api tests" python3 scripts/checks/check_seed_api.py --junit build/dev/junit.xml
        step "seed api mutants" python3 scripts/checks/check_seed_api.py --mutate build/dev
      fi
      ;;
    release) build_and_test release --label-regex '^release$' ;;
    *) build_and_test "$1" --label-exclude '^docs$' ;;
  esac
}

for stage in "${stages[@]}"; do
  echo "=== $stage"
  passed=0 failed=0 skipped=0
  started=$SECONDS
  run_stage "$stage"
  seconds=$((SECONDS - started))
  table+=("$(printf '%-8s %8s %8d %8d %8d' "$stage" \
    "$((seconds / 60)).$((seconds % 60 * 10 / 60))" "$passed" "$failed" "$skipped")")
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
  total_seconds=$((total_seconds + seconds))
done

echo
[ ${#failures[@]} -eq 0 ] || printf '%s\n' "${failures[@]}" ""
printf '%-8s %8s %8s %8s %8s\n' stage minutes passed failed skipped
printf '%s\n' "${table[@]}"
printf '%-8s %8s\n' all "$((total_seconds / 60)).$((total_seconds % 60 * 10 / 60))"
echo
total="$total_passed passed, $total_failed failed"
[ "$total_skipped" -eq 0 ] || total+=", $total_skipped skipped"
echo "$total"
[ "$total_failed" -eq 0 ]
