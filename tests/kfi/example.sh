#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: examples/8-kernel registers memory when it is loaded, by the module as it is installed, and ends
# that when it is unloaded.
. "$SOURCE_DIR/tests/package/cases.sh"
built=$SOURCE_DIR/build/guest/$HMREG_GUEST/kfi
rmmod hmreg_kfi_client hmreg_kfi 2>/dev/null # the tests' own

load() {
    insmod "$built/plain/hmreg_kfi.ko" && insmod "$built/example/kernel_memory.ko" || return
    dmesg | grep -E 'kernel_memory: 65536 bytes at (0x)?[0-9a-f]+ by key 0x[0-9a-f]+$'
}

regions() {
    rdma resource show mr | tee /dev/stderr | grep -c 'mrlen 65536 .*kernel_memory'
}

is_listed() {
    [[ $(regions) == 1 ]]
}

module_is_in_use() {
    ! rmmod hmreg_kfi
}

unload() {
    rmmod kernel_memory && rmmod hmreg_kfi && [[ $(regions) == 0 ]]
}

check load__says_the_key load
check region__is_listed_by_rdma is_listed
check unload__in_use__refused module_is_in_use
check unload__region_is_gone unload
finish
