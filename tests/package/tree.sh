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
    local file
    while read -r file; do
        [[ $file == LICENSES/* || ! -s $file ]] || ! grep -qI . "$file" || echo "$file"
    done < <(files)
}

# The licence of the library, or of a kernel module in the folder of its own.
licensed() {
    local file licence bad=0
    while read -r file; do
        licence='BSD-2-Clause OR GPL-2.0-only'
        [[ $file == tests/guest/kmod/* ]] && licence='GPL-2.0-only'
        head -n 8 "$file" | grep -q "SPDX-License-Identifier: $licence" && continue
        echo "$file: no line 'SPDX-License-Identifier: $licence' at its top"
        bad=1
    done < <(text_files)
    return $bad
}

# Data, such as plots and captured tables, may be longer.
short() {
    local file lines bad=0
    while read -r file; do
        case $file in *.c | *.h | *.in | *.map | *.cmake | *.txt | *.sh | *.awk | *.md | run) ;;
        *) continue ;; esac
        lines=$(wc -l <"$file")
        ((lines <= 800)) && continue
        echo "$file: $lines lines, more than 800"
        bad=1
    done < <(text_files)
    return $bad
}

some() {
    (($(text_files | wc -l) > 20)) || ! echo "only $(text_files | wc -l) files were found"
}

check tree__is_found some
check tree__every_file_names_its_licence licensed
check tree__no_source_above_800_lines short
finish
