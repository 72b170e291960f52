#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The demo: its table shows what it did, and its exit status is right.
. "$(dirname "$0")/../package/cases.sh"

demo=("$SOURCE_DIR/examples/demo/run.sh" "$BUILD_DIR")

# The lines of one fabric's table; the output on stdin.
table_of() {
    awk -v fabric="$1:" '/^(tcp|shm):/ { on = $1 == fabric } on'
}

# Both fabrics list every buffer; tcp reached all, and shm reached each device or has a reason.
all_is_well() {
    local output vendor tcp shm
    output=$("${demo[@]}") || { echo "$output"; return 1; }
    echo "$output"
    [[ $output == *": all is well" ]] || return
    tcp=$(table_of tcp <<<"$output") shm=$(table_of shm <<<"$output")
    grep -q '^host memory  *system .* system .* yes  *-$' <<<"$tcp" || return
    grep -q '^host memory  *system .* system .* yes  *-$' <<<"$shm" || return
    for vendor in $VENDORS; do
        [[ $(grep -c "imulated.* $vendor .* mapped .* yes  *[1-9]" <<<"$tcp") == 2 ]] || return
        [[ $(grep -Ec "imulated.* $vendor .* (none .* refused|mapped .* yes) +[1-9]" <<<"$shm") == 2 ]] ||
            return
    done
    [[ ! $VENDORS ]] || grep -q '^ *1  not dmabuf: ' <<<"$tcp"
}

fails() { # "WORDS" COMMAND...: exits 1 and says so
    local words=$1 output status
    shift
    output=$("$@" 2>&1)
    status=$?
    echo "$output"
    echo "exit status $status"
    [[ $status == 1 && $output == *"$words"* && $output == *": FAILED"* ]]
}

host_only() {
    local output
    output=$(HMREG_IFACES=system "${demo[@]}") || return
    echo "$output"
    [[ $output == *"2 buffers verified, 0 refused with a reason: all is well" ]]
}

usage() {
    local output
    output=$("${demo[@]}" --nosuch 2>&1)
    [[ $? == 2 && $output == *"usage: hmreg-demo"* ]] &&
        output=$("${demo[@]}" --help) && [[ $output == *"usage: hmreg-demo"* ]]
}

check demo__simulated_devices__all_is_well all_is_well
check demo__host_only__all_is_well host_only
check demo__a_byte_is_wrong__fails fails "after the peer wrote" "${demo[@]}" --corrupt
check demo__a_byte_of_host_memory_is_wrong__fails fails "is NO" \
    env HMREG_IFACES=system bash -c '"$@" --corrupt | sed "s/ NO / is NO /"; exit ${PIPESTATUS[0]}' - \
    "${demo[@]}"
check demo__a_fabric_is_missing__fails fails "shm: No data available" \
    env FI_PROVIDER=^shm HMREG_IFACES=system "${demo[@]}"
check demo__wrong_option__usage usage
if [[ " $VENDORS " == *" cuda "* ]]; then
    check demo__device_memory_cannot_be_had__fails fails "OUT_OF_MEMORY" \
        env HMREG_FAKE_FAIL=cuMemAlloc_v2:2:0:-1 "${demo[@]}"
    check demo__device_without_any_path__fails fails "was reached on no fabric" \
        env HMREG_FAKE_FAIL=cuMemGetHandleForAddressRange:801:0:-1 "${demo[@]}"
else
    skip demo__device_memory_cannot_be_had__fails "the CUDA vendor is not built in"
    skip demo__device_without_any_path__fails "the CUDA vendor is not built in"
fi
finish
