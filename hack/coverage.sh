#!/usr/bin/env bash
# Line coverage of the workspace's tests; installs cargo-llvm-cov once into the cache.
set -euo pipefail
version=0.6.21
root=${SUTLER_CACHE:-$HOME/.cache/sutler}/tools/cargo-llvm-cov-$version
if [ ! -x "$root/bin/cargo-llvm-cov" ]; then
  CARGO_TARGET_DIR=$(mktemp -d) cargo install --quiet --locked --root "$root" "cargo-llvm-cov@$version"
fi
PATH=$root/bin:$PATH exec cargo llvm-cov --workspace --summary-only
