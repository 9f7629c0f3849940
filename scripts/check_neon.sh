#!/usr/bin/env bash
# check_neon.sh [--build-only] [STAGE...]: builds the library, the tool and the tests for arm64 with
# a cross compiler, runs them under qemu-user and prints a table and the counts last. Stages, all by
# default:
#   suite     ctest --preset aarch64: base and neon (dot product) paths, 1, 2, 3 and 8 threads
#   fallback  conformance cases on an emulated core without the dot product
# For Debian 12: installs the cross compiler and qemu-user if they are missing; arm64 libraries are
# only unpacked, into build/aarch64-packages. MIRROR: where they come from (default: where this
# machine's packages come from). JOBS: default all cores.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

all_stages=(suite fallback)
build_only=no stages=()
for argument in "$@"; do
  case " --build-only ${all_stages[*]} " in
    *" --build-only "*" $argument "*) ;;
    *) echo "unknown argument '$argument'; stages: ${all_stages[*]}" >&2; exit 2 ;;
  esac
  if [ "$argument" = --build-only ]; then build_only=yes; else stages+=("$argument"); fi
done
[ ${#stages[@]} -gt 0 ] || stages=("${all_stages[@]}")
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
mirror=${MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)}

tools=(g++-aarch64-linux-gnu qemu-user cmake ninja-build python3)
libraries=(libbsd0 libcli11-dev libedit2 libedit-dev libexpected-dev libfast-float-dev libgmock-dev
  libgtest-dev libmd0 libpcre2-8-0 libpcre2-dev libtinfo6 libutf8proc2 libutf8proc-dev)

install_tools() {
  local missing=() as_root=() package
  for package in "${tools[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "Installing: ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# With an apt of its own, so that this machine gets no second architecture.
unpack_libraries() {
  local folder=$PWD/build/aarch64-packages file
  [ ! -f "$folder/complete" ] || [ "$(cat "$folder/complete")" != "${libraries[*]}" ] || return 0
  echo "Unpacking for arm64: ${libraries[*]}"
  rm -rf "$folder"
  mkdir -p "$folder"/{lists/partial,cache/archives/partial,debs,root}
  : >"$folder/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" \
    >"$folder/sources.list"
  cat >"$folder/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "$(id -un)";
Dir::State::lists "$folder/lists";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
Dir::Etc::sourcelist "$folder/sources.list";
Dir::Etc::sourceparts "-";
CONF
  (
    export APT_CONFIG=$folder/apt.conf
    cd "$folder/debs" && apt-get update -qq && apt-get download -qq "${libraries[@]}"
  ) || return 1
  for file in "$folder"/debs/*.deb; do dpkg -x "$file" "$folder/root" || return 1; done
  echo "${libraries[*]}" >"$folder/complete"
}

if ! { install_tools && unpack_libraries; }; then
  echo "FAILED: packages" >&2
  exit 1
fi
echo "--- build: $(aarch64-linux-gnu-g++ --version | head -n 1), $(qemu-aarch64 --version | head -n 1)"
if ! { cmake --preset aarch64 && cmake --build --preset aarch64 --parallel "$jobs"; }; then
  echo "FAILED: build" >&2
  exit 1
fi
[ "$build_only" = no ] || exit 0

table=() passed=0 failed=0 skipped=0
run_stage() {
  local begin=$SECONDS junit=$PWD/build/aarch64/junit.xml log=$PWD/build/aarch64/fallback.log
  local p=0 f=0 s=0 cases="" status=0
  case $1 in
    suite)
      rm -f "$junit"
      ctest --preset aarch64 --parallel "$jobs" --output-junit "$junit" || status=1
      read -r p f s < <(python3 scripts/checks/count_tests.py "$junit" || echo 0 0 0)
      # A ctest that fails without a failed test is itself a failure.
      [ "$status" -eq 0 ] || [ "$f" -gt 0 ] || f=1
      cases=$(grep -E '^[0-9]+ cases, [0-9]+ runs, ' build/aarch64/Testing/Temporary/LastTest.log |
        awk '{c += $1; r += $3; f += $5} END {printf "%d cases, %d runs, %d failed", c, r, f}')
      ;;
    fallback)
      if qemu-aarch64 -cpu cortex-a72 -L /usr/aarch64-linux-gnu build/aarch64/bin/conformance_tests \
        --set subset --device cpu --paths best --threads 2 >"$log" 2>&1; then p=1; else f=1; fi
      grep '^FAILED' "$log"
      cases=$(tail -n 1 "$log" | grep -oE '[0-9]+ cases, [0-9]+ runs, [0-9]+ failed')
      ;;
  esac
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  table+=("$(printf '%-9s %5d s  %d passed, %d failed, %d skipped; conformance: %s' \
    "$1" $((SECONDS - begin)) "$p" "$f" "$s" "${cases:-none}")")
}
for stage in "${stages[@]}"; do
  echo "--- $stage"
  run_stage "$stage"
done

echo
printf '%s\n' "${table[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
