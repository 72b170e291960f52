#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The tables of promises, kinds of memory, runtimes and rules and the list of errors name tests as
# PROGRAM:CASE. Each must exist and be run. Program conformance_suite is the files of tests/conformance
# with CASE()s, cuda_public is tests/gpu/cuda/public.c, rocr_gpu_suspend tests/gpu/suspend.c, preload_ofi
# tests/preload/ofi/calls.c.
. "$(dirname "$0")/cases.sh"

promises=$SOURCE_DIR/docs/semantics.md
kinds=("$SOURCE_DIR"/docs/memory-*.md)
rules=$SOURCE_DIR/docs/rules.md
ways=$SOURCE_DIR/docs/runtime-ways.md
errors=$SOURCE_DIR/tests/conformance/errors.txt

sources_of() { # PROGRAM
    local folder=${1%%_*} stem=${1#*_} exact
    for exact in "$SOURCE_DIR"/tests/{{,gpu/}"$folder/$stem"{,/calls},gpu/"${stem#gpu_}"}.c; do
        [[ -f $exact ]] && echo "$exact"
    done
    [[ $stem == suite ]] && grep -lE '^(REFUSED_)?CASE\(' "$SOURCE_DIR/tests/$folder/"*.c
}

is_run() { # PROGRAM:CASE
    local files
    mapfile -t files < <(sources_of "${1%%:*}")
    [[ ${#files[@]} -gt 0 ]] || { echo "no source of ${1%%:*}"; return 1; }
    grep -qE "^(TEST|TEST_FIRST|(REFUSED_)?CASE)\(${1#*:}\)" "${files[@]}" || { echo "$1: no TEST(${1#*:})"; return 1; }
}

all_are_run() { # FILE...
    local named name bad=0
    named=$(grep -ohE '\b[a-z]+_[a-z_]+:[a-z0-9_]+__[a-z0-9_]+' "$@" | sort -u)
    [[ $named ]] || { echo "no test is named in $*"; return 1; }
    for name in $named; do
        is_run "$name" || bad=1
    done
    return $bad
}

# Each row of promises ends with a proof.
rows_have_proofs() {
    awk -F '|' '
        /^\| *promise / { proofs = NF - 1; next }
        /^\|---/ { next }
        !/^\|/ { proofs = 0 }
        proofs && $proofs !~ /:[a-z0-9_]+__/ { print FILENAME ":" FNR ": " $2; bad = 1 }
        END { exit bad }' "$promises"
}

# Each row of kinds ends with tests, and each test of a kind has a row.
kinds_have_tests() {
    awk -F '|' '
        /^\|---/ || /^\| *(kind|circumstance) / { next }
        /^\|/ { ++rows }
        /^\|/ && $(NF - 1) !~ /:[a-z0-9_]+__/ { print FILENAME ":" FNR ": " $2; bad = 1 }
        END { exit bad || rows < 50 }' "${kinds[@]}"
}

kinds_have_rows() {
    local name bad=0
    for name in $(grep -ohE 'TEST\(kind__[a-z0-9_]+\)' "$SOURCE_DIR"/tests/gpu/*/*.c |
        sed 's/TEST(\(.*\))/\1/'); do
        grep -q ":$name\b" "${kinds[@]}" || { echo "no row names $name"; bad=1; }
    done
    return $bad
}

# PROGRAM:RUNTIME__CASE for each cell of a table of ways in: its section names the program, its columns
# the runtimes, its rows the cases.
cells_of_entries() {
    awk -F '|' '
        /^## / { program = match($0, /`[a-z]+_entries`/) ? substr($0, RSTART + 1, RLENGTH - 2) : "" }
        !program || !/^\|/ || /^\|---/ { next }
        function bare(text) { gsub(/[` ]/, "", text); return text }
        /^\| way in / { for (i = 3; i < NF - 1; i++) runtime[i] = bare($i); next }
        { for (i = 3; i < NF - 1; i++)
              if ($i ~ /[A-Za-z]/) print program ":" runtime[i] "__" bare($(NF - 1)) }
    ' "$ways" | sort
}

tests_of_entries() {
    local file vendor
    for file in "$SOURCE_DIR"/tests/gpu/*/entries.c; do
        vendor=$(basename "$(dirname "$file")")
        sed -n 's/^ENTRY_CASES(\([a-z0-9_]*\),.*/\1/p; s/^TEST(\(.*\))/= \1/p' "$file" |
            awk -v program="${vendor}_entries:" -v cases="$(sed -n 's/.*ENTRY_CASE(subject##\([a-z_]*\),.*/\1/p' "$SOURCE_DIR/tests/gpu/entries.h")" '
                $1 == "=" { print program $2; next }
                { n = split(cases, list); for (i = 1; i <= n; i++) print program $1 list[i] }'
    done | sort
}

entries_are_cells() {
    [[ $(tests_of_entries | wc -l) -gt 90 ]] || { echo "too few tests of entries"; return 1; }
    diff <(cells_of_entries) <(tests_of_entries)
}

# A program runs one runtime at a time, selected by the beginning of its cases' names.
runtimes_of_entries_are_run() {
    local vendor runtime bad=0
    while IFS=_: read -r vendor _ runtime; do
        grep -q "ARGS ${runtime}__" "$SOURCE_DIR/tests/gpu/$vendor/CMakeLists.txt" && continue
        echo "${vendor}_entries is not run with ${runtime}__"
        bad=1
    done < <(tests_of_entries | sed 's/__.*//' | sort -u)
    return $bad
}

# "PAGE ERROR" for every error of the manual's pages.
errors_of_the_manual() {
    awk '/^# / { in_it = $0 == "# ERRORS" }
         in_it && /^\*\*-/ {
             page = FILENAME
             sub(/.*\//, "", page)
             sub(/\.3\.md$/, "", page)
             while (match($0, /-(HMREG_)?E[A-Z0-9]+/)) {
                 print page, substr($0, RSTART, RLENGTH)
                 $0 = substr($0, RSTART + RLENGTH)
             }
         }' "$SOURCE_DIR"/docs/man/*.3.md | sort -u
}

# "PAGE ERROR TEST" for every error of the list.
errors_of_the_list() {
    awk '
        /^#/ { next }
        !/^ / { test = $1; $1 = ""; count = 0; pages = 0 }
        {
            for (i = 1; i <= NF; i++) {
                if (pages)
                    for (e = 1; e <= count; e++) print $i, error[e], test
                else if ($i != "") {
                    pages = sub(/:$/, "", $i)
                    error[++count] = $i
                }
            }
        }' "$errors"
}

none_is_missing() {
    diff <(errors_of_the_manual) <(errors_of_the_list | cut -d ' ' -f 1,2 | sort -u)
}

# The test's source speaks of the error, at least.
tests_name_their_errors() {
    local page error test files bad=0
    while read -r page error test; do
        [[ $test != untested ]] || continue
        mapfile -t files < <(sources_of "${test%%:*}")
        grep -qE "\b(HMREG_|FI_)?${error#-}\b|\b${error#-HMREG_}\b" "${files[@]}" && continue
        echo "$page: $test has no $error"
        bad=1
    done < <(errors_of_the_list)
    return $bad
}

check semantics__tests_of_the_promises__exist all_are_run "$promises"
check semantics__each_promise__has_a_proof rows_have_proofs
check rules__tests__exist all_are_run "$rules"
check kinds__tests_of_the_table__exist all_are_run "${kinds[@]}"
check kinds__each_row__has_a_test kinds_have_tests
check kinds__each_test_of_a_kind__has_a_row kinds_have_rows
check runtimes__each_cell_of_the_tables__is_a_test_and_each_test_a_cell entries_are_cells
check runtimes__each_column_of_the_tables__is_run runtimes_of_entries_are_run
check runtimes__tests_of_the_table__exist all_are_run "$ways" "$SOURCE_DIR/docs/runtimes.md"
check hibernate__tests_of_the_table__exist all_are_run "$SOURCE_DIR/docs/hibernate.md"
# One program, named twice; two programs; none.
alone_counts_programs() {
    local tree found status
    tree=$(mktemp -d)
    mkdir -p "$tree/docs" "$tree/tests/measure"
    cp "$SOURCE_DIR/tests/measure/alone" "$tree/tests/measure"
    printf '%s\n' '| rule | tests |' '| first | unit_a:x__y unit_a:x__z |' '| second | unit_a:x__y unit_b:x__y |' \
        >"$tree/docs/rules.md"
    found=$("$tree/tests/measure/alone")
    rm -r "$tree"
    echo "$found"
    grep -Eqx 'unit_a +rules.md +first ' <<<"$found" && grep -Eqx ' +1 unit_a' <<<"$found" && [[ $(wc -l <<<"$found") == 3 ]]
}
check alone__rows_of_one_program__are_named_and_counted alone_counts_programs
check errors__each_of_the_manuals__has_a_test none_is_missing
check errors__tests__exist all_are_run "$errors"
check errors__tests__name_them tests_name_their_errors
finish
