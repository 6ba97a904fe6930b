# fill SERIAL: run in a guest, lets the file systems on the disk of that serial number fill it.
disk=
for sys in /sys/block/*; do
    found=$(cat "$sys/serial" 2>/dev/null)
    # SCSI tells it after four bytes of its own.
    [ -n "$found" ] || found=$(tr -dc '[:alnum:]' 2>/dev/null <"$sys/device/vpd_pg80")
    [ "$found" != "$1" ] || disk=${sys##*/}
done
[ -n "$disk" ] || { echo "no disk has the serial number $1" >&2; exit 3; }
# A SCSI disk is not asked for its size again by itself.
[ ! -e "/sys/block/$disk/device/rescan" ] || echo 1 >"/sys/block/$disk/device/rescan"
code=3
while read -r from dir type _; do
    name=$(basename "$(readlink -f "$from")")
    if [ "$name" != "$disk" ]; then
        [ -e "/sys/block/$disk/$name/partition" ] || continue
        # It fails where the partition cannot grow, or has all there is.
        ! command -v growpart >/dev/null || growpart "/dev/$disk" "$(cat "/sys/block/$disk/$name/partition")"
    fi
    case $type in
    ext[234]) resize2fs "$from" ;;
    xfs) xfs_growfs "$dir" ;;
    btrfs) btrfs filesystem resize max "$dir" ;;
    *) false ;;
    esac && code=0 && echo "$dir"
done </proc/mounts
[ $code = 0 ] || echo "nothing on $disk is mounted that is known here" >&2
exit $code
