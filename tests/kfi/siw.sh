#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# siw.sh COMMAND: in the guest, the command on Soft-iWARP in the place of Soft-RoCE; with BOTH=1 beside it, on another
# network. Debian's kernels lack siw: build/guest has it from tests/kfi/siw-modules, and what it needs of the kernel.
set -e
built=$SOURCE_DIR/build/guest/$HMREG_GUEST/kfi/siw
if [[ ! -e $built/siw.ko ]]; then
    echo "SKIPPED because: tests/kfi/siw-modules could not fetch the sources of siw"
    echo '0 passed, 0 failed, 1 skipped'
    exit 77
fi
rmmod hmreg_kfi_client hmreg_kfi 2>/dev/null || true
rdma link del rxe0
for module in crc32c_generic libcrc32c siw; do
    [[ ! -e $built/$module.ko ]] || insmod "$built/$module.ko"
done
rdma link add siw0 type siw netdev eth0
if [[ ${BOTH-} ]]; then
    ip link add eth1 type dummy
    ip addr add 10.0.1.1/24 dev eth1
    ip link set eth1 up
    rdma link add rxe0 type rxe netdev eth1
    until grep -q ffff:0a00:0101 /sys/class/infiniband/rxe0/ports/1/gids/*; do sleep 0.05; done
fi
back() {
    rmmod hmreg_kfi_client hmreg_kfi || true
    rdma link del siw0
    [[ ! ${BOTH-} ]] || ip link del eth1 # and rxe0 with it
    rmmod siw
    [[ ! -e $built/libcrc32c.ko ]] || rmmod libcrc32c crc32c_generic
    "$SOURCE_DIR/simulated/guest/rdma-up"
}
trap back EXIT
ulimit -l unlimited # which siw of 6.1 observes whatever the capabilities
"$@"
