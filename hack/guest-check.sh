#!/usr/bin/env bash
# guest-check.sh IMAGE.qcow2: shows that the image that guest-image.sh made works, on the libvirtd that
# `libvirt.sh up` gives: boots it by BIOS and UEFI from virtio and SCSI disks, with seeds and without,
# asks its agent, lets its disk grow and shuts it down. Says how long things took, and how much of a
# processor, which other work on the host changes less. Leaves nothing.
# shellcheck disable=SC2317 # Most functions are called by others that are given their names.
set -euo pipefail
if [ $# -ne 1 ]; then
    echo "usage: $0 IMAGE.qcow2" >&2
    exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=$(realpath "$1")
export LC_ALL=C
"$here/packages.sh" install xorriso=xorriso

run=guest-check-$$
pool=sutler-test
work=$(mktemp -d)
failed=0
machines=()
volumes=()

v() { virsh -q -c qemu:///system "$@"; }

clean() {
    for machine in "${machines[@]}"; do
        v destroy "$machine" >/dev/null 2>&1 || true
        v undefine --nvram "$machine" >/dev/null 2>&1 || true
    done
    for volume in "${volumes[@]}"; do
        v vol-delete --pool "$pool" "$volume" >/dev/null 2>&1 || true
    done
    # What QEMU said; only root may take it away.
    rm -f "/var/log/libvirt/qemu/$run"-*.log 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

now() { date +%s%N; }

# since START: the seconds, with two digits.
since() { awk -v ns=$(($(now) - $1)) 'BEGIN { printf "%.2f", ns / 1e9 }'; }

# used NAME: the seconds of a processor that the machine has used since it was started.
used() { v domstats --cpu-total "$run-$1" | awk -F = '/cpu.time/ { printf "%.2f", $2 / 1e9 }'; }

# check WHAT COMMAND…: says whether the command succeeded.
check() {
    local what=$1
    shift
    if "$@"; then
        echo "  ok    $what"
    else
        echo "  FAIL  $what"
        failed=1
    fi
}

# same WHAT GOT WANT
same() {
    check "$1: $2" [ "$2" = "$3" ]
    [ "$2" = "$3" ] || echo "        wanted: $3"
}

# within SECONDS COMMAND…: tries until it succeeds.
within() {
    local end=$(($(now) + $1 * 1000000000))
    shift
    until "$@"; do
        [ "$(now)" -lt "$end" ] || return 1
        # Seldom enough to leave the processors to the guest.
        sleep 0.2
    done
}

# upload NAME FILE: a volume with the bytes of a file.
upload() {
    volumes+=("$1")
    v vol-create-as "$pool" "$1" "$(stat -c %s "$2")" --format raw >/dev/null
    v vol-upload --pool "$pool" "$1" "$2"
    # So that libvirt sees what it is.
    v pool-refresh "$pool" >/dev/null
}

# overlay NAME: a volume of 1.5 GiB on top of the image, which is a GiB smaller.
overlay() {
    volumes+=("$1")
    v vol-create-as "$pool" "$1" 1536M --format qcow2 --backing-vol "$run-base.qcow2" --backing-vol-format qcow2 >/dev/null
}

# seed NAME: a volume for NoCloud, of the files in the folder of that name.
seed() {
    xorriso -as mkisofs -quiet -V cidata -J -r -o "$work/$1.iso" "$work/$1" 2>/dev/null
    upload "$run-$1.iso" "$work/$1.iso"
}

# define NAME MACHINE BUS MAC MEMORY OS: a machine; OS is more of its <os>, as an attribute.
define() {
    local name=$run-$1 target cdrom=
    machines+=("$name")
    case $3 in virtio) target=vda ;; scsi) target=sda ;; esac
    if [ -d "$work/$1" ]; then
        seed "$1"
        cdrom="<disk type='volume' device='cdrom'><source pool='$pool' volume='$run-$1.iso'/><target dev='sdb' bus='scsi'/><readonly/></disk>"
    fi
    overlay "$name.qcow2"
    cat >"$work/$1.xml" <<XML
<domain type='qemu'>
  <name>$name</name>
  <memory unit='MiB'>$5</memory>
  <vcpu>1</vcpu>
  <cpu mode='maximum'/>
  <os $6><type arch='x86_64' machine='$2'>hvm</type><boot dev='hd'/></os>
  <features><acpi/></features>
  <devices>
    <controller type='scsi' model='virtio-scsi'/>
    <disk type='volume' device='disk'>
      <driver name='qemu' type='qcow2' discard='unmap'/>
      <source pool='$pool' volume='$name.qcow2'/>
      <target dev='$target' bus='$3'/>
    </disk>
    $cdrom
    <interface type='network'><mac address='$4'/><source network='default'/><model type='virtio'/></interface>
    <serial type='pty'/>
    <console type='pty'/>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
  </devices>
</domain>
XML
    local start
    start=$(now)
    v define "$work/$1.xml" >/dev/null
    echo "  defined in $(since "$start") s"
}

agent() { v qemu-agent-command --timeout 5 "$run-$1" "$2" 2>/dev/null; }

# inside NAME COMMAND: what a shell in the guest prints for it.
inside() {
    local pid status
    pid=$(agent "$1" "{\"execute\": \"guest-exec\", \"arguments\": {\"path\": \"/bin/sh\", \"arg\": [\"-c\", \"$2\"], \"capture-output\": true}}" |
        sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
    for _ in $(seq 100); do
        status=$(agent "$1" "{\"execute\": \"guest-exec-status\", \"arguments\": {\"pid\": $pid}}")
        case $status in *'"exited":true'*) break ;; esac
        sleep 0.05
    done
    sed -n 's/.*"out-data":"\([^"]*\)".*/\1/p' <<<"$status" | base64 -d
}

leased() { v net-dhcp-leases default --mac "$1" | grep ipv4 >/dev/null; }

has_address() { v domifaddr --source agent "$1" 2>/dev/null | grep -F "$2" >/dev/null; }

has_file() { [ "$(inside "$1" "test -e $2 && echo yes")" = yes ]; }

off() { [ "$(v domstate "$run-$1")" = "shut off" ]; }

megabytes() { inside "$1" "df -m / | tail -n 1 | awk '{print \$2}'"; }

# answered: whether the next line from the console is the answer.
answered() {
    local reply
    read -r -t 5 reply <&8 && [[ $reply == 42-answered* ]]
}

larger() { [ "$(megabytes "$1")" -gt "$2" ]; }

# boot NAME MAC ADDRESS: starts it and says when it had a lease (unless MAC is -) and its agent told of
# an address that begins like this.
boot() {
    local start
    start=$(now)
    v start "$run-$1" >/dev/null
    echo "  started in $(since "$start") s"
    start=$(now)
    if [ "$2" != - ]; then
        check "DHCP lease" within 120 leased "$2"
        echo "        after $(since "$start") s, $(used "$1") s of a processor"
    fi
    check "agent tells its address" within 120 has_address "$run-$1" "$3"
    echo "        after $(since "$start") s, $(used "$1") s of a processor"
}

# ends NAME MODE: shuts it down.
ends() {
    local start
    start=$(now)
    v shutdown --mode "$2" "$run-$1" >/dev/null
    check "shut down by $2" within 30 off "$1"
    echo "        after $(since "$start") s"
}

"$here/libvirt.sh" up >/dev/null
upload "$run-base.qcow2" "$image"
mac=$(printf '52:54:00:%02x:%02x' $(($$ / 256 % 256)) $(($$ % 256)))

echo "BIOS, q35, virtio disk, cloud-config, DHCP"
mkdir "$work/bios"
printf 'instance-id: one\nlocal-hostname: first\n' >"$work/bios/meta-data"
cat >"$work/bios/user-data" <<'DATA'
#cloud-config
write_files:
- path: /etc/check/words
  permissions: '0600'
  content: |
    two: words
      and "more" \n
runcmd:
- echo ran >> /var/lib/ran; hostname > /var/lib/ran-as
- [sh, -c, 'echo "$1" > /var/lib/words', sh, "in a list"]
DATA
define bios q35 virtio "$mac:01" 256 ""
boot bios "$mac:01" 192.168.122.
check "user-data was done" within 30 has_file bios /var/lib/sutler-guest/done
same "hostname" "$(inside bios hostname)" first
same "agent's host name" "$(agent bios '{"execute": "guest-get-host-name"}')" '{"return":{"host-name":"first"}}'
same "written file" "$(inside bios 'cat /etc/check/words')" $'two: words\n  and "more" \\n'
same "its permissions" "$(inside bios 'stat -c %a /etc/check/words')" 600
same "command that was run" "$(inside bios 'cat /var/lib/ran /var/lib/ran-as /var/lib/words' | tr '\n' ' ')" "ran first in a list "
same "system" "$(agent bios '{"execute": "guest-get-osinfo"}' | sed 's/.*"id":"\([^"]*\)".*/\1/')" sutler-guest
check "root filled the disk: $(megabytes bios) MB" larger bios 1300
v blockresize "$run-bios" vda 2G
check "root filled the disk that grew" within 20 larger bios 1800
same "freeze" "$(agent bios '{"execute": "guest-fsfreeze-freeze"}')" '{"return":1}'
same "frozen" "$(agent bios '{"execute": "guest-fsfreeze-status"}')" '{"return":"frozen"}'
same "thaw" "$(agent bios '{"execute": "guest-fsfreeze-thaw"}')" '{"return":1}'
if tty=$(v ttyconsole "$run-bios") && [ -w "$tty" ]; then
    # The serial console: the answer is not in what is typed.
    exec 8<>"$tty"
    stty raw -echo <&8
    # shellcheck disable=SC2016 # The guest's shell is to see it.
    echo 'echo $((6 * 7))-answered' >&8
    check "console" within 10 answered
    exec 8>&-
fi
ends bios acpi
boot bios - 192.168.122.
same "not run again" "$(inside bios 'cat /var/lib/ran')" ran
same "left clean" "$(inside bios 'dmesg | grep -c recovery')" 0
ends bios agent

echo "BIOS, i440fx, SCSI disk, script, fixed address"
mkdir "$work/fixed"
printf 'instance-id: two\nlocal-hostname: second\n' >"$work/fixed/meta-data"
printf '#!/bin/bash\nset -o pipefail\necho script > /var/lib/ran\n' >"$work/fixed/user-data"
cat >"$work/fixed/network-config" <<DATA
network:
  version: 2
  ethernets:
    nic0:
      match: {macaddress: "$mac:02"}
      addresses: [192.168.122.251/24]
      routes:
      - to: default
        via: 192.168.122.1
      nameservers:
        addresses: [192.168.122.1]
DATA
define fixed pc scsi "$mac:02" 256 ""
boot fixed - 192.168.122.251/24
check "script was run" within 30 has_file fixed /var/lib/ran
same "hostname" "$(inside fixed hostname)" second
same "addresses" "$(inside fixed 'ip -4 address show eth0 | grep -c inet')" 1
same "route" "$(inside fixed 'ip route | grep default')" "default via 192.168.122.1 dev eth0 "
same "name server" "$(inside fixed 'cat /etc/resolv.conf')" "nameserver 192.168.122.1"
check "gateway answers" [ -n "$(inside fixed 'ping -c 1 -W 2 192.168.122.1 | grep ttl')" ]
check "root filled the disk: $(megabytes fixed) MB" larger fixed 1300
v blockresize "$run-fixed" sda 2G
check "root filled the disk that grew" within 20 larger fixed 1800
ends fixed agent

echo "UEFI, q35, virtio disk, no seed"
# With Secure Boot, which libvirt chooses if it is not told else, 256 MiB are too few.
define uefi q35 virtio "$mac:03" 320 "firmware='efi'"
boot uefi "$mac:03" 192.168.122.
check "booted by UEFI" has_file uefi /sys/firmware/efi
echo "        $(inside uefi 'dmesg | sed -n s/.*secureboot:.//p')"
ends uefi acpi

exit $failed
