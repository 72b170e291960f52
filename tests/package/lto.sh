#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Distributions turn link-time optimization on: lto.sh PROGRAM
# Builds the libraries so and runs a program, which was built without it, with them.
. "$(dirname "$0")/cases.sh"

program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! "$CC" -flto -x c -o "$work/probe" - <<<'int main(void) { return 0; }'; then
    skip package__lto "this compiler's linker has no link-time optimization"
    finish
fi

builds() {
    "$CMAKE" -G Ninja -S "$SOURCE_DIR" -B "$work" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DHMREG_TESTS=OFF -DHMREG_BENCH=OFF -DHMREG_TOOLS=OFF \
        -DHMREG_OFI=OFF -DHMREG_VERBS=OFF -DHMREG_PRELOAD=OFF -DHMREG_HWLOC=OFF -DHMREG_SIMULATED=OFF \
        -DHMREG_EXAMPLES=OFF -DHMREG_DOCS=OFF -DHMREG_WERROR=ON &&
        "$CMAKE" --build "$work" -j 2
}

hits_and_is_never_stale() {
    LD_LIBRARY_PATH=$work/core:$work/providers says "hits 32 of 32, stale 0" "$program"
}

check package__lto__builds builds
check package__lto__program_hits_and_is_never_stale hits_and_is_never_stale
finish
