#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# functions.sh NM OBJCOPY LIBRARY OUTPUT: the functions of a vendor's interface that a simulated
# runtime has, one a line. A driver of Level Zero exports tables; their entries' names are strings.
set -eu

# One command a line, no pipe: each one's failure is the build's.
nm=$1 objcopy=$2 library=$3 output=$4
"$nm" -D --defined-only "$library" >"$output.exports"
"$objcopy" -O binary --only-section=.rodata "$library" "$output.rodata"
tr '\0' '\n' <"$output.rodata" >"$output.strings"
sed -nE 's/.* T ((cu[A-Z]|hsa_)[A-Za-z0-9_]*).*/\1/p' "$output.exports" >"$output.names"
LC_ALL=C sed -nE '/ProcAddrTable$/d; /^ze[A-Z][A-Za-z]*$/p' "$output.strings" >>"$output.names"
[ -s "$output.names" ] || {
    echo "functions.sh: $library has no function of a vendor's interface" >&2
    exit 1
}
LC_ALL=C sort -u "$output.names" >"$output"
rm -f "$output.exports" "$output.rodata" "$output.strings" "$output.names"
