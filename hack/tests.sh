#!/usr/bin/env bash
# tests.sh: all tests, with whatever servers they need.
#
# The simulation computes while the others mostly wait for something, so it runs beside them at a lower
# priority. Those on real guests run where libvirt can be set up, and not with SUTLER_REAL_GUESTS=0.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${SUTLER_CACHE:-$HOME/.cache/sutler}
guest=$cache/guest/guest.qcow2

# Whatever is in the way of real guests (not root, no apt, no right to make networks) is said, and leaves
# them out.
if [ "${SUTLER_REAL_GUESTS:-1}" != 0 ]; then
    trap './hack/libvirt.sh down || true' EXIT
    if ./hack/libvirt.sh up && ./hack/guest-image.sh "$guest"; then
        export SUTLER_GUEST_IMAGE=$guest
        # For a host that is reached by SSH.
        ./hack/packages.sh install sshd=openssh-server || true
    else
        echo "tests on real guests are left out: there is no libvirt for them here" >&2
    fi
fi

log=$(mktemp)
simulation=
if [ -z "${SUTLER_WITHOUT_SIMULATION:-}" ]; then
    nice -n 10 ./hack/timed.sh simulation cargo test "$@" --test simulation >"$log" 2>&1 &
    simulation=$!
fi
code=0
# All of them, whatever fails: one run tells everything that is wrong.
SUTLER_WITHOUT_SIMULATION=1 cargo test --no-fail-fast "$@" || code=$?
# Its output comes in one piece, and whichever failed, both are seen.
[ -z "$simulation" ] || wait "$simulation" || code=$?
cat "$log"
rm -f "$log"
exit "$code"
