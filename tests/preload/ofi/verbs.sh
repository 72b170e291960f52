#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# verbs.sh VENDOR...: in the guest, programs on libfabric over libibverbs and Soft-RoCE that know nothing
# of hmreg. The devices are simulated; no peer-memory module is loaded. Device memory that libfabric
# registers by ibv_reg_mr() the interposers of libibverbs register by dmabuf.
. "$(dirname "$0")/../../package/cases.sh"
. "$(dirname "$0")/prints.sh"
vendors=("$@")
traces=$(mktemp -d)
trap 'rm -rf "$traces"' EXIT
export HMREG_RUN_DIR=$traces
below=$LD_PRELOAD

hooked() { # MODE PROGRAM...
    local mode=$1 result
    shift
    rm -f "$traces"/*
    LD_PRELOAD=$HOOK_DIR/libhmreg-preload.so:$below FI_PROVIDER_PATH=$HOOK_DIR FI_HOOK=hmreg \
        HMREG_RUN_MODE=$mode "$@"
    result=$?
    "$TRACE_PRINT" "$traces"/*
    return $result
}

check verbs__host_without_us__right_bytes says "all right" "$PLAIN" verbs host 2
check verbs__trace__each_registration_once \
    prints "registered fi_mr_reg passed system system remote 0 3" \
    "registered fi_mr_reg passed system system written 0 3" -- hooked trace "$PLAIN" verbs host 3
for vendor in "${vendors[@]}"; do
    check "verbs__${vendor}_without_us__fails" fails "Bad address" "$PLAIN" verbs "$vendor" 1
    check "verbs__${vendor}_with_trace__fails_alike" \
        fails "registered fi_mr_reg passed $vendor none remote 14 1" \
        hooked trace "$PLAIN" verbs "$vendor" 1
    check "verbs__${vendor}_with_gpu__right_bytes" \
        prints "registered ibv_reg_mr_iova2 made $vendor dmabuf remote 0 3" \
        -- hooked gpu "$PLAIN" verbs "$vendor" 3
done
finish
