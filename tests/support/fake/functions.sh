#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# functions.sh NM OBJCOPY LIBRARY OUTPUT: the functions of a vendor's interface that a simulated
# runtime has, one a line. A driver of Level Zero exports tables; their entries' names are strings.
set -eu

{
    "$1" -D --defined-only "$3" | sed -nE 's/.* T ((cu[A-Z]|hsa_)[A-Za-z0-9_]*).*/\1/p'
    "$2" -O binary --only-section=.rodata "$3" "$4.strings"
    tr '\0' '\n' <"$4.strings" | grep -axE 'ze[A-Z][A-Za-z]*' | grep -v 'ProcAddrTable$' || true
} | LC_ALL=C sort -u >"$4"
rm -f "$4.strings"
