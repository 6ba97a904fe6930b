#!/usr/bin/env bash
# guest-tests.sh ARGUMENT…: the tests on real guests, one program after the other; arguments are cargo's.
# `hack/tests.sh` sets up what they need.
set -euo pipefail
cd "$(dirname "$0")/.."
code=0
cargo test --no-fail-fast "$@" --test machines libvirt || code=$?
# Found among all, because a package that is built by itself is built otherwise.
program=$(cargo test "$@" --no-run --test all --message-format json 2>/dev/null |
    sed -n '/sutler-libvirt[#@]/s|.*"executable":"\([^"]*/all-[^"]*\)".*|\1|p')
cd crates/sutler-libvirt
CARGO_MANIFEST_DIR=$PWD "$program" || code=$?
exit "$code"
