#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The interfaces of the built libraries against those recorded in tests/package/abi: what a program that
# was built with the recorded version needs is still there, and means the same. New functions, new
# constants and new members at the end of structs that begin with their size are compatible.
#   abi.sh LIBRARY...                   the test
#   abi.sh --record BUILD_DIR           records the libraries of a build, e.g. of build/dev
# Before a release is recorded, and after HMREG_ABI in CMakeLists.txt was raised, record.
set -o pipefail
here=$(dirname "$(readlink -f "$0")")
source_dir=$(readlink -f "$here/../..")
recorded=$here/abi
libabigail=2.2 # Debian 12's, which recorded them; others describe and compare structs in another way

# Only what is public: functions that are not for our own libraries alone, and types of our headers that
# they can reach. Sources are named from the root of the tree, wherever that lies.
describe() { # LIBRARY BUILD_DIR: on stdout
    printf '%s\n' '[suppress_type]' 'source_location_not_regexp = hmreg/[a-z]*\.h' 'drop = yes' \
        '[suppress_function]' 'symbol_version_regexp = HMREG_PRIVATE_.*' 'drop = yes' >"$work/public"
    abidw --no-show-locs --no-corpus-path --no-comp-dir-path --no-elf-needed --exported-interfaces-only \
        --drop-private-types --suppressions "$work/public" --headers-dir "$source_dir/include/hmreg" \
        --headers-dir "$2/include/hmreg" "$1" | sed -E "s,path='(\.\./\.\.|$source_dir)/,path=',"
}

record() { # BUILD_DIR
    local library name
    mkdir -p "$recorded"
    for library in "$1"/{core,providers,affinity}/libhmreg*.so; do
        name=$(basename "$library" .so)
        describe "$library" "$1" >"$work/new" || return
        sed '1a\  <!-- SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only -->' "$work/new" >"$recorded/$name.abi"
    done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ ${1-} == --record ]]; then
    record "${2:?usage: abi.sh --record BUILD_DIR}"
    exit
fi
. "$here/cases.sh"

# Structs that begin with their size, by which a library knows which members a program has.
extensible() { # RECORDED
    awk -F"'" '/<class-decl / { name = $2; getline; getline; if ($2 == "size") print name }' "$1" | sort -u
}

# "STRUCT MEMBER OFFSET TYPE" of these structs, or "STRUCT = BITS". abidiff does not look at the
# members before those that were added.
members() { # NAMES, divided by |; DESCRIPTION
    awk -v names="^($1)\$" '
        function value(key) {
            if (!match($0, " " key "=\047[^\047]*\047"))
                return ""
            return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 4)
        }
        function type(id) { return id in of ? words[id] " " type(of[id]) : words[id] }
        / id=/ && !/<subrange/ {
            tag = $1
            words[value("id")] = tag " " value("name") " " value("size-in-bits")
            if (/<(pointer|array|qualified)/)
                of[value("id")] = value("type-id")
        }
        /<class-decl / { inside = value("name") ~ names ? value("name") : ""; bits = value("size-in-bits") }
        inside && /<data-member / { offset = value("layout-offset-in-bits") }
        inside && /<var-decl / { at[++n] = inside " " value("name") " " offset; kind[n] = value("type-id") }
        /<\/class-decl>/ && inside { at[++n] = inside " = " bits; kind[n] = ""; inside = "" }
        END { for (i = 1; i <= n; i++) print at[i], kind[i] == "" ? "" : type(kind[i]) }' "$2" | sort -u
}

# Members of extensible structs are as recorded; a struct of another size has one more.
members_stay() { # NAMES RECORDED NOW
    members "$1" "$2" >"$work/members-recorded"
    members "$1" "$3" >"$work/members"
    [[ ! $1 || -s $work/members-recorded ]] || return
    awk 'NR == FNR { now[$0]; count[$1]++; next }
         { before[$1]++; if (!($0 in now) && $2 != "=") { print "not any more: " $0; bad = 1 } else if (!($0 in now)) grown[$1] }
         END { for (name in grown) if (count[name] <= before[name]) { print name " has another size"; bad = 1 }
               exit bad }' \
        "$work/members" "$work/members-recorded"
}

compatible() { # RECORDED LIBRARY
    local names
    describe "$2" "$BUILD_DIR" >"$work/now" || return
    names=$(extensible "$1" | paste -sd '|')
    printf '%s\n' '[suppress_type]' 'type_kind = struct' "name_regexp = ^($names)\$" \
        'has_data_member_inserted_at = end' >"$work/compatible"
    abidiff --no-added-syms --suppressions "$work/compatible" "$1" "$work/now" &&
        members_stay "$names" "$1" "$work/now" && return
    echo "An incompatible change. If the last release had HMREG_ABI $ABI too (CMakeLists.txt), raise it, and the names"
    echo "of the packages in debian/; then record: tests/package/abi.sh --record BUILD_DIR"
    return 1
}

# ---- the test itself: on a library that changes -------------------------------------------

make_library() { # SED COMMAND, applied to its header: $work/include/hmreg/one.h
    mkdir -p "$work/include/hmreg"
    sed -E "$1" >"$work/include/hmreg/one.h" <<'END'
#include <stddef.h>
enum hmreg_kind { HMREG_ONE, HMREG_TWO };
struct hmreg_config { size_t size; int first, second; };
struct hmreg_pair { int first, second; };
int hmreg_one(const struct hmreg_config *config, struct hmreg_pair pair, enum hmreg_kind kind);
int hmreg_two(int number);
END
    grep -E '^int .*\(' "$work/include/hmreg/one.h" | sed 's/;/ { return 0; }/; 1i #include "hmreg/one.h"' >"$work/one.c"
    "$CC" -g -shared -fPIC "-I$work/include" -o "$work/libone.so" "$work/one.c"
}

change_library() { # SED COMMAND
    make_library '' && describe "$work/libone.so" "$work" >"$work/one.abi" && make_library "$1"
}

survives() { # SED COMMAND: a program of the library before it
    change_library "$1" && BUILD_DIR=$work compatible "$work/one.abi" "$work/libone.so"
}

breaks() {
    change_library "$1" && ! BUILD_DIR=$work compatible "$work/one.abi" "$work/libone.so"
}

names_no_place() {
    ! grep -n "path='[/.]" "$recorded"/*.abi
}

check_the_test() {
    check abi__same__compatible survives ''
    check abi__new_function__compatible survives '$a int hmreg_three(void);'
    check abi__new_constant_at_the_end__compatible survives 's/HMREG_TWO/HMREG_TWO, HMREG_THREE/'
    check abi__new_member_at_the_end_of_a_struct_with_size__compatible survives '/_config \{/s/second;/second; long third;/'
    check abi__new_member_in_the_middle__incompatible breaks '/_config \{/s/int first,/long before; int first,/'
    check abi__new_member_of_a_struct_without_size__incompatible breaks '/_pair \{/s/second;/second, third;/'
    check abi__member_of_another_type__incompatible breaks '/_config \{/s/int first/long first/'
    check abi__last_member_of_another_type__incompatible breaks '/_config \{/s/first, second/first; long second/'
    check abi__member_of_another_sign__incompatible breaks '/_config \{/s/int first/unsigned first/'
    check abi__members_exchanged__incompatible breaks '/_config \{/s/first, second/second, first/'
    check abi__function_removed__incompatible breaks '/hmreg_two/d'
    check abi__parameter_of_another_type__incompatible breaks 's/int number/long number/'
    check abi__constant_of_another_value__incompatible breaks 's/HMREG_ONE,/HMREG_ONE = 5,/'
}

if ! command -v abidiff >/dev/null; then
    skip abi__libraries "no abidiff is installed; as root: apt-get install abigail-tools"
elif [[ $(abidw --version) != *" $libabigail."* ]]; then
    skip abi__libraries "recorded with libabigail $libabigail, and this is $(abidw --version)"
elif [[ $SANITIZE ]]; then
    skip abi__libraries "a sanitizer adds symbols"
elif [[ $(uname -m) != x86_64 ]]; then
    skip abi__libraries "recorded are the libraries of x86-64"
elif readelf -p .comment "$1" | grep clang >/dev/null; then
    skip abi__libraries "recorded are gcc's descriptions, which abidiff does not compare with clang's"
elif ! readelf -SW "$1" | grep ' \.debug_info ' >/dev/null; then
    skip abi__libraries "this build is without debug information"
else
    check_the_test
    check abi__recorded__names_no_place names_no_place
    for library; do
        name=$(basename "$library")
        name=${name%%.so*}
        check "abi__${name}__compatible_with_the_recorded" compatible "$recorded/$name.abi" "$library"
    done
fi
finish
