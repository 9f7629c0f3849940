#!/usr/bin/env bash
# format.sh [--fix]: checks, or corrects, the formatting of every tracked C++ and CUDA file.
set -euo pipefail
cd "$(dirname "$0")/.."

# Other versions format differently.
clang_format=$(command -v clang-format-14 || true)
if [ -z "$clang_format" ]; then
  echo "clang-format-14 not found" >&2
  exit 1
fi
mode=(--dry-run -Werror)
case "${1:-}" in
  "") ;;
  --fix) mode=(-i) ;;
  *) echo "usage: $0 [--fix]" >&2; exit 2 ;;
esac
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.hpp' '*.c' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 -r "$clang_format" --style=file "${mode[@]}"
