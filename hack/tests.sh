#!/usr/bin/env bash
# tests.sh: all tests, with whatever servers they need.
#
# Most of them wait for something most of the time, so three lanes run beside each other: those that watch
# machines, all others, and at a lower priority the simulation, which computes. Those on real guests come
# after the first two, where libvirt can be set up, and not with SUTLER_REAL_GUESTS=0.
#
#   SUTLER_WITHOUT_SIMULATION   leaves the simulation out
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

# All test programs but `machines` and `simulation`, which have lanes of their own.
others=(--test '[!ms]*' --test 's[!i]*')
for program in crates/*/tests/{m,si}*.rs; do
    case $program in
        */machines.rs | */simulation.rs) ;;
        *) echo "$program is in no lane: name it otherwise, or change hack/tests.sh" >&2 && exit 1 ;;
    esac
done

logs=$(mktemp -d)
declare -A lanes
# lane NAME COMMAND…: begins it.
lane() {
    local name=$1
    shift
    ./hack/timed.sh "$name" "$@" >"$logs/$name" 2>&1 &
    lanes[$name]=$!
}
code=0
# ended NAME: waits for it; what it said comes in one piece.
ended() {
    wait "${lanes[$1]}" || code=$?
    cat "$logs/$1"
}

# All of them, whatever fails: one run tells everything that is wrong.
without=(env -u SUTLER_GUEST_IMAGE cargo test --no-fail-fast "$@")
lane machines "${without[@]}" --test machines
[ -n "${SUTLER_WITHOUT_SIMULATION:-}" ] ||
    lane simulation nice -n 10 cargo test --no-fail-fast "$@" --test simulation
./hack/timed.sh others "${without[@]}" --lib --bins "${others[@]}" || code=$?
ended machines
# Beside nothing but the simulation: more is more than a small machine can carry.
[ -z "${SUTLER_GUEST_IMAGE:-}" ] || ./hack/timed.sh guests ./hack/guest-tests.sh "$@" || code=$?
[ -z "${lanes[simulation]:-}" ] || ended simulation
rm -rf "$logs"
exit "$code"
