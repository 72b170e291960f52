#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: peer.sh PEER [COUNTED LATE] runs these programs without and with what `hmreg run` sets.
. "$(dirname "$0")/../../package/cases.sh"

peer=$1 counted=${2-} late=${3-}
export HMREG_RUN_DIR=/tmp

under() { # MODE PROGRAM
    LD_PRELOAD=$PRELOAD:${LD_PRELOAD-} HMREG_RUN_MODE=$1 "$2"
}

refused() { # COMMAND...
    "$@"
    [[ $? == 2 ]]
}

nothing_left() {
    local res
    res=$(rdma resource show rxe0)
    echo "$res"
    [[ $res == *' mr 0 '* ]]
}

# MODE WORDS: a receive that is pending at the deregistration of its buffer ends so; ibv_rereg_mr() answers as without us.
receives() {
    local alone output
    alone=$("$late") && output=$(under "$1" "$late") || return
    echo "alone: $alone"
    echo "$1: $output"
    [[ $alone == 'deregistered: '*', intact'* && $output == "deregistered: "*"$2"* ]] &&
        [[ ${alone#*$'\n'} == "${output#*$'\n'}" ]] && [[ $1 == cache=* || $alone == "$output" ]]
}

check preload_peer__alone__registration_fails refused "$peer"
check preload_peer__trace__registration_fails refused under trace "$peer"
check preload_peer__gpu__right_bytes_move under gpu "$peer"
check preload_peer__gpu_and_cache__right_bytes_move under gpu,cache "$peer"
check preload_peer__gpu_and_cache_of_remote__right_bytes_move under gpu,cache=remote "$peer"
check preload_peer__cache__registration_fails refused under cache "$peer"
[[ $counted ]] &&
    check preload_counted__cache_write__kernel_and_record_agree under cache=write "$counted"
if [[ $late ]]; then
    for mode in trace gpu cache; do
        check preload_late__${mode}__as_without_us receives $mode ', intact'
    done
    for mode in cache=write cache=remote; do
        check preload_late__${mode}__writes_later receives $mode 'success, overwritten'
    done
fi
check preload_peer__ended__kernel_has_no_regions nothing_left
finish
