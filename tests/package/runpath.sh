#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Where programs and libraries search for libraries: runpath.sh FILE...
# An empty folder in the list is the current one, where another user may have put a library.
. "$(dirname "$0")/cases.sh"

searches_no_current_folder() { # FILE
    local list
    list=$(readelf -d "$1" | sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]/\2/p')
    echo "it searches: $list"
    [[ -z $list || :$list: != *::* ]] && ! [[ $list =~ (^|:)[^/\$:] ]]
}

for file; do
    check "$(basename "$file")__searches_no_current_folder" searches_no_current_folder "$file"
done
finish
