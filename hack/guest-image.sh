#!/usr/bin/env bash
# guest-image.sh OUT.qcow2: makes a small guest for tests out of Debian's packages. Without hardware
# help for virtualization, under QEMU's TCG, a usual cloud image takes most of a minute to boot; this
# one takes seconds. hack/guest/ has all that is in it beside Debian's programs:
#
#   - Debian's signed cloud kernel with an initramfs of modules, busybox as init, the guest agent
#   - boots from virtio-blk and virtio-scsi disks, by BIOS and by UEFI, with Secure Boot too
#   - reads NoCloud seeds: see hack/guest/files/usr/lib/sutler/seed, network and user-data
#   - fills its disk at boot and whenever the disk grows; brings up processors, memory and network
#     interfaces that are plugged in
#   - a shell without a login on ttyS0; shuts down by the power button and by the agent
#
# Does nothing if OUT was already made by this version of the script. Needs no KVM and no loop devices,
# and root only to get the programs below by apt.
#
#   SUTLER_DEBIAN_MIRROR   where packages come from (default: mmdebstrap's own)
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 OUT.qcow2" >&2
    exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath -m "$1")
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C

version=$(cd "$here" && {
    cat guest-image.sh
    find guest -type f | sort | xargs sha256sum
    find guest -type f -perm -u+x | sort
} | sha256sum | cut -d ' ' -f 1)

mkdir -p "$(dirname "$out")"
# One at a time: the second finds what the first has made.
exec 9>"$out.lock"
flock 9
if [ -e "$out" ] && [ "$(cat "$out.version" 2>/dev/null)" = "$version" ]; then
    echo "guest image: cached"
    exit 0
fi
"$here/packages.sh" install mmdebstrap=mmdebstrap mke2fs=e2fsprogs sfdisk=fdisk mcopy=mtools \
    mkfs.vfat=dosfstools cpio=cpio qemu-img=qemu-utils grub-mkimage=grub-common \
    /usr/lib/grub/i386-pc/boot.img=grub-pc-bin

start=$(date +%s)
work=$(mktemp -d "$out.build.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# Times in the image are this one, and IDs are fixed, so that the same packages give nearly the same
# image: only the times at which inodes changed cannot be chosen.
export SOURCE_DATE_EPOCH=1700000000 E2FSPROGS_FAKE_TIME=1700000000
uuid=5d5f3d1c-7a0e-4a53-9d2c-5375746c6572

# The files of the packages, without running what they run when they are installed. The boot loaders'
# packages would bring Perl and more with them: only they themselves are taken.
cat >loaders.sh <<'HOOK'
set -e
cd "$1"
mkdir loaders
cd loaders
apt-get -qq download -o APT::Sandbox::User=root shim-signed grub-efi-amd64-signed
for package in *.deb; do dpkg-deb -x "$package" .; done
HOOK
mmdebstrap --quiet --mode=chrootless --variant=extract --architectures=amd64 \
    --include=linux-image-cloud-amd64,busybox-static,bash,qemu-guest-agent,e2fsprogs,fdisk,util-linux \
    --aptopt='APT::Sandbox::User "root"' \
    --extract-hook="sh $work/loaders.sh \"\$1\"" \
    bookworm "$work/debian" ${SUTLER_DEBIAN_MIRROR:+"$SUTLER_DEBIAN_MIRROR"} 2>mmdebstrap.log ||
    { cat mmdebstrap.log >&2; exit 1; }
debian=$work/debian
busybox=$debian/bin/busybox
kernel=$(cd "$debian/lib/modules" && echo *)
"$busybox" depmod -b "$debian" "$kernel" 2>/dev/null

# needs MODULE: the files of the modules that it needs, and its own, in the order of loading.
needs() {
    awk -v name="$1" '
        {
            file = $1
            sub(/:$/, "", file)
            base = file
            sub(/.*\//, "", base)
            sub(/\.ko$/, "", base)
            gsub(/-/, "_", base)
            if (base != name) next
            for (i = NF; i > 1; i--) print $i
            print file
            found = 1
        }
        END { if (!found) { print "there is no module " name > "/dev/stderr"; exit 1 } }
    ' "$debian/lib/modules/$kernel/modules.dep"
}

# The initramfs.
mkdir -p initramfs/{bin,dev,modules,new,proc,sys}
cp "$busybox" initramfs/bin/
for program in sh mount insmod ip udhcpc true findfs usleep switch_root; do ln -s busybox "initramfs/bin/$program"; done
cp "$here/guest/init" initramfs/init
for module in virtio_pci virtio_net virtio_blk virtio_scsi sd_mod sr_mod isofs vfat nls_cp437 nls_ascii \
    virtio_console virtio_rng virtio_balloon button evdev qemu_fw_cfg; do
    for file in $(needs "$module"); do
        name=$(basename "$file")
        [ ! -e "initramfs/modules/$name" ] || continue
        cp "$debian/lib/modules/$kernel/${file#"/lib/modules/$kernel/"}" "initramfs/modules/$name"
        # A controller's disks are all found when its module is loaded, and not at some time after.
        [ "$name" != scsi_mod.ko ] || name="$name scan=sync"
        echo "$name" >>initramfs/modules/order
    done
done

# The root filesystem.
mkdir -p files/{dev,etc,home,proc,run,sys,tmp,usr/bin,usr/lib,usr/lib64,var/lib/sutler-guest,var/log}
for name in bin lib lib64; do ln -s "usr/$name" "files/$name"; done
ln -s usr/bin files/sbin
ln -s bin files/usr/sbin
ln -s ../run files/var/run
ln -s ../run/resolv.conf files/etc/resolv.conf
ln -s ../proc/self/mounts files/etc/mtab
for program in $("$busybox" --list); do ln -s busybox "files/usr/bin/$program"; done
cp --remove-destination "$busybox" files/usr/bin/
cp "$debian/lib64/ld-linux-x86-64.so.2" files/usr/lib64/
for program in bin/bash usr/sbin/qemu-ga sbin/resize2fs sbin/sfdisk usr/bin/partx usr/bin/flock; do
    cp --remove-destination "$debian/$program" files/usr/bin/
    libraries=$debian/lib/x86_64-linux-gnu:$debian/usr/lib/x86_64-linux-gnu
    for library in $("$debian/lib64/ld-linux-x86-64.so.2" --inhibit-cache --library-path "$libraries" \
        --list "$debian/$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'); do
        cp "$library" files/usr/lib/
    done
done
cp -r "$here/guest/files/." files/
echo sutler-guest >files/etc/hostname

chmod -R u=rwX,go=rX initramfs files
for tree in initramfs files; do find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; done
(cd initramfs && find . | sort | cpio --quiet --reproducible --owner=0:0 -H newc -o) >initrd
# Whoever makes it, its files belong to root.
as_root=()
[ "$(id -u)" = 0 ] || as_root=(unshare --map-root-user)
"${as_root[@]}" mke2fs -q -t ext4 -b 4096 -d files -L sutler-root -U "$uuid" -E "root_owner=0:0,hash_seed=$uuid,nodiscard" \
    -J size=4 -m 0 root.img 480M >/dev/null

# Both loaders start the same kernel from the EFI system partition, and ask nothing. The guest should
# be up soon and holds no secrets: what guards against other tenants, and tests of the kernel's own
# ciphers, are left out.
options="console=ttyS0 quiet loglevel=3 mitigations=off no5lvl nokaslr cryptomgr.notests audit=0 apparmor=0 memhp_default_state=online panic=10"
# loader SUFFIX: commands for GRUB.
loader() { printf 'linux%s /vmlinuz %s\ninitrd%s /initrd\nboot\n' "$1" "$options" "$1"; }
mkfs.vfat -F 16 -s 8 -n ESP -i 53555401 --invariant -C esp.img $((28 * 1024)) >/dev/null
signed=$debian/loaders/usr/lib
loader '' >uefi.cfg
mmd -i esp.img ::EFI ::EFI/BOOT ::EFI/debian
mcopy -i esp.img -m "$debian/boot/vmlinuz-$kernel" ::vmlinuz
mcopy -i esp.img -m initrd ::initrd
mcopy -i esp.img -m "$signed/shim/shimx64.efi.signed" ::EFI/BOOT/BOOTX64.EFI
mcopy -i esp.img -m "$signed/grub/x86_64-efi-signed/grubx64.efi.signed" ::EFI/BOOT/grubx64.efi
mcopy -i esp.img -m uefi.cfg ::EFI/debian/grub.cfg
# By BIOS it is the kernel's 16-bit entry: for the other one GRUB moves 50 MB byte by byte, which takes
# seconds without KVM.
loader 16 >bios.cfg
grub-mkimage -O i386-pc -o core.img -p '(,gpt2)/' -c bios.cfg biosdisk part_gpt fat linux16

# The disk. GRUB's own installer wants a block device; what it does here are three numbers.
truncate -s 512M disk.img
sfdisk --quiet disk.img <<TABLE
label: gpt
label-id: 5d5f3d1c-7a0e-4a53-9d2c-000000000000
start=1MiB,  size=1MiB,   type=21686148-6449-6E6F-744E-656564454649, uuid=5d5f3d1c-7a0e-4a53-9d2c-000000000001
start=2MiB,  size=28MiB,  type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, uuid=5d5f3d1c-7a0e-4a53-9d2c-000000000002
start=30MiB, size=480MiB, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, uuid=5d5f3d1c-7a0e-4a53-9d2c-000000000003
TABLE
# little VALUE BYTES OFFSET FILE: writes a number, its lowest byte first.
little() {
    local i bytes=
    for ((i = 0; i < $2; i++)); do bytes+=$(printf '\\x%02x' $((($1 >> (8 * i)) & 255))); done
    printf '%b' "$bytes" | dd of="$4" bs=1 seek="$3" conv=notrunc status=none
}
first=2048
cp /usr/lib/grub/i386-pc/boot.img boot.img
little $first 8 92 boot.img           # the boot sector loads the first sector of the core,
little $((first + 1)) 8 500 core.img  # which loads the rest of it.
dd if=boot.img of=disk.img bs=440 count=1 conv=notrunc status=none
dd if=core.img of=disk.img bs=512 seek=$first conv=notrunc status=none
dd if=esp.img of=disk.img bs=1M seek=2 conv=notrunc,sparse status=none
dd if=root.img of=disk.img bs=1M seek=30 conv=notrunc,sparse status=none
# Not compressed: QEMU would unpack whole clusters again for each of the loader's small reads.
qemu-img convert -f raw -O qcow2 disk.img out.qcow2

# The image first: with the old version beside it, it would only be made again.
mv out.qcow2 "$out"
echo "$version" >"$out.version"
echo "guest image: built in $(($(date +%s) - start)) s, $(($(stat -c %s "$out") / 1024 / 1024)) MiB, Linux $kernel"
