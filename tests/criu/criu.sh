# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# For bash scripts in the guest: saves a process by CRIU, and restores it, again and again, in pid and mount namespaces
# of its own. All files are on a tmpfs, since CRIU does not write to the guest's root.
work=$(mktemp -d /dev/shm/criu.XXXXXX)
processes=()

end_of_criu() {
    { kill -9 "${processes[@]}" && wait; } 2>/dev/null # the shell says of each that it was killed
    rm -rf "$work"
}
trap end_of_criu EXIT

# The guest's preloaded library is the program's, not CRIU's.
criu=(env -u LD_PRELOAD /usr/sbin/criu)

criu_version() {
    "${criu[@]}" --version | sed -n 's/^Version: //p'
}

why_criu_failed() { # LOG
    grep -E 'Error|Warn' "$work/$1.log" | tail -n 12
}

save() { # PID OPTION...: its images are in $work/images
    mkdir -p "$work/images"
    "${criu[@]}" dump -D "$work/images" -o "$work/dump.log" -v4 -t "$@" || {
        why_criu_failed dump
        return 1
    }
}

# What the process knows as the folder $work/life is $work/NAME in this clone, and exists before.
restore() { # NAME: its CRIU is the last of the processes
    unshare --mount --pid --fork --mount-proc bash -c 'work=$1 name=$2
        mount --bind "$work/$name" "$work/life" &&
            exec env -u LD_PRELOAD /usr/sbin/criu restore -D "$work/images" -o "$work/$name.log" -v4' - "$work" "$1" &
    processes+=($!)
}

# A file of a life; for a minute, and while the process is there.
await() { # FILE PID
    local i
    for ((i = 0; i < 3000; i++)); do
        [[ ! -e $work/$1 ]] || return 0
        [[ -e /proc/$2 ]] || break
        sleep 0.02
    done
    [[ -e $work/$1 ]]
}
