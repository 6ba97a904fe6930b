#!/usr/bin/env bash
# coverage.sh [PACKAGE...]: line coverage of the fast tests: units, each crate's own and a few seeds of the
# simulation, without those that start whole servers; of all packages, or of these. Prints a table, then the
# parts that have a goal (xtask/src/coverage.rs), and fails where one is missed. Installs cargo-llvm-cov once
# into the cache, and takes LLVM's tools from the toolchain, or of the same major version from the system.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.6.21
cache=${SUTLER_CACHE:-$HOME/.cache/sutler}
root=$cache/tools/cargo-llvm-cov-$version
if [ ! -x "$root/bin/cargo-llvm-cov" ]; then
  echo "installing cargo-llvm-cov $version"
  build=$(mktemp -d)
  CARGO_TARGET_DIR=$build cargo install --quiet --locked --root "$root" "cargo-llvm-cov@$version"
  rm -rf "$build"
fi
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
if ! ls "$(rustc --print sysroot)"/lib/rustlib/*/bin/llvm-cov >/dev/null 2>&1 \
  && ! rustup component add llvm-tools >/dev/null 2>&1; then
  if ! command -v "llvm-cov-$llvm" >/dev/null; then
    echo "installing llvm-$llvm"
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "llvm-$llvm" >/dev/null
  fi
  export LLVM_COV=llvm-cov-$llvm LLVM_PROFDATA=llvm-profdata-$llvm
fi
# The simulation is a program of its own that its tests start; a few seeds show which lines it runs.
export SUTLER_SIM_SEEDS=${SUTLER_SIM_SEEDS:-100}
# A folder of its own: instrumented objects are of no use to any other build.
export CARGO_TARGET_DIR=${COVERAGE_TARGET_DIR:-$cache/coverage}
packages=(--workspace)
[ $# -eq 0 ] || packages=("${@/#/--package=}")
PATH=$root/bin:$PATH
# Not every package has programs of both names.
tests=()
for name in all simulation; do
  for package in "${@:-*}"; do
    if compgen -G "crates/$package/tests/$name.rs" >/dev/null \
      || compgen -G "crates/$package/tests/$name/main.rs" >/dev/null; then
      tests+=(--test "$name")
      break
    fi
  done
done
# What breaks rules to see that it is noticed runs no other lines.
cargo llvm-cov "${packages[@]}" --locked --profile ci --lib --bins "${tests[@]}" \
  --no-report -- --skip every_broken_rule_is_noticed
cargo llvm-cov report --profile ci --summary-only
cargo llvm-cov report --profile ci --lcov --output-path "$CARGO_TARGET_DIR/lines.info"
unset CARGO_TARGET_DIR
exec cargo run -q --locked --profile ci -p xtask -- coverage "${COVERAGE_TARGET_DIR:-$cache/coverage}/lines.info"
