#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What runs as this user, or as root, out of folders that other users may write: the store of hmreg-guest, as it is
# installed, and the roots of ./run on. Nothing is downloaded and nothing boots.
. "$(dirname "$0")/cases.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lib/hmreg/guest" "$work/bin" "$work/tree/"{.ci,simulated/guest,cmake}
cp "$SOURCE_DIR/simulated/guest/"{prepare,machine,mirror,progress} "$work/lib/hmreg/guest"
cp "$SOURCE_DIR/.ci/on" "$work/tree/.ci"
cp "$SOURCE_DIR/simulated/guest/"{mirror,progress} "$work/tree/simulated/guest"
cp "$SOURCE_DIR/cmake/packages.txt" "$work/tree/cmake"
chmod -R go+rX "$work"
# Without QEMU prepare ends where it has accepted the store, and without unshare(1) on where it has its roots.
for tool in bash dirname readlink stat mkdir chmod find uname env cat; do
    ln -s "$(command -v $tool)" "$work/bin/$tool"
done

group=5000
user=(setpriv --reuid 5001 --regid 5001 --groups $group)
attacker=(setpriv --reuid 5002 --regid 5002 --groups $group)
((EUID == 0)) || user=()

prepare() { # XDG_CACHE_HOME: as the user, with a shared group's umask
    (umask 002 && "${user[@]}" env -i "PATH=$work/bin" "XDG_CACHE_HOME=$1" "$work/lib/hmreg/guest/prepare" 6.1 2>&1)
}

accepts() {
    local output status=0
    output=$(prepare "$1") || status=$?
    echo "$output"
    [[ $status == 77 && $(stat -c %a "$1/hmreg-guest") == 700 ]]
}

refuses() { # XDG_CACHE_HOME WORDS
    local output status=0
    output=$(prepare "$1") || status=$?
    echo "$output"
    [[ $status == 125 && $output == *"$2"* ]]
}

folder() { # MODE [OWNER]: a new one, the user's own
    made=$(mktemp -d "$work/cache.XXXXXX")
    mkdir "$made/hmreg-guest"
    ((EUID)) || chown -R "${2-5001}:$group" "$made"
    chmod "$1" "$made/hmreg-guest"
    chmod 755 "$made"
}

new_folder() {
    made=$(mktemp -d "$work/new.XXXXXX")/cache
    ((EUID)) || chown "5001:$group" "${made%/*}"
    chmod 755 "${made%/*}"
}

# The other user of the group tries to put files where the user's are booted and compiled.
attacker_is_kept_out() {
    new_folder
    accepts "$made" || return
    ! "${attacker[@]}" bash -c 'echo planted >"$0/hmreg-guest/shim.so"' "$made" &&
        ! "${attacker[@]}" mv "$made/hmreg-guest" "$made/moved"
}

planted_file() {
    folder 755
    mkdir -m 775 "$made/hmreg-guest/6.1"
    refuses "$made" "others may have written $made/hmreg-guest/6.1"
}

folder_above() { # MODE RESULT...
    folder 700
    chmod "$1" "$made"
    "${@:2}"
}

roots() { # MODE [OWNER]: on, with these
    rm -rf "$work/tree/build"
    mkdir -p -m 755 "$work/tree/build/roots"
    chown "${2-0}" "$work/tree/build/roots"
    chmod "$1" "$work/tree/build/roots"
    env "PATH=$work/bin" HMREG_DEBIAN_MIRROR=http://none.invalid/main "$work/tree/.ci/on" 12 true 2>&1
}

roots_are_refused() {
    fails 'other users may have written' roots "$@"
}

roots_are_closed() {
    fails 'permits no mounts' roots 755 && [[ $(stat -c %a "$work/tree/build/roots") == 700 ]]
}

[[ $(uname -m) == x86_64 ]] || { skip guest 'the guest is for x86-64' && finish; }
new_folder
check store__none__made_for_this_user_alone accepts "$made"
folder 700
check store__of_this_user_alone__accepted accepts "$made"
# A process that ends when its end of a pipe closes, which happens when two lines about it have come.
long_step_is_reported() {
    local lines=() line
    printf 'I: Retrieving one\rI: Retrieving two\n' >"$work/log"
    mkfifo "$work/ends"
    cat "$work/ends" &
    local step=$!
    exec 7>"$work/ends"
    # shellcheck disable=SC1091
    while read -r line; do
        lines+=("$line")
        ((${#lines[@]} < 2)) || exec 7>&-
    done < <(exec 7>&- 2>&1 && . "$SOURCE_DIR/simulated/guest/progress" && say_while "$step" 0 'on: making' "$work/log")
    printf '%s\n' "${lines[@]}"
    [[ ${lines[1]} =~ ^'on: making: '[0-9]+' s: I: Retrieving two'$ ]]
}
check progress__of_a_long_step__said_until_its_end long_step_is_reported

folder 755
check store__no_other_could_write__closed accepts "$made"
folder 775
check store__group_may_write__refused refuses "$made" "others may have written $made/hmreg-guest"
check store__group_may_write_a_part__refused planted_file
words='others may write in'
check store__below_a_folder_of_the_group__refused folder_above 775 eval 'refuses "$made" "$words $made: chmod go-w it"'
check store__below_a_folder_of_all__refused folder_above 777 eval 'refuses "$made" "$words $made: chmod go-w it"'
check store__below_a_sticky_folder__accepted folder_above 1777 eval 'accepts "$made"'
if ((EUID)); then
    skip store__other_users 'only root can become two users'
else
    check store__of_a_shared_group__attacker_is_kept_out attacker_is_kept_out
    folder 755 5002
    check store__of_another_user__refused refuses "$made" 'belongs to another user'
    folder 700 0
    chown 5002 "$made/hmreg-guest"
    check store__of_another_user_below_roots__refused refuses "$made" 'belongs to another user'
    folder 700
    ln -s "$made" "$work/link"
    check store__by_a_link__its_folder_is_checked accepts "$work/link"
    check on__roots__closed roots_are_closed
    check on__roots_that_a_group_may_write__refused roots_are_refused 775
    check on__roots_of_another_user__refused roots_are_refused 755 5002
fi
finish
