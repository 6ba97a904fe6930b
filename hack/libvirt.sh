#!/usr/bin/env bash
# libvirt.sh up: a libvirtd that answers on qemu:///system, with the network "default" and a pool
#                "sutler-test" for volumes. Installs what lacks, if it can; else exits with 3.
# libvirt.sh down: ends what `up` started, and nothing else.
# libvirt.sh installed: whether all is there that `up` needs; prints what lacks.
#
# A libvirtd that is already there, systemd's for example, is used as it is. Neither is any setting of
# libvirt changed: QEMU runs as the user that libvirt gives it.
#
#   SUTLER_CACHE          where its records are kept (default: ~/.cache/sutler)
#   SUTLER_LIBVIRT_POOL   the pool's folder (default: libvirt/pool in the cache if QEMU's user can get
#                         there, as it cannot into most home folders; else one beside libvirt's images)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SUTLER_CACHE:-$HOME/.cache/sutler}
# What `up` did is a file here: a process, or a word.
records=$cache/libvirt/started
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C

needed=(
    libvirtd=libvirt-daemon-system virtlogd=libvirt-daemon virsh=libvirt-clients
    '/usr/lib*/*/libvirt/connection-driver/libvirt_driver_qemu.so=libvirt-daemon-driver-qemu'
    qemu-system-x86_64=qemu-system-x86 qemu-img=qemu-utils '/usr/share/qemu/firmware/*=ovmf'
    dnsmasq=dnsmasq-base iptables=iptables /usr/include/libvirt/libvirt.h=libvirt-dev
)

say() { printf 'libvirt: %s\n' "$*"; }

v() { virsh -q -c qemu:///system "$@"; }

answers() { v version >/dev/null 2>&1; }

# began PID: when it began, which with its ID makes a process unlike any other until the next boot.
began() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# as_qemu COMMAND…: runs it as the user that QEMU runs as; as oneself if that one is not known. Fails
# for all but root.
as_qemu() {
    local user
    [ "$(id -u)" = 0 ] || return 1
    user=$(sed -n 's/^ *user *= *"\{0,1\}+\{0,1\}\([^"]*\).*/\1/p' /etc/libvirt/qemu.conf 2>/dev/null | tail -n 1)
    for name in $user libvirt-qemu qemu; do
        if id "$name" >/dev/null 2>&1; then
            setpriv --reuid="$name" --regid="$(id -g "$name")" --init-groups "$@"
            return
        fi
    done
    "$@"
}

# start NAME PROGRAM ARGUMENTS…: starts a daemon and records it.
start() {
    local name=$1 pid
    shift
    # It must not hold our lock for as long as it lives.
    "$@" -d -p "/run/$name.pid" 9>&-
    pid=$(cat "/run/$name.pid")
    echo "$pid $(began "$pid")" >"$records/$name"
    say "started $name ($pid)"
}

# stop NAME: ends a daemon that was recorded, if it still runs.
stop() {
    local pid since
    [ -e "$records/$1" ] || return 0
    read -r pid since <"$records/$1"
    if [ -n "$since" ] && [ "$(began "$pid")" = "$since" ]; then
        kill "$pid"
        for _ in $(seq 100); do
            [ "$(began "$pid")" = "$since" ] || break
            sleep 0.1
        done
        say "ended $1 ($pid)"
    fi
    rm -f "$records/$1"
}

daemon() {
    local command=(libvirtd)
    answers && { say "libvirtd: answers"; return; }
    if [ -d /run/systemd/system ]; then
        # It is systemd's then, to end as well.
        systemctl start libvirtd
    else
        # Where QEMU's output goes; libvirtd starts it for itself only for a session of a user.
        if ! virt-admin -c virtlogd:///system srv-list >/dev/null 2>&1; then
            start virtlogd virtlogd
        fi
        # A /dev/kvm that QEMU's user may not open is tried by root when libvirtd asks QEMU what it can
        # do, and the answer is thrown away when the user is seen not to have it: each request that
        # needs the answer then takes seconds. This libvirtd sees none.
        if [ -e /dev/kvm ] && ! as_qemu test -r /dev/kvm -a -w /dev/kvm; then
            rm -f /run/sutler-no-kvm
            mknod /run/sutler-no-kvm c 1 3
            chmod 0 /run/sutler-no-kvm
            # shellcheck disable=SC2016 # The inner shell's.
            command=(unshare --mount --propagation slave sh -c
                'mount --bind /run/sutler-no-kvm /dev/kvm && exec libvirtd "$@"' sh)
        fi
        # It may start the network by itself.
        if [ ! -e /sys/class/net/virbr0 ]; then
            echo started >"$records/network-started"
        fi
        start libvirtd "${command[@]}"
    fi
    for _ in $(seq 100); do
        answers && return
        sleep 0.1
    done
    say "libvirtd does not answer on qemu:///system"
    return 1
}

network() {
    if ! v net-info default >/dev/null 2>&1; then
        v net-define /dev/stdin >/dev/null <<XML
<network>
  <name>default</name>
  <forward mode='nat'/>
  <bridge name='virbr0' stp='on' delay='0'/>
  <ip address='192.168.122.1' netmask='255.255.255.0'>
    <dhcp><range start='192.168.122.2' end='192.168.122.254'/></dhcp>
  </ip>
</network>
XML
        echo defined >"$records/network-defined"
    fi
    if v net-list --name | grep -x default >/dev/null; then
        say "network default: active"
    else
        v net-start default >/dev/null
        echo started >"$records/network-started"
        say "network default: started"
    fi
}

pool() {
    local folder=${SUTLER_LIBVIRT_POOL:-}
    if ! v pool-info sutler-test >/dev/null 2>&1; then
        if [ -z "$folder" ]; then
            folder=$cache/libvirt/pool
            mkdir -p "$folder"
            if ! as_qemu test -x "$folder"; then
                rmdir --ignore-fail-on-non-empty "$folder"
                folder=/var/lib/libvirt/images/sutler-test
            fi
        fi
        # Volumes are for their owners only; libvirt makes QEMU the owner of those that it uses.
        v pool-define /dev/stdin >/dev/null <<XML
<pool type='dir'>
  <name>sutler-test</name>
  <target><path>$folder</path><permissions><mode>0711</mode></permissions></target>
</pool>
XML
        echo defined >"$records/pool-defined"
        v pool-build sutler-test >/dev/null
    fi
    # Its folder may have been in a cache that is gone.
    v pool-list --name | grep -x ' *sutler-test *' >/dev/null || v pool-start sutler-test >/dev/null 2>&1 ||
        { v pool-build sutler-test >/dev/null && v pool-start sutler-test >/dev/null; }
    folder=$(v pool-dumpxml sutler-test | sed -n 's/.*<path>\(.*\)<\/path>.*/\1/p')
    say "pool sutler-test: $folder"
    if [ "$(id -u)" = 0 ] && ! as_qemu test -x "$folder"; then
        say "QEMU's user cannot get into that folder"
        return 1
    fi
}

up() {
    "$here/packages.sh" install "${needed[@]}"
    daemon
    network
    pool
}

down() {
    local running
    if [ -z "$(ls -A "$records")" ]; then
        say "nothing to end"
        return
    fi
    if answers; then
        running=$(v list --name | sed '/^$/d' | tr '\n' ' ')
        if [ -n "$running" ]; then
            say "machines still run: $running"
            return 1
        fi
        # The pool's volumes stay.
        if [ -e "$records/pool-defined" ]; then
            v pool-destroy sutler-test >/dev/null 2>&1 || true
            v pool-undefine sutler-test >/dev/null 2>&1 || true
        fi
        [ ! -e "$records/network-started" ] || v net-destroy default >/dev/null 2>&1 || true
        [ ! -e "$records/network-defined" ] || v net-undefine default >/dev/null 2>&1 || true
    fi
    rm -f "$records"/{pool,network}-*
    stop libvirtd
    stop virtlogd
    rm -f /run/sutler-no-kvm
}

case "${1:-}" in
installed)
    exec "$here/packages.sh" check "${needed[@]}"
    ;;
up | down)
    mkdir -p "$records"
    # One at a time: two that find nothing would both start it.
    exec 9>"$cache/libvirt/lock"
    flock 9
    "$1"
    ;;
*)
    echo "usage: $0 up|down|installed" >&2
    exit 2
    ;;
esac
