#!/usr/bin/env bash
# tests.sh: all tests, with whatever servers they need.
#
# The simulation computes while the others mostly wait for something, so it runs beside them at a lower
# priority. Tests on real guests run where libvirt can be set up, and are left out where it cannot.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${SUTLER_CACHE:-$HOME/.cache/sutler}
guest=$cache/guest/guest.qcow2

code=0
./hack/libvirt.sh up || code=$?
case $code in
0)
    trap './hack/libvirt.sh down || true' EXIT
    ./hack/guest-image.sh "$guest"
    export SUTLER_GUEST_IMAGE=$guest
    ;;
# Not root, or no apt.
3) echo "tests on real guests are left out: there is no libvirt" ;;
*) exit "$code" ;;
esac

log=$(mktemp)
nice -n 10 ./hack/timed.sh simulation cargo test "$@" --test simulation >"$log" 2>&1 &
simulation=$!
code=0
SUTLER_WITHOUT_SIMULATION=1 cargo test "$@" || code=$?
# Its output comes in one piece, and whichever failed, both are seen.
wait "$simulation" || code=$?
cat "$log"
rm -f "$log"
exit "$code"
