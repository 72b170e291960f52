#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# hibernate.sh MONITOR...: in the guest, example 14 with each monitor: a process hibernates while a peer writes to it,
# and is saved by CRIU. It wakes, as two clones do that are restored from the image: the peer writes to all three by
# turns, and each compares every byte.
. "$SOURCE_DIR/tests/package/cases.sh"
. "$SOURCE_DIR/tests/criu/criu.sh"
example=$BUILD_DIR/examples/14-hibernate
# Images have the addresses of the simulated device: few.
export LD_LIBRARY_PATH=$BUILD_DIR/simulated/cuda HMREG_FAKE_MEMORY=$((64 << 20))

wake() { # LIFE...: a message as its file, whole from the beginning
    local life
    for life; do
        printf rxe0 >"$work/$life/draft" && mv "$work/$life/draft" "$work/$life/wake" || return
    done
}

begin() { # MONITOR
    mkdir -p "$work"/{life,one,two}
    FI_MR_CACHE_MONITOR=$1 setsid "$example" rxe0 "$work/life" </dev/null >/dev/null 2>&1 &
    process=$!
    "$example-writer" rxe0 "$work"/{life,life,one,two} >"$work/said" 2>&1 &
    writer=$!
    processes+=($process $writer)
}

is_written() {
    await life/loaded $process || { cat "$work/said" "$work/life/report"; return 1; }
}

hibernates() {
    touch "$work/life/sleep"
    await life/asleep $process || { cat "$work/life/report"; return 1; }
}

goes_on() { # LIFE PID: of the process, or of the CRIU that is its parent
    await "$1/letter 2" "$2" || { why_criu_failed "$1"; cat "$work/$1/report"; return 1; }
}

reports() { # LIFE PID MONITOR
    await "$1/report" "$2" && says \
        "wrong bytes of 65536: registered 0, cached 0, device 0; gets registered 1, 0, 1; monitor $3" cat "$work/$1/report"
}

wrote() {
    await never $writer # it ends before
    says '9 rounds written to each of 3 lives' cat "$work/said"
}

tokens() { # N
    says "life $1: its tokens are of another life, of another life, of another life" cat "$work/said"
}

# All of them: what a life had is closed.
nothing_left() {
    local left
    left=$(rdma resource show mr; rdma resource show qp | grep -v 'type \(SMI\|GSI\)')
    echo "$left"
    [[ ! $left ]]
}

for monitor; do
    begin "$monitor"
    check "begin__${monitor}__the_peer_writes" is_written
    check "hibernate__${monitor}__under_load" hibernates
    check "save__${monitor}__goes_on" save $process --leave-running
    wake life one two
    declare -A pid=([life]=$process)
    check "wake__${monitor}__meets_the_peer" goes_on life $process
    for name in one two; do
        restore $name
        pid[$name]=${processes[-1]}
        check "restore__${monitor}__${name}_meets_the_peer" goes_on $name "${pid[$name]}"
    done
    check "write__${monitor}__to_three_lives" wrote
    for life in life one two; do
        check "${life}__${monitor}__every_byte_is_right" reports $life "${pid[$life]}" "$monitor"
    done
    for number in 1 2 3; do
        check "tokens__${monitor}__of_life_${number}__of_another_life" tokens $number
    done
    wait "${processes[@]}"
    check "end__${monitor}__nothing_is_left_on_the_nic" nothing_left
    processes=()
    ((failed)) && break
    rm -rf "$work"/*
done
finish
