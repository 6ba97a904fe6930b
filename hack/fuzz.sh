#!/usr/bin/env bash
# Fuzzes the decoders, patches, apply, validation and the store engines, each target for
# FUZZ_SECONDS (60); arguments name targets, none means all. Installs cargo-fuzz once into the
# cache, where the corpora and the build are kept too.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.13.2
cache=${SUTLER_CACHE:-$HOME/.cache/sutler}
root=$cache/tools/cargo-fuzz-$version
toolchain=${FUZZ_TOOLCHAIN:-nightly}
seconds=${FUZZ_SECONDS:-60}
if [ ! -x "$root/bin/cargo-fuzz" ]; then
  echo "installing cargo-fuzz $version"
  # Its own target folder: it shares nothing with ours, and would only grow it.
  CARGO_TARGET_DIR=$(mktemp -d) cargo install --quiet --locked --root "$root" "cargo-fuzz@$version"
fi
export PATH=$root/bin:$PATH
export CARGO_TARGET_DIR=$cache/fuzz/target
if [ $# -eq 0 ]; then
  mapfile -t targets < <(cargo "+$toolchain" fuzz list)
else
  targets=("$@")
fi
cargo "+$toolchain" fuzz build
for target in "${targets[@]}"; do
  echo "fuzzing $target for $seconds s"
  mkdir -p "$cache/fuzz/corpus/$target"
  seeds=()
  [ -d "fuzz/seeds/$target" ] && seeds=("fuzz/seeds/$target")
  # The first folder takes what is found; seeds are only read.
  cargo "+$toolchain" fuzz run "$target" "$cache/fuzz/corpus/$target" "${seeds[@]}" -- \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -verbosity=0
done
