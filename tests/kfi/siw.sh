#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# siw.sh KFI_REGIONS: in the guest, its cases on Soft-iWARP in the place of Soft-RoCE.
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
    insmod "$built/$module.ko"
done
rdma link add siw0 type siw netdev eth0
back() {
    rmmod hmreg_kfi_client hmreg_kfi || true
    rdma link del siw0
    rmmod siw libcrc32c crc32c_generic
    "$SOURCE_DIR/tests/guest/rdma-up"
}
trap back EXIT
"$@"
