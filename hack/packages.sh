#!/usr/bin/env bash
# packages.sh check|install WHAT=PACKAGE…: WHAT is a program, or a file (a pattern with a slash).
#
# check prints what lacks and fails if anything does. install gets the packages of what lacks by apt;
# where it cannot (not root, no apt) it says what to install and exits with 3.
set -euo pipefail

# present WHAT
present() {
    case $1 in
    */*) compgen -G "$1" >/dev/null ;;
    # Not every user has the folders of system programs in the path.
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
    esac
}

command=$1
shift
what=()
packages=()
for pair in "$@"; do
    present "${pair%=*}" || { what+=("${pair%=*}"); packages+=("${pair##*=}"); }
done
[ ${#what[@]} -gt 0 ] || exit 0
mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
if [ "$command" = check ]; then
    echo "not there: ${what[*]} (Debian packages: ${packages[*]})"
    exit 1
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "please install ${what[*]} (Debian packages: ${packages[*]}): only root can, by apt" >&2
    exit 3
fi
echo "installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
# Another installation is waited for; apt does not do so by itself for the lock of the lists. Lists that
# could not be fetched for another reason may still be good enough.
until said=$(apt-get -qq update 2>&1) || [[ $said != *lock* ]]; do
    sleep 2
done
apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${packages[@]}" >/dev/null
