#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# two-nics.sh COMMAND: in the guest, the command with a second Soft-RoCE device, rxe1, which is removed after it.
ip link add eth1 type dummy && ip addr add 10.0.1.1/24 dev eth1 && ip link set eth1 mtu 4500 && ip link set eth1 up &&
    rdma link add rxe1 type rxe netdev eth1 || exit 1
trap 'rdma link del rxe1; ip link del eth1' EXIT
until grep -q '0000:0000:0000:0000:0000:ffff:0a00:0101' /sys/class/infiniband/rxe1/ports/1/gids/* 2>/dev/null &&
    grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state; do sleep 0.05; done # the kernel gives no notice
"$@"
