#!/usr/bin/env bash
# mutants.sh [NAME…]: proof that the tests of upstream's defects notice them.
# mutants.sh --check: whether the patches still fit the code, which takes a moment.
#
# Each patch in hack/mutants (all, or those named) brings one defect back into a copy of what is committed,
# and each `test:` line at its top has the arguments of a `cargo test` that has to fail there, which means to
# build, to run at least one test and to have one fail. hack/mutants/README.md lists them. One line is
# printed for each; what is wrong comes once more at the end, with exit code 1:
#
#   does not apply     the code has changed since: make the patch anew
#   does not compile   the same
#   matches no test    a test has another name now
#   SURVIVED           the test passes: it does not notice the defect
#   does not end       nor within MUTANT_SECONDS (900)
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
if [ "${1:-}" = --check ]; then
    code=0
    for patch in hack/mutants/*.patch; do
        git apply --check "$patch" 2>/dev/null ||
            { echo "$patch does not apply: make it anew for the code as it is" >&2 && code=1; }
    done
    exit "$code"
fi
seconds=${MUTANT_SECONDS:-900}
export CARGO_TARGET_DIR=${SUTLER_CACHE:-$HOME/.cache/sutler}/mutants
# Every mutant is built once.
export CARGO_INCREMENTAL=0

mkdir -p "$CARGO_TARGET_DIR"
exec {lock}>"$CARGO_TARGET_DIR/lock"
flock -n "$lock" || { echo "mutants are being tried already" >&2 && exit 1; }

# Always the same folder: cargo knows packages by where they are.
tree=$CARGO_TARGET_DIR/tree
log=$(mktemp)
remove() {
    git worktree remove --force "$tree" 2>/dev/null || rm -rf "$tree"
    git worktree prune
}
trap 'remove; rm -f "$log"' EXIT
remove
git worktree add --quiet --detach "$tree" HEAD

tests_of() { sed -n 's/^test: *//p' "$here/hack/mutants/$1.patch"; }

names=("$@")
if [ $# -eq 0 ]; then
    # Those of one package one after another: less is built anew.
    mapfile -t names < <(cd hack/mutants && grep -m1 -H '^test: ' -- *.patch | sort -t: -k3,3 -k1,1 | sed 's/\.patch:.*//')
fi
[ ${#names[@]} -gt 0 ] || { echo "there are no patches in hack/mutants" >&2 && exit 1; }

# judge NAME: what became of it, in `result`; what was said is in the log.
judge() {
    local patch=$here/hack/mutants/$1.patch args code
    : >"$log"
    [ -f "$patch" ] || { result="is not there" && return; }
    mapfile -t tests < <(tests_of "$1")
    [ ${#tests[@]} -gt 0 ] || { result="names no test" && return; }
    git -C "$tree" apply "$patch" 2>"$log" || { result="does not apply" && return; }
    for args in "${tests[@]}"; do
        # shellcheck disable=SC2086 # they are words
        set -- test --locked --profile ci $args
        cd "$tree"
        cargo "$@" --no-run >"$log" 2>&1 || { result="does not compile" && return; }
        cargo "$@" -- --list >"$log" 2>&1
        grep -q ': test$' "$log" || { result="matches no test: $args" && return; }
        code=0
        timeout "$seconds" cargo "$@" >"$log" 2>&1 || code=$?
        case $code in
            0) result="SURVIVED: $args" && return ;;
            124) result="does not end: $args" && return ;;
        esac
        grep -q '^test result: FAILED' "$log" || { result="breaks off: $args" && return; }
    done
    result=noticed
}

wrong=()
for name in "${names[@]}"; do
    began=$SECONDS
    judge "$name"
    cd "$here"
    echo "$name: $result ($((SECONDS - began)) s)"
    if [ "$result" != noticed ]; then
        wrong+=("$name: $result")
        tail -n 20 "$log"
    fi
    git -C "$tree" checkout --quiet -- .
    git -C "$tree" clean --quiet -fd
done
[ ${#wrong[@]} -eq 0 ] || {
    echo "${#wrong[@]} of ${#names[@]} mutants are not as they should be:"
    printf '  %s\n' "${wrong[@]}"
    exit 1
} >&2
echo "${#names[@]} mutants, each noticed"
