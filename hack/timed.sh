#!/usr/bin/env bash
# timed.sh NAME COMMAND…: runs a part of the tests and says how long it took.
# timed.sh --summary: all parts of this run.
set -u
log=${TMPDIR:-/tmp}/sutler-timed.$(id -u).${SUTLER_RUN:-$PPID}
if [ "${1:-}" = --summary ]; then
  echo "== what each part took"
  sort -k2 -rn "$log" 2>/dev/null | awk '{printf "%6d s  %s\n", $2, $1}'
  rm -f "$log"
  exit 0
fi
name=$1
shift
start=$(date +%s)
echo "== $name"
"$@"
code=$?
took=$(($(date +%s) - start))
echo "$name $took" >> "$log"
[ $code -eq 0 ] && echo "== $name: $took s" || echo "== $name FAILED after $took s"
exit $code
