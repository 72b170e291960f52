#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Each public header compiles alone, as C11 and as C++17, without extensions or warnings; the calls that its comments
# name exist.
. "$(dirname "$0")/cases.sh"

strict=(-Wall -Wextra -Wshadow -Werror -pedantic -fsyntax-only
    "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include")

compiles() { # HEADER COMPILER OPTION...
    local header=$1
    shift
    printf '#include <hmreg/%s>\nextern int not_empty;\n' "$header" | "$@" "${strict[@]}" -
}

# Functions of all public headers.
declared=$(sed -nE '/^ ?\*|^\/\*/d; s/^[a-z].*[ *](hmreg_[a-z0-9_]+)\(.*/\1/p' "$SOURCE_DIR"/include/hmreg/*.h)

# Comments name calls as hmreg_mr_bind(), or as _bind() beside another call of the same object.
names_exist() { # HEADER
    local name unknown=0
    [[ $declared ]] || return 1
    for name in $(grep -oE '(^|[^a-z0-9_])(hmreg)?_[a-z0-9_]+\(\)' "$SOURCE_DIR/include/hmreg/$1" |
        grep -oE '[a-z0-9_]+' | sort -u); do
        if [[ $name == _* ]]; then
            grep -qE "^hmreg_[a-z]+$name\$" <<< "$declared" && continue
        else
            grep -qx "$name" <<< "$declared" && continue
        fi
        echo "include/hmreg/$1 names $name(), which no public header declares"
        unknown=1
    done
    return $unknown
}

for path in "$SOURCE_DIR"/include/hmreg/*.h; do
    check "header_$(basename "$path" .h)__calls_in_comments_exist" names_exist "${path##*/}"
done

for path in "$SOURCE_DIR"/include/hmreg/*.h "$BUILD_DIR/include/hmreg/version.h"; do
    header=${path##*/}
    name=${header%.h}
    if [[ $name == ofi || $name == verbs ]] && [[ " $COMPONENTS " != *" $name "* ]]; then
        skip "header_${name}__alone" "this build is without $name, whose headers may be absent"
        continue
    fi
    check "header_${name}__c11" compiles "$header" "$CC" -std=c11 -x c
    if [[ $CXX ]]; then
        check "header_${name}__cxx17" compiles "$header" "$CXX" -std=c++17 -x c++
    else
        skip "header_${name}__cxx17" "no C++ compiler is installed"
    fi
done
finish
