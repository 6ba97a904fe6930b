#!/usr/bin/env bash
# Fuzzes decoders, patches, apply, validation, the store engines and the whole server, each target
# for FUZZ_SECONDS (60); arguments name targets, none means all. Needs a nightly toolchain;
# cargo-fuzz is installed once into the cache, where the build and what is found are kept too.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.13.2
cache=${SUTLER_CACHE:-$HOME/.cache/sutler}
root=$cache/tools/cargo-fuzz-$version
seconds=${FUZZ_SECONDS:-60}
if [ ! -x "$root/bin/cargo-fuzz" ]; then
  echo "installing cargo-fuzz $version"
  # Its own target folder: it shares nothing with ours, and would only grow it.
  CARGO_TARGET_DIR=$(mktemp -d) cargo install --quiet --locked --root "$root" "cargo-fuzz@$version"
fi
export PATH=$root/bin:$PATH
# The toolchain file of the workspace names a stable one. Our code has no unsafe blocks, so that a
# sanitizer of memory would only slow it down.
fuzz() { RUSTUP_TOOLCHAIN=${FUZZ_TOOLCHAIN:-nightly} cargo fuzz "$@"; }
options=(--sanitizer "${FUZZ_SANITIZER:-none}" --target-dir "$cache/fuzz/target")
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(fuzz list)
fuzz build "${options[@]}"
for target in "${targets[@]}"; do
  echo "fuzzing $target for $seconds s"
  # The first folder takes what is found; seeds are only read.
  folders=("$cache/fuzz/corpus/$target")
  mkdir -p "${folders[0]}"
  [ ! -d "fuzz/seeds/$target" ] || folders+=("fuzz/seeds/$target")
  fuzz run "${options[@]}" "$target" "${folders[@]}" -- -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=2048 -max_len=32768 -verbosity=0 -print_final_stats=1
done
