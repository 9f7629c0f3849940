#!/usr/bin/env bash
# carry_packages.sh: copies the headers and libraries of the packages that scripts/check_cuda.sh builds
# with into .carry, for a machine where packages cannot be installed: take the repository there with
# that folder in it.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(libexpected-dev libfast-float-dev libcli11-dev libbsd-dev libedit-dev libedit2 libmd-dev libncurses-dev
  libtinfo6 libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2 libgtest-dev libgmock-dev
  libbenchmark-dev libbenchmark1debian)
rm -rf .carry
mkdir .carry
for package in "${packages[@]}"; do
  dpkg -L "$package" | grep -E '^/usr/(include|share/cmake|lib/[^/]+)/' |
    while read -r file; do [ -d "$file" ] || printf '%s\n' "${file#/usr/}"; done
done | tar -C /usr -ch -T - | tar -C .carry -x
du -sh .carry
