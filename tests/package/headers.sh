#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Each public header compiles alone, as C11 and as C++17, without extensions or warnings.
. "$(dirname "$0")/cases.sh"

strict=(-Wall -Wextra -Wshadow -Werror -pedantic -fsyntax-only
    "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include")

compiles() { # HEADER COMPILER OPTION...
    local header=$1
    shift
    printf '#include <hmreg/%s>\nextern int not_empty;\n' "$header" | "$@" "${strict[@]}" -
}

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
