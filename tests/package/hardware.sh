#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Each test with a label of hardware is in the table of docs/hardware.md that says whether it uses the
# hardware, and why if it does not.
. "$(dirname "$0")/cases.sh"

table=$SOURCE_DIR/docs/hardware.md
mapfile -t patterns < <(sed -n '/^| tests | use the hardware/,/^$/p' "$table" | cut -d'|' -f2 | grep -o '`[^`]*`' | tr -d '`')

is_listed() { # TEST
    local pattern
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2053
        [[ $1 == $pattern ]] && return
    done
    echo "$1 is in no row"
    return 1
}

all_are_listed() { # LABEL
    local test bad=0 tests
    tests=$(ctest --test-dir "$BUILD_DIR" -N -L "^$1$" | sed -n 's/^ *Test *#[0-9]*: //p')
    [[ $tests ]] || { echo "no test has the label $1"; return 1; }
    for test in $tests; do
        is_listed "$test" || bad=1
    done
    return $bad
}

check table__has_rows test "${#patterns[@]}" -gt 20
for label in cuda rocr ze rdma; do
    if ctest --test-dir "$BUILD_DIR" -N -L "^$label$" | grep -q 'Total Tests: 0'; then
        skip "label_${label}__each_test_has_a_row" "this build has no test of $label"
    else
        check "label_${label}__each_test_has_a_row" all_are_listed "$label"
    fi
done
finish
