#!/usr/bin/env bash
# Runs the long variants of the scheduler's proof tests and prints their tables.
#
#   scripts/full_tests.sh [build directory, default build/release]
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
[ -f "$build/build.ninja" ] || cmake --preset release -B "$build"
cmake --build "$build" --target property_tests graph_tests run_tests cuda_emu_tests

begin=$SECONDS
status=0
run() {
  local program=$1 filter=$2
  ONEPASS_FULL=1 "$build/bin/$program" --gtest_brief=1 --gtest_filter="$filter" || status=1
}
echo "== random sessions: passes x orders against the reference"
run property_tests 'RandomSessions.*:FuseReaders.*'
echo "== plans without one edge or one barrier"
run property_tests 'PlanMutation.*'
echo "== orders without one edge or boundary, or with a weaker edge; what is implied: implied_orders.txt"
run property_tests 'OrderProof.*'
run run_tests '*ModelGraph.EveryEdge*'
run cuda_emu_tests 'CardPrograms.*:*CardModels.HaveAnOrder*'
echo "== seeded bugs"
run property_tests 'SeededBugs.*'
echo "== physical and virtual closure, arenas"
run property_tests 'Closure.*'
echo "== two command buffers"
run property_tests 'Seam.*'
echo "== replay"
run property_tests 'Replay.*'
echo "== fewest barriers by brute force, passes and validator"
run graph_tests '*'
echo "== $((SECONDS - begin)) s, $([ $status = 0 ] && echo passed || echo FAILED)"
exit $status
