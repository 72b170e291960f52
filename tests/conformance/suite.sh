#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The conformance suite on every fabric: suite.sh FABRIC=PROGRAM ... runs each program with its
# fabric's name, and prints what all of them noted as a matrix case x fabric, the reasons below it,
# and last the sum of their cases.
set -uo pipefail

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
failed=0

suppressions=$(dirname "$(readlink -f "$0")")/../support/lsan.supp

for pair; do
    echo "== ${pair%%=*}"
    # libfabric's net leaks a connection for each refused operation; see there.
    unset LSAN_OPTIONS
    [[ ${pair%%=*} != net ]] || export LSAN_OPTIONS=suppressions=$suppressions:print_suppressions=0
    "${pair#*=}" "${pair%%=*}" 2>&1 | tee -a "$lines" | grep -v '^MATRIX'
    status=${PIPESTATUS[0]}
    [[ $status == 0 || $status == 77 ]] || failed=1
done

awk -F '\t' -v crashed=$failed '
/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
    split($0, n, /[ ,]+/)
    passed += n[1]
    failed += n[3]
    skipped += n[5]
}
$1 != "MATRIX" { next }
!($2 in known) { known[$2] = 1; cases[++case_count] = $2 }
!($3 in column) { column[$3] = 1; fabrics[++fabric_count] = $3 }
{ cell[$2, $3] = $4 }
$5 != "" {
    if (!(($2, $5) in where))
        reason[++reason_count] = $2 SUBSEP $5
    where[$2, $5] = where[$2, $5] (($2, $5) in where && where[$2, $5] != "" ? ", " : "") $3
}
END {
    printf "\n%-62s", "case"
    for (f = 1; f <= fabric_count; f++)
        printf " %-11s", fabrics[f]
    print ""
    for (c = 1; c <= case_count; c++) {
        printf "%-62s", cases[c]
        for (f = 1; f <= fabric_count; f++)
            printf " %-11s", (cases[c], fabrics[f]) in cell ? cell[cases[c], fabrics[f]] : "-"
        print ""
    }
    print ""
    for (r = 1; r <= reason_count; r++) {
        split(reason[r], part, SUBSEP)
        printf "%s: %s[%s]\n", part[1], part[2], where[reason[r]]
    }
    print ""
    if (crashed && !failed)
        failed = 1
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed ? 1 : passed ? 0 : 77
}' "$lines"
