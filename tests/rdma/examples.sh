#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: the GPUDirect examples do what their READMEs say, on simulated devices of every
# vendor that is built in, and on host memory over libfabric's verbs. On Soft-iWARP (siw.sh) libfabric's
# verbs alone, which the others, the doctor included, name.
. "$SOURCE_DIR/tests/package/cases.sh"
examples=$BUILD_DIR/examples
fakes=$BUILD_DIR/simulated
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
if [[ $(rdma link) == "link siw"* ]]; then
    tool=$BUILD_DIR/tools/hmreg
    check doctor__iwarp__each_memory_has_its_own_reason says "no transfer: host (it is iWARP, whose" \
        env FI_PROVIDER=shm bash -c '"$0" doctor || true' "$tool"
    export HMREG_IFACES=system HMREG_NCCL_ADDRESS=127.0.0.1 FI_PROVIDER=verbs,ofi_rxm
    ulimit -l unlimited # which siw of Linux 6.1 holds root to
    check verbs__iwarp__says_what_reaches_it fails "iWARP's are reached by 5-gpudirect-libfabric" \
        "$examples/4-gpudirect-verbs" system
    check nccl__libfabric_verbs__every_byte_is_right says "siw0, 1 NIC, system memory: every byte is right" \
        env HMREG_NCCL_FABRIC=libfabric/verbs "$examples/7-nccl-net" -v 12 -s 1 "$examples/libnccl-net-hmreg.so"
    check verify__verbs__skipped_as_iwarp says "it is iWARP, whose queue pairs only a connection manager" \
        "$tool" verify --patience 280 --check verbs:siw0/system/host/usual
    check verify__libfabric_verbs__proven says "bytes proven by path system, and by the cache" \
        "$tool" verify --patience 280 --check ofi:verbs+ofi_rxm:siw0/system/host/usual
else
    check verbs__host__written_and_read verbs system system system
fi
check libfabric_verbs__host__written_and_read \
    says "verbs;ofi_rxm: the peer's bytes are in system memory" \
    "$examples/5-gpudirect-libfabric" system verbs
# Where both connect at once, ofi_rxm logs it for each rail.
in_turn() { # COMMAND...
    local output
    output=$(FI_LOG_LEVEL=info FI_LOG_PROV=ofi_rxm "$@" 2>&1) || { echo "$output" && return 1; }
    echo "$output"
    [[ $output == *connreq* && $output != *simultaneous* ]]
}
check libfabric_verbs__allreduce_over_two_rails__every_float_is_right \
    says "verbs;ofi_rxm: 2 processes, 2 rails, system memory, path system: every float is right" \
    in_turn "$examples/6-allreduce" -n 2 verbs
if [[ $VENDORS ]] && fi_info --version | grep -Eq "libfabric: 1\.1[0-9]"; then # which has no FI_MR_DMABUF
    vendor=${VENDORS%% *}
    check "libfabric_verbs__${vendor}__says_why_not" fails "no path to this $vendor memory" \
        "$examples/5-gpudirect-libfabric" "$vendor" verbs
fi
finish
