#!/usr/bin/env bash
# Builds the optimized command-line tool and runs its main job. Arguments are passed on to the job.
set -euo pipefail
cd "$(dirname "$0")/.."

main_job="generate"
build=build/run

scripts/install_packages.sh build

cuda=OFF
if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  cuda=AUTO
fi
cmake --preset release -B "$build" -DONEPASS_CUDA="$cuda" \
  -DONEPASS_BUILD_TESTS=OFF -DONEPASS_BUILD_BENCHES=OFF -DONEPASS_BUILD_EXAMPLES=OFF
cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN)"

exec "$build/bin/onepass" $main_job "$@"
