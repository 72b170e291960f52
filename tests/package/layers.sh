#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Who includes and who calls whom: in one direction, without circles, as docs/architecture.md says. A noun is a
# source and the header of its name.
. "$(dirname "$0")/cases.sh"
cd "$SOURCE_DIR" || exit 1

# FOLDER: a line for each noun of ours that one of its nouns includes.
includes() {
    grep -H '^#include "' "$1"/*.[ch] |
        sed -E 's/^([^:]*)\.[ch]:#include "(.*)\.h"$/\1 \2/' | awk '$1 != $2' | sort -u
}

# FOLDER...: no noun includes itself by way of others.
no_circle() {
    local loop
    loop=$(for folder; do includes "$folder"; done | tsort 2>&1 >/dev/null) || {
        printf '%s\n' "$loop"
        return 1
    }
}

# FOLDER...: nor calls itself by way of others. An object of a source that is no more does not count.
no_circle_of_calls() {
    local folder object source objects=() loop
    for folder; do
        for object in "$BUILD_DIR/$folder"/CMakeFiles/*.dir/*.o; do
            source=${object##*/}
            [[ -e $folder/${source%.o} ]] && objects+=("$object")
        done
    done
    ((${#objects[@]})) || return
    loop=$(nm --print-file-name "${objects[@]}" | awk '
        { noun = $1; sub(/:[^:]*$/, "", noun); sub(/.*\//, "", noun); sub(/\.c\.o$/, "", noun) }
        $(NF - 1) == "U" { used[noun " " $NF] }
        $(NF - 1) ~ /^[TDBR]$/ { maker[$NF] = noun }
        END {
            for (use in used) {
                split(use, part, " ")
                if (part[2] in maker && maker[part[2]] != part[1])
                    print part[1], maker[part[2]]
            }
        }' | tsort 2>&1 >/dev/null) || {
        printf '%s\n' "$loop"
        return 1
    }
}

# The nouns of core as docs/architecture.md lists them, in its order.
listed() {
    sed -n '/^| what one comes for/,/^$/p' docs/architecture.md | cut -d'|' -f3 |
        grep -o '`[a-z0-9_]*`' | tr -d '`'
}

every_noun_is_listed_once() {
    diff <(listed | sort) <(basename -a core/*.[ch] | sed 's/\.[ch]$//' | sort -u)
}

listed_from_the_roof_down() {
    awk 'NR == FNR { place["core/" $1] = NR; next }
         $2 in place && place[$1] > place[$2] {
             print $1 " includes " $2 ", which is listed before it"; bad = 1
         }
         END { exit bad }' <(listed) <(includes core)
}

# FOLDER PATTERN: of the other folders a folder's nouns include only what matches.
includes_only() {
    ! includes "$1" | grep -vE " ($1/[a-z0-9_]*|$2)\$"
}

fabrics_know_errors_only() { # but for the loopback, which is inside the library
    ! includes providers | grep -v '^providers/loopback' | grep -vE ' (providers/[a-z0-9_]*|core/error)$'
}

check layers__core_without_circles no_circle core hmem providers
for folder in tools bench tests/support tests/support/fake tests/tools; do
    check "layers__${folder//\//_}_without_circles" no_circle "$folder"
done
check layers__library_without_circles_of_calls no_circle_of_calls core hmem providers
for folder in tools bench; do
    if [[ -d $BUILD_DIR/$folder ]]; then
        check "layers__${folder}_without_circles_of_calls" no_circle_of_calls "$folder"
    else
        skip "layers__${folder}_without_circles_of_calls" "this build is without it"
    fi
done
check layers__each_noun_of_core_in_the_map every_noun_is_listed_once
check layers__core_from_the_roof_down listed_from_the_roof_down
check layers__core_knows_the_contracts_only includes_only core 'hmem/(hmem|dmabuf)|providers/provider'
check layers__vendors_know_errors_and_mappings_only includes_only hmem 'core/(error|maps|owned_fd)'
check layers__fabrics_know_errors_only fabrics_know_errors_only
check layers__tools_know_a_layout_only includes_only tools core/stats_page
check layers__bench_knows_a_contract_only includes_only bench providers/provider
finish
