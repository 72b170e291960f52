#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: peer.sh PEER runs the program without and with what `hmreg run` sets.
. "$(dirname "$0")/../../package/cases.sh"

peer=$1
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

check preload_peer__alone__registration_fails refused "$peer"
check preload_peer__trace__registration_fails refused under trace "$peer"
check preload_peer__gpu__right_bytes_move under gpu "$peer"
check preload_peer__ended__kernel_has_no_regions nothing_left
finish
