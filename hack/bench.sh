#!/usr/bin/env bash
# Speed beside the real pair: builds the release binary and the bench, and runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -p sutler
cargo build --release --locked -p sutler-parity --bin bench
ulimit -n 16384
exec "${CARGO_TARGET_DIR:-target}/release/bench"
