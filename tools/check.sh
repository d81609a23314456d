#!/bin/sh
# Runs one check of `make test` and notes how it ended: check.sh NAME COMMAND...
# What it prints is shown once it is over, so that checks side by side do not mix; with LIVE=1 as it comes.
# pytest gets its report and temporary folders, outside the checkout since .gitignore would reach into them.
set -u

name=$1
shift
reports=.cache/reports
mkdir -p "$reports"
log="$reports/$name.log"
folder=""
case "$name" in
  pytest*)
    folder=$(mktemp -d)
    set -- "$@" "--basetemp=$folder/pytest" "--junitxml=$reports/$name.xml"
    ;;
esac

export NO_COLOR=1
began=$(date +%s)
if [ -n "${LIVE:-}" ]; then
  "$@"
else
  "$@" >"$log" 2>&1
fi
status=$?
[ -z "$folder" ] || rm -rf "$folder"
[ -n "${LIVE:-}" ] || cat "$log"
seconds=$(($(date +%s) - began))
echo "$status $seconds" >"$reports/$name.status"
word=ok
[ "$status" -eq 0 ] || word=FAILED
echo "-- $name: $word in $seconds s"
exit "$status"
