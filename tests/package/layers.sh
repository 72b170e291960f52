#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Includes and calls go in one direction, without cycles, as docs/architecture.md and
# core/README.md say. A unit is a source and the header of its name.
. "$(dirname "$0")/cases.sh"
cd "$SOURCE_DIR" || exit 1

sources_of() { # FOLDER...
    find "$@" -name '*.[ch]'
}

# FOLDER...: a line for each of our units that one of the folders' units includes.
includes() {
    sources_of "$@" | xargs grep -H '^#include "' |
        sed -E 's/^([^:]*)\.[ch]:#include "(.*)\.h"$/\1 \2/' | awk '$1 != $2' | sort -u
}

# FOLDER...: no unit includes itself by way of others.
no_circle() {
    local loop
    loop=$(includes "$@" | tsort 2>&1 >/dev/null) || {
        printf '%s\n' "$loop"
        return 1
    }
}

# The objects of sources that exist.
objects_of() { # FOLDER
    local object source
    find "$BUILD_DIR/$1"/CMakeFiles/*.dir -name '*.o' | while read -r object; do
        source=${object#*.dir/}
        [[ -e $1/${source%.o} ]] && echo "$object"
    done
}

# FOLDER...: no unit calls itself by way of others.
no_circle_of_calls() {
    local folder objects loop
    mapfile -t objects < <(for folder; do objects_of "$folder"; done)
    ((${#objects[@]})) || return
    loop=$(nm --print-file-name "${objects[@]}" | awk '
        { unit = $1; sub(/:[^:]*$/, "", unit); sub(/.*\//, "", unit); sub(/\.c\.o$/, "", unit) }
        $(NF - 1) == "U" { used[unit " " $NF] }
        $(NF - 1) ~ /^[TDBR]$/ { maker[$NF] = unit }
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

# Of the core's folders one includes itself and those before it; those of one rank do not know each
# other.
core_in_order() {
    includes core | awk '
        BEGIN { rank["base"] = rank["contract"] = 1; rank["patch"] = rank["stats"] = 2; rank["monitor"] = 3
                rank["context"] = 4; rank["group"] = 5; rank["mr"] = 6; rank["explicit"] = 7
                rank["cache"] = rank["job"] = rank["remote"] = 8; rank["table"] = rank["hibernate"] = 9 }
        function folder(path) { split(path, part, "/"); return part[2] }
        $2 !~ /^core\// { next }
        { from = folder($1); to = folder($2) }
        !(from in rank) || !(to in rank) || rank[to] > rank[from] ||
                (rank[to] == rank[from] && to != from) {
            print $1 " includes " $2; bad = 1
        }
        END { exit bad }'
}

# FOLDER PATTERN: of the other folders a folder's units include only what matches.
includes_only() {
    ! includes "$1" | grep -vE " ($1/[a-z0-9_/]*|$2)\$"
}

# Of the monitor one kind does not know another, and none the choice among them.
monitor_in_order() {
    local kind bad=0
    includes_only core/monitor/change 'core/base/[a-z_]*' || bad=1
    for kind in counter memhooks userfaultfd; do
        includes_only core/monitor/$kind 'core/(base|patch|monitor/change)/[a-z_0-9]*|kernel/counter/hmreg_counter' || bad=1
    done
    return $bad
}

# Of hmem's functions and data the core needs one table.
core_needs_the_table_of_hmem() {
    local needed
    needed=$(comm -12 <(objects_of core | xargs nm --undefined-only --format=just-symbols | sort -u) \
        <(objects_of hmem | xargs nm --defined-only --extern-only --format=just-symbols | sort -u))
    [[ $needed == hmem_table ]] || { echo "$needed"; return 1; }
}

# internal.h lists what each source of the kernel module offers to the others.
kfi_without_circles_of_calls() {
    local loop
    loop=$(awk '
        FILENAME ~ /internal.h$/ {
            if (match($0, /^\/\* [a-z]+\.c/)) maker = substr($0, 4, RLENGTH - 5)
            if ($0 == "") maker = ""
            if (maker != "" && match($0, /hmreg_kfi_[a-z_]+[(;]/)) of[substr($0, RSTART, RLENGTH - 1)] = maker
            next
        }
        {
            unit = FILENAME; sub(/.*\//, "", unit); sub(/\.c$/, "", unit)
            while (match($0, /hmreg_kfi_[a-z_]+/)) {
                name = substr($0, RSTART, RLENGTH); $0 = substr($0, RSTART + RLENGTH)
                if (name in of && of[name] != unit) print unit, of[name]
            }
        }' kernel/kfi/internal.h kernel/kfi/*.c | tsort 2>&1 >/dev/null) || { printf '%s\n' "$loop"; return 1; }
}

# Each library's folder has a README that lists its contents.
each_folder_has_a_readme() {
    local folder bad=0
    for folder in affinity core core/*/ hmem preload providers simulated; do
        [[ -s $folder/README.md ]] || { echo "$folder has no README.md"; bad=1; }
    done
    return $bad
}

# Each unit is named in its folder's README or in one of a folder above.
each_unit_in_a_readme() {
    local unit bad=0
    for unit in $(sources_of affinity core/*/ preload | sed -E 's#//#/#; s/\.[ch]$//' |
         sort -u); do
        case $unit in core/monitor/*/*) continue ;; esac # the monitor's README names their folders
        grep -q "\`${unit##*/}\(\.h\)\?\`" "${unit%/*}/README.md" ||
            { echo "${unit%/*}/README.md does not name ${unit##*/}"; bad=1; }
    done
    return $bad
}

# Whatever makes a descriptor in a program's process passes it through core/base/high_fd.h. Not
# scandir(3), whose descriptor is a folder's: read(2) and write(2) fail as if it were closed.
each_descriptor_is_a_high_one() {
    local makers='open|openat|openat2|creat|memfd_create|memfd_secret|socket|socketpair|accept|accept4|pipe|pipe2'
    makers+='|eventfd|epoll_create1?|signalfd|timerfd_create|inotify_init1?|pidfd_open|dup|shm_open|mko?stemp'
    makers+='|fopen|opendir|tmpfile'
    ! sources_of affinity core hmem preload providers | grep -v '^core/base/high_fd.h$' |
        xargs grep -nE "(^|[^_>.a-z])($makers)\(|SYS_(userfaultfd|pidfd_open)\b|F_DUPFD|, USERFAULTFD_IOC_NEW" |
        grep -vE 'high_fd|:[0-9]+: ?(\*|/\*)|self->lib, object|->engine->open'
}

check layers__core_without_circles no_circle affinity core hmem preload providers
for folder in tools bench simulated tests/support tests/tools; do
    check "layers__${folder//\//_}_without_circles" no_circle "$folder"
done
check layers__library_without_circles_of_calls no_circle_of_calls affinity core hmem providers
for folder in preload tools bench; do
    if [[ -d $BUILD_DIR/$folder ]]; then
        check "layers__${folder}_without_circles_of_calls" no_circle_of_calls "$folder"
    else
        skip "layers__${folder}_without_circles_of_calls" "this build is without it"
    fi
done
check layers__core_in_order core_in_order
check layers__monitor_in_order monitor_in_order
check layers__core_needs_the_table_of_hmem core_needs_the_table_of_hmem
check layers__kfi_without_circles_of_calls kfi_without_circles_of_calls
check layers__each_folder_has_a_readme each_folder_has_a_readme
check layers__each_unit_in_a_readme each_unit_in_a_readme
check layers__contracts_know_no_core includes_only core/contract 'none'
check layers__core_knows_no_vendor_and_no_fabric includes_only core 'kernel/counter/hmreg_counter'
check layers__vendors_know_the_base_only includes_only hmem \
    'core/contract/hmem|core/base/(dmabuf|error|high_fd|linker_list|maps|owned_fd|process|soname|thread)|core/patch/(entry_hook|modules)'
check layers__fabrics_know_errors_only includes_only providers \
    'core/contract/provider|core/base/(device_folder|error|failure|fault_cause|high_fd)'
check layers__affinity_knows_errors_and_checks_only includes_only affinity 'core/base/(below|error)|core/contract/(order|provider)'
check layers__each_descriptor_is_a_high_one each_descriptor_is_a_high_one
check layers__tools_know_layouts_only includes_only tools 'core/base/(below|high_fd|lock_right|own_path)|core/stats/stats_layout|preload/record_layout'
check layers__preload_knows_no_internals includes_only preload '(core/base/(high_fd|own_path|soname)|core/contract/provider)'
check layers__bench_knows_contracts_and_an_example_only includes_only bench \
    '(core/contract/provider|core/cache/cache_set|core/remote/token|core/patch/inlined|examples/7-nccl-net/plugin)'
check layers__simulated_knows_prototypes_only includes_only simulated 'hmem/(cuda/cuda_api|rocr/rocr_abi)|kmod|softgpu'
finish
