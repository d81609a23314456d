#!/bin/sh
# Installs what the tests need from the system: Chromium with a font, for the browser tests, nginx,
# which stands before the server as the documentation has it, Prometheus, which scrapes it, bubblewrap,
# which keeps jobs apart, Slurm with munge, and Open MPI. The tests start a Slurm of their own, as whoever runs them; no service is left running.
set -eu

has() {
  for program in "$@"; do
    if command -v "$program" >/dev/null 2>&1 || [ -x "/usr/sbin/$program" ]; then
      return 0
    fi
  done
  return 1
}

missing=""
has chromium chromium-browser google-chrome || missing="$missing chromium fonts-dejavu-core"
has nginx || missing="$missing nginx-light"
has prometheus || missing="$missing prometheus"
has bwrap || missing="$missing bubblewrap"
has slurmctld || missing="$missing slurmctld"
has slurmd || missing="$missing slurmd"
has sbatch || missing="$missing slurm-client"
has munged || missing="$missing munge"
has mpirun || missing="$missing openmpi-bin"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "The tests need$missing, and only root on Debian or Ubuntu can have it installed here." >&2
  echo "hint: install them (Debian: sudo apt install$missing), then run make test again" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086 - a list of packages
# A service that the packages would start is of no use to the tests, and in containers it cannot start.
if ! { apt-get update && RUNLEVEL=1 apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  rm -f "$log"
  echo "hint: apt-get could not install$missing; install it by hand, then run make test again" >&2
  exit 1
fi
rm -f "$log"
