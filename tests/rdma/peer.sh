#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: hmreg doctor --peer between two Soft-RoCE devices, rxe1 and rxe2, whose packets pass the two ends of a
# veth pair: with the memory of the host and of simulated devices, by libibverbs and libfabric; then without a route,
# with a filter, with another MTU, with the link down. Soft-RoCE knows no network namespaces before Linux 6.13, so both
# ends are in one, where rules keep the packets from the loopback interface, and both processes have both devices.
# peer.sh [short]: only the proof by libibverbs, since each question takes half a minute in an emulated guest.
. "$SOURCE_DIR/tests/package/cases.sh"
tool=$BUILD_DIR/tools/hmreg
export LD_LIBRARY_PATH=$BUILD_DIR/simulated/cuda HMREG_IFACES=cuda HMREG_FAKE_CUDA_DEVICES=1

# Restored for later tests.
end() {
    kill "$server"
    rdma link del rxe1 && rdma link del rxe2 && ip link del end1
    ip rule add pref 0 lookup local && for i in 100 11 12; do ip rule del pref $i; done
    "$SOURCE_DIR/simulated/guest/rdma-up"
    rm -rf "$work"
}

work=$(mktemp -d)
server=
trap end EXIT
(umask 077 && head -c 32 /dev/urandom >"$work/secret")

make_end() { # NUMBER OTHER
    echo 1 >/proc/sys/net/ipv4/conf/end$1/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/end$1/rp_filter
    ip address add 10.0.2.$1/24 dev end$1 && ip link set end$1 mtu 4500 up &&
        ip route add 10.0.2.$2 dev end$1 table 10$1 && rdma link add rxe$1 type rxe netdev end$1 &&
        ip rule add pref 1$1 from 10.0.2.$1 to 10.0.2.$2 iif lo lookup 10$1
}

is_ready() { # NUMBER
    grep -q "0000:0000:0000:0000:0000:ffff:0a00:020$1" /sys/class/infiniband/rxe$1/ports/1/gids/* 2>/dev/null &&
        grep -q ACTIVE /sys/class/infiniband/rxe$1/ports/1/state
}

are_ready() {
    until is_ready 1 && is_ready 2; do sleep 0.05; done # the kernel gives no notice
}

make_ends() {
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    rdma link del rxe0
    ip link add end1 type veth peer name end2 && ip rule add pref 100 lookup local && ip rule del pref 0 &&
        make_end 1 2 && make_end 2 1 && are_ready
}

serve() {
    "$tool" doctor --serve=127.0.0.1 --secret "$work/secret" --patience 280 >"$work/served" 2>&1 &
    server=$!
    until tcp_is_listening 18547; do kill -0 $server || return; done
}

ask() { # [OPTION...]
    "$tool" doctor --peer 127.0.0.1 --secret "$work/secret" --patience 280 "$@"
}

asked() { # JQ-FILTER
    local found
    found=$(ask --json)
    echo "$found"
    jq -e "$1" <<<"$found"
}

# The two pairs whose packets pass the link, by what jq says of each.
linked() { # JQ-CONDITION
    asked "[.facts.pairs[] | select(.nic != .peer_nic)] | length == 2 and all($1)"
}

finds() { # CODE COUNT: of so many pairs
    asked "[.findings[] | select(.code == \"$1\") | .about[]] | length == $2"
}

# Host memory here and there, and each with the device's.
three='.memories | length == 3 and all(.result == "proven" and .write_mbps > 0 and .latency_ns > 0)'

check peer__two_devices__made make_ends
export FI_PROVIDER=shm
serve
before=$(</sys/class/net/end1/statistics/tx_bytes)
check peer__libibverbs__proven linked "$three"
# 2 MiB once at least, however slow: what the pair of end1 writes of three memories, and what the other pair reads.
check peer__libibverbs__crossed_the_link test $(($(</sys/class/net/end1/statistics/tx_bytes) - before)) -ge $((6 * 2097152))

[[ ${1-} != short ]] || finish

kill $server
wait $server 2>/dev/null
export FI_PROVIDER=verbs,ofi_rxm
serve
check peer__libfabric__proven asked '[.facts.pairs[] | select(.fabric == "verbs;ofi_rxm" and .nic != .peer_nic)] |
    length == 2 and all(.memories[0].result == "proven" and .memories[0].write_mbps > 0)'
kill $server
wait $server 2>/dev/null
export FI_PROVIDER=shm
serve

ip rule add pref 5 iif end2 ipproto udp blackhole
check peer__filter__named finds peer-timeout 2
ip rule del pref 5

ip link set end2 mtu 1400
check peer__other_mtu__named finds peer-mtu-differs 2
check peer__other_mtu__proven linked '.proof.result == "proven"'
ip link set end2 mtu 4500

ip link set end2 down
check peer__link_down__named finds peer-port-down 4
ip link set end2 up
are_ready
for i in 1 2; do
    ip route replace 10.0.2.$((3 - i)) dev end$i table 10$i
done
check peer__link_up_again__proven linked '.proof.result == "proven"'

ip link set end2 arp off
ip neigh flush dev end1
check peer__nobody_at_the_address__named asked '[.facts.pairs[] | select(.nic == "rxe1" and .peer_nic == "rxe2")][0].proof.fault == "no-route"'
ip link set end2 arp on

finish
