#!/usr/bin/env bash
# check_vulkan.sh [BUILD]: runs everything that there is for Vulkan on this machine's vulkan:0, from
# a dev build (default: build/dev). Fails if anything does, or if there is no device.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/dev}

"$build/bin/onepass" devices | tee /dev/stderr | grep -q '^vulkan:0' || {
  echo "no Vulkan device" >&2
  exit 1
}
"$build/bin/vulkan_tests"
"$build/bin/conformance_tests" --set full --device vulkan:0 | tail -n 3
model=models/stories-12m-q8_0.gguf
story() { "$build/bin/onepass" generate -q -m "$model" --device "$1" -p "Once upon a time" -n 64 --temp 0; }
[ "$(story vulkan:0)" = "$(story cpu)" ] || {
  echo "the story differs from the CPU's" >&2
  exit 1
}
for device in cpu vulkan:0; do
  "$build/bin/onepass" profile -m "$model" --device "$device" -n 32 | head -n 1 | sed "s/^/$device: /"
done
echo "vulkan:0 passed"
