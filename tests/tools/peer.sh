#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# hmreg doctor --peer between hosts, which are network namespaces joined by a bridge: with a good one, with one that has
# devices, and with those whose link is down, whose switch port has a smaller MTU, and whose filter drops all but the
# doctors' own connection. As a user they are of a user namespace of our own. peer.sh [inside]
. "$(dirname "$0")/../package/cases.sh"

hosts=5 # the last one has devices
own=(unshare --net --mount)
((UID == 0)) || own+=(--map-root-user)
port=18547
tool=$BUILD_DIR/tools/hmreg
export HMREG_IFACES=system FI_PROVIDER=tcp

make_hosts() {
    local i
    mount -t tmpfs none /run && mkdir /run/netns && ip link add br0 type bridge && ip link set br0 up || return
    for ((i = 0; i < hosts; i++)); do
        ip netns add host$i && ip link add port$i type veth peer name eth0 netns host$i &&
            ip link set port$i master br0 up && ip -n host$i address add 10.12.0.$((i + 1))/24 dev eth0 &&
            ip -n host$i link set eth0 up gso_max_segs 1 && ip -n host$i link set lo up || return
    done
    (umask 077 && head -c 32 /dev/urandom >/run/secret)
}

on() { # HOST COMMAND...
    nsenter --net="/run/netns/host$1" "${@:2}"
}

serve() { # HOST [OPTION...]: returns when it listens
    nsenter --net="/run/netns/host$1" "$tool" doctor --serve --secret /run/secret "${@:2}" >"/run/served$1" 2>&1 &
    servers+=($!)
    until on "$1" cat /proc/net/tcp | grep -q ":$(printf %04X $port) 00000000:0000 0A"; do
        kill -0 $! || return
    done
}

ask() { # HOST [OPTION...]
    on 0 "$tool" doctor --peer "10.12.0.$(($1 + 1))" --secret /run/secret "${@:2}"
}

asked() { # STATUS JQ-FILTER HOST [OPTION...]: the document has what the filter looks for
    local found status
    found=$(ask "$3" --json "${@:4}")
    status=$?
    echo "status $status: $found"
    ((status == $1)) && jq -e "$2" <<<"$found"
}

# Two simulated devices here, and where a command of it serves.
with_devices() { # COMMAND...
    HMREG_IFACES=cuda LD_LIBRARY_PATH=$FAKES/cuda HMREG_FAKE_CUDA_DEVICES=2 "$@"
}

wrong_mtu() { # HOST: of the switch's port, which has no way to tell
    ip link set "port$1" mtu 1000
}

filtered() { # HOST: its answers over other connections leave it no more
    ip -n "host$1" rule add pref 10 ipproto tcp sport $port lookup main &&
        ip -n "host$1" rule add pref 20 ipproto tcp blackhole
}

servers=()
if [[ ${1-} == inside ]]; then
    check peer__hosts__made make_hosts
    for ((i = 1; i < hosts - 1; i++)); do
        serve $i
    done
    with_devices serve $i --patience 280 # five memories, on a busy machine
    trap 'kill "${servers[@]}"' EXIT
    check peer__good_host__proven asked 0 '.facts.pairs | length == 1 and .[0].proof.result == "proven" and
        .[0].memories[0].write_mbps > 0 and .[0].memories[0].latency_ns > 0' 1
    check peer__good_host__brief says ' GOOD 1 of 1 pairs' ask 1 --brief
    if [[ -e $FAKES/cuda/libcuda.so.1 ]]; then
        check peer__devices__each_proven with_devices asked 0 '.facts.pairs[0].memories | length == 5 and
            all(.result == "proven")' 4 --patience 280
    else
        skip peer__devices__each_proven "no simulated CUDA devices in this build"
    fi
    wrong_mtu 2
    check peer__wrong_mtu__named asked 2 '.findings | length == 1 and .[0].code == "peer-mtu"' 2
    filtered 3
    check peer__filter__named asked 2 '.findings | length == 1 and .[0].code == "peer-timeout"' 3
    ip -n host1 link set eth0 down
    check peer__link_down__named asked 2 '.findings | length == 1 and .[0].code == "peer-unreachable" and
        (.[0].text | contains("link is down"))' 1
    ip -n host1 link set eth0 up
    check peer__link_up_again__proven asked 0 '.verdict == "good"' 1
    kill "${servers[0]}"
    wait "${servers[0]}" 2>/dev/null
    servers=("${servers[@]:1}")
    check peer__nobody_serves__named asked 2 '.findings[0].code == "peer-unreachable" and
        (.findings[0].text | contains("no process listens"))' 1
elif ! command -v jq >/dev/null; then
    skip peer__hosts "jq is not installed"
elif ! why=$("${own[@]}" bash -c 'ip link add br0 type bridge && mount -t tmpfs none /run' 2>&1); then
    skip peer__hosts "no network namespaces or bridges here: ${why%%$'\n'*}"
else
    exec "${own[@]}" "$0" inside
fi
finish
