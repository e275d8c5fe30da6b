# Functions for the scripts in this folder, which source this file.
# shellcheck shell=bash

# With --help, every script prints the comment at its start.
case ${1:-} in --help | -h)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]%/*}/${0##*/}"
  exit
  ;;
esac

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# Prints an error that says what to do, and exits.
die() {
  say "error: $*"
  exit 1
}

have() { command -v "$1" > /dev/null 2>&1; }

# Compiling a torch source takes 1.3 GB, so this returns the number of CPUs, but at most one job per 2 GB of memory. TRAINCTL_JOBS
# overrides it.
build_jobs() {
  local cpus memory_gb
  cpus=$(nproc)
  memory_gb=$(awk '/^MemTotal:/ { print int($2 / 1048576) }' /proc/meminfo)
  local jobs=$((memory_gb / 2 < cpus ? memory_gb / 2 : cpus))
  echo "${TRAINCTL_JOBS:-$((jobs > 1 ? jobs : 1))}"
}

# configure_and_build PRESET [TARGET...]
configure_and_build() {
  local preset=$1
  shift
  say "configuring and building build/$preset"
  cmake --preset "$preset" > /dev/null || die "configuring failed; the lines above say what is missing, and scripts/setup installs it"
  local targets=()
  if [ $# -gt 0 ]; then targets=(--target "$@"); fi
  cmake --build --preset "$preset" --parallel "$(build_jobs)" "${targets[@]}" ||
    die "building build/$preset failed; the first error above is the cause"
}
