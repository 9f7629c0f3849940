#!/usr/bin/env bash
# time_paths.sh ROOT STEP...: how long the paths of docs/install.md take in a clean Debian 12, without a compiler cache.
# The first call makes the root with debootstrap in the folder ROOT, which needs root; delete it at the end.
# Steps: clone one two pip cpack, in this order. A line for each on stdout; the output of the last is in ROOT/log.
set -euo pipefail
cd "$(dirname "$0")/../.."

root=$(realpath -m "${1:?usage: time_paths.sh ROOT STEP...}")
shift
if [ ! -e "$root/etc/debian_version" ]; then
  debootstrap --variant=minbase --include=ca-certificates,git bookworm "$root" \
    "$(apt-get indextargets --format '$(SITE)' | head -n 1)" >/dev/null
  git clone -q --bare . "$root/onepass.git"
fi
mkdir -p "$root/proc" "$root/dev"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/dev" || mount --bind /dev "$root/dev"
trap 'umount "$root/dev" "$root/proc"' EXIT
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/etc/apt"
for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/pip.conf \
  /etc/ssl/certs; do
  if [ -e "$file" ]; then rm -rf "${root:?}$file" && cp -r "$file" "$root$file"; fi
done

inside() { env -u CCACHE_DIR CCACHE_DISABLE=1 PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$root" bash -ec "cd /onepass; $1"; }
for step in "$@"; do
  case $step in
    clone) what="cd / && rm -rf onepass && git clone -q onepass.git onepass"; mkdir -p "$root/onepass" ;;
    one) what="scripts/run.sh" ;;
    two) what="scripts/test.sh" ;;
    pip) what="scripts/install_packages.sh test; python3 -m venv /venv; time /venv/bin/pip install ." ;;
    cpack) what="cmake --preset release -DONEPASS_CUDA=OFF >/dev/null; cmake --build --preset release; cd build/release; time cpack" ;;
    *) echo "unknown step $step" >&2; exit 2 ;;
  esac
  begin=$(date +%s.%N)
  if ! inside "$what" >"$root/log" 2>&1; then tail -n 30 "$root/log" >&2; exit 1; fi
  printf '%s: %.1f s%s\n' "$step" "$(echo "$(date +%s.%N) - $begin" | bc)" \
    "$(sed -n 's/^real\t*/, the last command /p' "$root/log" | tail -n 1)"
done
