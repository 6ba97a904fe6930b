#!/usr/bin/env bash
# Speed: the API server beside the real pair, providers on the wire beside those in process, and
# machines from apply to Ready. Builds the release binary and the benches, and runs them.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -p sutler
cargo build --release --locked -p sutler-parity --bin bench
ulimit -n 16384
"${CARGO_TARGET_DIR:-target}/release/bench"
cargo bench --locked -p sutler-rpc --bench wire
exec cargo bench --locked -p sutler --bench machines
