#!/usr/bin/env bash
# install_packages.sh build|test: installs what scripts/packages.txt lists for building, or for
# building and testing. Does nothing when everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-test}" in
  build) groups='^build$' ;;
  test) groups='^(build|test)$' ;;
  *) echo "usage: $0 build|test" >&2; exit 2 ;;
esac
mapfile -t wanted < <(awk -v groups="$groups" '$1 ~ groups { print $2 }' scripts/packages.txt)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "No apt here; please install the equivalents of: ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | head -n 1 || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing: ${missing[*]}"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
