#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Example 6 with each process on a host of its own: network namespaces, joined by a bridge in a fifth. As a user they
# are of a user namespace of our own. hosts.sh [inside]
. "$(dirname "$0")/../package/cases.sh"

hosts=4
own=(unshare --net --mount)
((UID == 0)) || own+=(--map-root-user)
example=$BUILD_DIR/examples/6-allreduce
addresses=$(seq -s, -f 10.11.0.%g 1 $hosts)

make_hosts() {
    local i
    mount -t tmpfs none /run && mkdir /run/netns && ip link add br0 type bridge && ip link set br0 up || return
    for ((i = 0; i < hosts; i++)); do
        ip netns add host$i && ip link add port$i type veth peer name eth0 netns host$i &&
            ip link set port$i master br0 up && ip -n host$i address add 10.11.0.$((i + 1))/24 dev eth0 &&
            ip -n host$i link set eth0 up || return
    done
}

# Starts the processes, the first one last. All succeed; prints what the first says.
allreduce() { # OPTION...
    local i status=0 started=()
    for ((i = hosts - 1; i >= 0; i--)); do
        nsenter --net=/run/netns/host$i "$example" -a "$addresses" -k $i "$@" &
        started+=($!)
    done
    for i in "${started[@]}"; do
        wait "$i" || status=1
    done
    return $status
}

# 3 rounds of 6 chunks of 256 KiB for each host.
all_crossed_the_bridge() {
    local i
    for ((i = 0; i < hosts; i++)); do
        ip -s link show port$i
        (($(ip -s link show port$i | awk '/RX:/ { getline; print $1 }') >= 3 * 6 * 262144)) || return
    done
}

if [[ ${1-} == inside ]]; then
    check allreduce__four_hosts__made make_hosts
    check allreduce__four_hosts__every_float_is_right \
        says ": 4 processes, 2 rails, system memory, path system: every float is right; 18 of 20 gets were hits" allreduce
    check allreduce__four_hosts__each_chunk_crossed_the_bridge all_crossed_the_bridge
elif ! why=$("${own[@]}" bash -c 'ip link add br0 type bridge && mount -t tmpfs none /run' 2>&1); then
    skip allreduce__four_hosts "no network namespaces or bridges here: ${why%%$'\n'*}"
else
    exec "${own[@]}" "$0" inside
fi
finish
