#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# names.sh PROGRAM NEEDS: a program that registers device memory, and the same that was linked with CUDA's library. Its
# memory is known however it has loaded the vendor's runtime: by which name, by which path. Of a runtime in another
# namespace nothing is known, which is said.
. "$(dirname "$0")/../../package/cases.sh"
. "$(dirname "$0")/../ofi/prints.sh"
program=$1 needs=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HMREG_RUN_DIR=$scratch/traces
mkdir "$HMREG_RUN_DIR"
declare -A files=([cuda]=libcuda.so [rocr]=libhsa-runtime64.so)
declare -A cases=([trace]=reg__device_memory__without_gpu [gpu]=reg__device_memory__nic_reaches)

# MODE VENDOR PROGRAM: prints what was recorded.
recorded() {
    rm -f "$HMREG_RUN_DIR"/*
    VENDOR=$2 HMREG_RUN_MODE=$1 LD_PRELOAD=$PRELOAD "$3" "${cases[$1]}" >"$scratch/output" 2>&1 ||
        { cat "$scratch/output"; return 1; }
    "$TRACE_PRINT" "$HMREG_RUN_DIR"/*
}

# MODE VENDOR [FILE]
as() {
    VENDOR_FILE=${3-} recorded "$1" "$2" "$program"
}

linked() {
    recorded "$1" cuda "$needs"
}

# MODE VENDOR: all of it is unknown, and no call is hmreg's.
apart() {
    VENDOR_APART=1 recorded "$@" "$program"
}

says_nothing_of() {
    local output
    output=$(apart trace "$1") || { echo "$output"; return 1; }
    echo "$output"
    [[ $output == *"passed unknown none remote 14 1"* && $output != *" $1 "* ]]
}

# VENDOR FILE: by the name, or by the path.
check_loaded() {
    check "$1__loaded_as_${2##*/}__known" \
        prints "registered ibv_reg_mr passed $1 none remote 14 1" -- as trace "$1" "$2"
    check "$1__loaded_as_${2##*/}__registered_with_gpu" \
        prints "registered ibv_reg_mr made $1 dmabuf remote 0 2" -- as gpu "$1" "$2"
}

for vendor in cuda rocr; do
    ln -sf "$FAKES/$vendor/${files[$vendor]}" "$scratch/${files[$vendor]}.550.54"
    check_loaded $vendor "${files[$vendor]}"
    check_loaded $vendor "$scratch/${files[$vendor]}.550.54"
    check "${vendor}__in_a_namespace_of_its_own__unknown" says_nothing_of "$vendor"
done
# The machine's own loader, of which a driver is simulated.
check_loaded ze "$(realpath "$(ldconfig -p | awk '/libze_loader.so.1 / { print $NF; exit }')")"
check ze__in_a_namespace_of_its_own__unknown says_nothing_of ze
check cuda__linked__known prints "registered ibv_reg_mr passed cuda none remote 14 1" -- linked trace
check cuda__linked__registered_with_gpu prints "registered ibv_reg_mr made cuda dmabuf remote 0 2" -- linked gpu
finish
