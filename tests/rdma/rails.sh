#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# rails.sh NICS CYCLES: in the guest, example 13 over so many Soft-RoCE devices, of which one after the other is deleted
# in the middle of a round and added again. Afterwards the devices have no object left.
. "$SOURCE_DIR/tests/package/cases.sh"
nics=$1 cycles=$2
names=()
for i in $(seq "$nics"); do
    ip link add "eth$i" type dummy && ip addr add "10.0.$i.1/24" dev "eth$i" &&
        ip link set "eth$i" mtu 4500 up && rdma link add "rxe$i" type rxe netdev "eth$i" || exit 1
    names+=("rxe$i")
done
trap 'for nic in "${names[@]}"; do rdma link del $nic; ip link del "eth${nic#rxe}"; done' EXIT

ring() { # what rdma's NIC is
    says "every byte is right; $((8 * cycles)) regions registered on NICs that came back, 0 keys of others changed" \
        "$BUILD_DIR/examples/13-rails" -c "$cycles" 'rdma link del $NIC' \
        'rdma link add $NIC type rxe netdev eth${NIC#rxe}' "${names[@]}"
}

nothing_left() {
    local left
    left=$(rdma resource show mr; rdma resource show qp | grep -v 'type \(SMI\|GSI\)')
    echo "$left"
    [[ ! $left ]]
}

check "ring__a_nic_of_${nics}_is_gone_and_comes_back__every_byte_is_right" ring
check ring__ended__nothing_is_left_on_the_nics nothing_left
finish
