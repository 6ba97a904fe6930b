#!/usr/bin/env bash
# Provides Python with gRPC for the interop test, by version, in the cache outside the checkout.
# Prints the interpreter's path; a second run only looks whether it is there.
#
#   SUTLER_CACHE   where to keep it (default: ~/.cache/sutler)
set -euo pipefail

GRPC_VERSION=1.80.0

peers=${SUTLER_CACHE:-$HOME/.cache/sutler}/peers
folder=$peers/python-grpc$GRPC_VERSION

mkdir -p "$peers"
# One at a time: two runs must not build the same thing, nor see each other's half.
exec 9>"$peers/.grpc.lock"
flock 9
if [ ! -e "$folder/.complete" ]; then
    # Scripts in a virtual environment name its path, so this one is made in its place; it counts
    # only when the mark of completeness is there.
    rm -rf "$folder"
    python3 -m venv "$folder" >&2
    "$folder/bin/pip" install --quiet --disable-pip-version-check \
        "grpcio==$GRPC_VERSION" "grpcio-tools==$GRPC_VERSION" >&2
    touch "$folder/.complete"
fi
echo "$folder/bin/python"
