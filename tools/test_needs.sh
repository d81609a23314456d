#!/bin/sh
# Installs what the tests need from the system: Chromium with a font, for the browser tests, and
# nginx, for those of servers behind a proxy.
set -eu

PATH="$PATH:/usr/sbin"
missing=
if ! command -v chromium >/dev/null 2>&1 && ! command -v chromium-browser >/dev/null 2>&1 &&
  ! command -v google-chrome >/dev/null 2>&1; then
  missing="$missing chromium fonts-dejavu-core"
fi
if ! command -v nginx >/dev/null 2>&1; then
  missing="$missing nginx"
fi
if [ -z "$missing" ]; then
  exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "The tests need$missing, and only root on Debian or Ubuntu can have it installed here." >&2
  echo "hint: install it (Debian: sudo apt install$missing), then run make test again" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086 - a list of packages
if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  rm -f "$log"
  echo "hint: apt-get could not install$missing; install it by hand, then run make test again" >&2
  exit 1
fi
rm -f "$log"
