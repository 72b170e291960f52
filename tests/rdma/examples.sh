#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: the GPUDirect examples do what their READMEs say, on simulated devices of every
# vendor that is built in, and on host memory over libfabric's verbs.
. "$SOURCE_DIR/tests/package/cases.sh"
examples=$BUILD_DIR/examples
fakes=$BUILD_DIR/tests/fakes
export LD_LIBRARY_PATH=$fakes/cuda:$fakes/rocr ZE_ENABLE_ALT_DRIVERS=$fakes/ze/libze_fake.so
# As CMakeLists.txt says.
export FI_UNIVERSE_SIZE=8 FI_OFI_RXM_MSG_TX_SIZE=64 FI_OFI_RXM_MSG_RX_SIZE=64
export FI_OFI_RXM_USE_SRX=1 FI_MR_CACHE_MAX_COUNT=0

server=$(mktemp)
trap 'rm -f "$server"' EXIT

# Server and client, of two ifaces; both must succeed, and print their path.
verbs() { # SERVER-IFACE CLIENT-IFACE PATH
    local status
    "$examples/4-gpudirect-verbs" "$1" >"$server" 2>&1 &
    says "client: $2 memory, path $3" "$examples/4-gpudirect-verbs" "$2" 10.0.0.1
    status=$?
    ((status)) && kill $! 2>/dev/null
    wait $! || status=1
    cat "$server"
    grep -q "the client's bytes are in its memory" "$server" && return $status
}

for vendor in $VENDORS; do
    check "verbs__${vendor}__written_and_read" verbs "$vendor" "$vendor" dmabuf
    check "verbs__host_to_${vendor}__written_and_read" verbs "$vendor" system system
    check "libfabric_tcp__${vendor}__mapped" says "are in $vendor memory, path mapped" \
        "$examples/5-gpudirect-libfabric" "$vendor" tcp
done
check verbs__host__written_and_read verbs system system system
check libfabric_verbs__host__written_and_read \
    says "verbs;ofi_rxm: the peer's bytes are in system memory" \
    "$examples/5-gpudirect-libfabric" system verbs
check libfabric_verbs__allreduce_over_two_rails__every_float_is_right \
    says "verbs;ofi_rxm: 2 processes, 2 rails, system memory, path system: every float is right" \
    "$examples/6-allreduce" -n 2 verbs
if [[ $VENDORS ]] && fi_info --version | grep -Eq "libfabric: 1\.1[0-9]"; then # which has no FI_MR_DMABUF
    vendor=${VENDORS%% *}
    check "libfabric_verbs__${vendor}__says_why_not" fails "no path to this $vendor memory" \
        "$examples/5-gpudirect-libfabric" "$vendor" verbs
fi
finish
