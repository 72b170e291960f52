#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The table of promises and the list of errors name tests as PROGRAM:CASE: does each exist, and is
# it run? Program conformance_suite is tests/conformance/suite*.c, cuda_public tests/gpu/cuda/public.c.
. "$(dirname "$0")/cases.sh"

promises=$SOURCE_DIR/docs/semantics.md

sources_of() { # PROGRAM
    local folder=${1%%_*} stem=${1#*_} exact
    for exact in "$SOURCE_DIR"/tests/{,gpu/}"$folder/$stem".c; do
        [[ -f $exact ]] && echo "$exact"
    done
    [[ $stem == suite ]] && printf '%s\n' "$SOURCE_DIR/tests/$folder/$stem"_*.c
}

is_run() { # PROGRAM:CASE
    local files
    mapfile -t files < <(sources_of "${1%%:*}")
    [[ ${#files[@]} -gt 0 ]] || { echo "no source of ${1%%:*}"; return 1; }
    grep -qwF "TEST(${1#*:})" "${files[@]}" || { echo "$1: no TEST(${1#*:})"; return 1; }
}

all_are_run() { # FILE
    local named name bad=0
    named=$(grep -oE '\b[a-z]+_[a-z_]+:[a-z0-9_]+__[a-z0-9_]+' "$1" | sort -u)
    [[ $named ]] || { echo "no test is named in $1"; return 1; }
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

check semantics__tests_of_the_promises__exist all_are_run "$promises"
check semantics__each_promise__has_a_proof rows_have_proofs
finish
