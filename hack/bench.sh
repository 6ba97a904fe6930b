#!/usr/bin/env bash
# Speed: the API server beside the real pair, providers on the wire beside those in process, nodes, and
# machines from apply to Ready. Builds the release binary and the benches, and runs them.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -p sutler
cargo build --release --locked -p sutler-parity --bin bench
ulimit -n 16384
"${CARGO_TARGET_DIR:-target}/release/bench"
cargo bench --locked -p sutler-rpc --bench wire
# Nodes: machines found for those who wait, and a decision of the scaler, each beside the plain way.
cargo bench --locked -p sutler-control --bench matching
cargo bench --locked -p sutler-scale --bench decide
# Real machines, where there is a libvirt for them.
guest=${SUTLER_CACHE:-$HOME/.cache/sutler}/guest/guest.qcow2
trap './hack/libvirt.sh down || true' EXIT
if ./hack/libvirt.sh up && ./hack/guest-image.sh "$guest"; then
    export SUTLER_GUEST_IMAGE=$guest
    cargo build --release --locked -p sutler-libvirt
    cargo bench --locked -p sutler-libvirt --bench fleet
fi
cargo bench --locked -p sutler --bench machines
