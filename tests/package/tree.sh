#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Rules every file of the tree keeps: a licence line at its top, a length one can read.
. "$(dirname "$0")/cases.sh"
cd "$SOURCE_DIR" || exit 1

# Committed files where git will say, else all but build folders (an unpacked archive).
files() {
    git ls-files 2>/dev/null ||
        find . \( -name .git -o -name 'build*' \) -prune -o -type f -printf '%P\n'
}

text_files() {
    files | grep -v '^LICENSES/' | xargs -d '\n' grep -Il .
}

# The licence of the library, or of a kernel module in the folder of its own.
licensed() {
    text_files | xargs -d '\n' awk '
        function licence() {
            return FILENAME ~ /^tests\/guest\/kmod\// ? "GPL-2.0-only" \
                                                        : "BSD-2-Clause OR GPL-2.0-only"
        }
        index($0, "SPDX-License-Identifier: " licence()) { found[FILENAME]; nextfile }
        FNR == 8 { nextfile }
        END {
            for (i = 1; i < ARGC; i++) {
                FILENAME = ARGV[i]
                if (FILENAME in found)
                    continue
                print FILENAME ": no line \"SPDX-License-Identifier: " licence() "\" at its top"
                bad = 1
            }
            exit bad
        }'
}

# Data, such as plots and captured tables, may be longer.
short() {
    text_files | grep -E '\.(c|h|in|map|cmake|txt|sh|awk|md|py)$|^run$|^\.ci/' |
        xargs -d '\n' wc -l |
        awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines, more than 800"; bad = 1 }
             END { exit bad }'
}

some() {
    local count
    count=$(text_files | wc -l)
    echo "$count files"
    ((count > 20))
}

check tree__is_found some
check tree__every_file_names_its_licence licensed
check tree__no_source_above_800_lines short
finish
