#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Example 6 with each process on a host of its own: network namespaces, joined by a bridge in a fifth. As a user they
# are of a user namespace of our own. hosts.sh [inside]
if [[ ${IS_REMOTE_SHELL-} ]]; then # of mpiexec, as ssh(1): hosts.sh [OPTION...] ADDRESS COMMAND...
    while [[ $1 == -* ]]; do shift; done
    exec nsenter --net="/run/netns/host$((${1##*.} - 1))" bash -c "${*:2}"
fi
. "$(dirname "$0")/../package/cases.sh"

hosts=4
own=(unshare --net --mount)
((UID == 0)) || own+=(--map-root-user)
examples=$BUILD_DIR/examples
example=$examples/6-allreduce
addresses=$(seq -s, -f 10.11.0.%g 1 $hosts)

make_hosts() {
    local i
    mount -t tmpfs none /run && mkdir /run/netns && ip link add br0 type bridge && ip link set br0 up || return
    for ((i = 0; i < hosts; i++)); do
        ip netns add host$i && ip link add port$i type veth peer name eth0 netns host$i &&
            ip link set port$i master br0 up && ip -n host$i address add 10.11.0.$((i + 1))/24 dev eth0 &&
            ip -n host$i link set eth0 up && ip -n host$i link set lo up || return
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

# The same by mpiexec on the first host, whose daemons on the others are started as by ssh(1). Without a network
# interface for 127.0.0.1 Open MPI would wait for ever. Its folder in TMPDIR is named for the user, who is root here.
by_mpi() {
    local where=(--mca plm_rsh_agent "$0" --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0
                 --host "$addresses")
    [[ $is_mpich ]] && where=(-launcher ssh -launcher-exec "$0" -iface eth0 -hosts "$addresses")
    TMPDIR=/run IS_REMOTE_SHELL=1 nsenter --net=/run/netns/host0 "${mpiexec[@]}" "${where[@]}" -n $hosts \
        "$program" -a "$addresses"
}

# 3 rounds of 6 chunks of 256 KiB for each host.
all_crossed_the_bridge() { # TIMES
    local i
    for ((i = 0; i < hosts; i++)); do
        ip -s link show port$i
        (($(ip -s link show port$i | awk '/RX:/ { getline; print $1 }') >= $1 * 3 * 6 * 262144)) || return
    done
}

if [[ ${1-} == inside ]]; then
    check allreduce__four_hosts__made make_hosts
    check allreduce__four_hosts__every_float_is_right \
        says ": 4 processes, 2 rails, system memory, path system: every float is right; 19 of 21 gets were hits" allreduce
    check allreduce__four_hosts__each_chunk_crossed_the_bridge all_crossed_the_bridge 1
    . "$(dirname "$0")/mpi.sh"
    if has_mpi; then
        check allreduce__four_hosts_of_mpi__every_float_is_right \
            says ": 4 processes, 2 rails, system memory, path system: every float is right; 19 of 21 gets were hits" by_mpi
        check allreduce__four_hosts_of_mpi__each_chunk_crossed_the_bridge all_crossed_the_bridge 2
    else
        skip allreduce__four_hosts_of_mpi "MPI is not installed"
    fi
elif ! why=$("${own[@]}" bash -c 'ip link add br0 type bridge && mount -t tmpfs none /run' 2>&1); then
    skip allreduce__four_hosts "no network namespaces or bridges here: ${why%%$'\n'*}"
else
    exec "${own[@]}" "$0" inside
fi
finish
