#!/usr/bin/env bash
# try_packages.sh FOLDER [MIRROR]: installs the Debian package in FOLDER, unpacks the archive there in a
# clean Debian 12, and compares the stories both tell with the one of FOLDER/bin/onepass. Needs root and debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath "${1:?usage: scripts/try_packages.sh FOLDER [MIRROR]}")
mirror=${2:-$(apt-get indextargets --format '$(SITE)' | head -n 1)}
root=$(mktemp -d)
clean_up() {
  umount -q "$root/proc" "$root/dev" || true
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT

shopt -s nullglob
packages=("$folder"/onepass_*.deb) archives=("$folder"/onepass-*.tar.gz)
[ ${#packages[@]} -eq 1 ] && [ ${#archives[@]} -eq 1 ] || { echo "no package or several in $folder: run cpack" >&2; exit 1; }

debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
cp "${packages[0]}" "$root/onepass.deb"
tar -C "$root/opt" -xf "${archives[0]}"
story=(generate -q --device cpu -p "Tom had a red ball." --seed 7 -n 48)
wanted=$(ONEPASS_MODELS=models "$folder/bin/onepass" "${story[@]}")

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"; }
tell() {  # tell NAME PROGRAM: the same story?
  local told
  told=$(inside "$2" "${story[@]}")
  [ "$told" = "$wanted" ] || { printf '%s tells another story:\n%s\n' "$1" "$told" >&2; exit 1; }
  echo "$1: $(inside "$2" --version), the same story"
}
tell archive "/opt/$(basename "${archives[0]}" .tar.gz)/bin/onepass"
inside dpkg --install /onepass.deb >/dev/null
tell package /usr/bin/onepass
inside dpkg --purge onepass >/dev/null
if inside test -e /usr/bin/onepass; then echo "the package leaves files behind" >&2; exit 1; fi
python3 scripts/checks/check_release.py "$folder/bin/onepass" "$(realpath "$folder/src/libonepass.so")"
