#!/usr/bin/env bash
# Checks bans, licences and sources of all dependencies; installs cargo-deny once into the cache.
# The advisory database needs a network that builds do not always have, so it is not asked here.
set -euo pipefail
version=0.20.2
root=${SUTLER_CACHE:-$HOME/.cache/sutler}/tools/cargo-deny-$version
if [ ! -x "$root/bin/cargo-deny" ]; then
  echo "installing cargo-deny $version"
  # Its own target folder: it shares nothing with ours, and would only grow it.
  build=$(mktemp -d)
  CARGO_TARGET_DIR=$build cargo install --quiet --locked --root "$root" "cargo-deny@$version"
  rm -rf "$build"
fi
exec "$root/bin/cargo-deny" --log-level error check --hide-inclusion-graph bans licenses sources
