#!/bin/sh
# Installs what the tests need from the system: Chromium, for the browser tests, and a font for it.
set -eu

for browser in chromium chromium-browser google-chrome; do
  if command -v "$browser" >/dev/null 2>&1; then
    exit 0
  fi
done

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "The browser tests need Chromium, and only root on Debian or Ubuntu can have it installed here." >&2
  echo "hint: install Chromium (Debian: sudo apt install chromium), then run make test again" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  rm -f "$log"
  echo "hint: apt-get could not install chromium; install it by hand, then run make test again" >&2
  exit 1
fi
rm -f "$log"
