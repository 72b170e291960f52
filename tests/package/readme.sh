#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The documents: the README's program compiles, runs and prints the output that it shows; each example
# and each block of C compiles as C11 and as C++20, and runs if it is a program; link targets exist.
# readme.sh LIBHMREG-LOOPBACK LIBHMREG
. "$(dirname "$0")/cases.sh"
. "$(dirname "$0")/code.sh"

libraries=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

builds() { # FILE OUTPUT
    local sanitize=() folders=("${libraries[@]%/*}")
    [[ $SANITIZE ]] && sanitize=("-fsanitize=$SANITIZE")
    "$CC" -std=c11 -Wall -Wextra -Werror -pedantic "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include" \
        "${sanitize[@]}" -o "$2" "$1" "${libraries[@]}" "${folders[@]/#/-Wl,-rpath,}"
}

example_compiles() {
    awk '/^```c$/ { code = 1; next } /^```/ && code { exit } code' "$SOURCE_DIR/README.md" >"$work/readme.c"
    [[ $(wc -l <"$work/readme.c") -ge 20 ]] && builds "$work/readme.c" "$work/readme"
}

# A whole program, which needs no more than loopback.
runs() { # FILE
    builds "$1" "${1%.c}" && "${1%.c}"
}

# Splits the blocks of C of a document: a file for each in the folder, named by its line.
split_blocks() { # DOCUMENT FOLDER
    mkdir -p "$2"
    awk -v folder="$2" '/^```c$/ { file = folder "/" NR ".c"; next } /^```/ { file = "" } file { print >file }' "$1"
}

check_code() { # NAME FILE OPTION...
    local name=$1 file=$2 absent
    shift 2
    absent=$(lacks "$(<"$file")")
    if [[ $absent ]]; then
        skip "$name" "this build is without $absent"
    else
        check "${name}__compiles_as_$languages" compiles "$file" "$@"
    fi
}

compiles() { # FILE OPTION...
    local file=$1
    shift
    compiles_as_c_and_cxx "$@" <"$file"
}

check_examples() {
    local file
    for file in "$SOURCE_DIR"/examples/*/*.c; do
        [[ $file != */8-kernel/* ]] || continue # a kernel module, which tests/kfi/modules builds
        check_code "examples__$(basename "${file%/*}")_$(basename "$file" .c)" "$file" -D_GNU_SOURCE \
            "-I${file%/*}"
    done
}

check_blocks() {
    local document file name
    while read -r document; do
        name=${document#"$SOURCE_DIR/"}
        name=${name%.md}
        name=${name//\//_}
        split_blocks "$document" "$work/$name"
        for file in "$work/$name"/*.c; do
            [[ -e $file ]] || continue
            check_code "documents__${name}_$(basename "$file" .c)" "$file"
            # simulated.sh runs those of simulated vendors
            [[ $name == *simulated* ]] || ! grep -q "^int main(" "$file" ||
                check "documents__${name}_$(basename "$file" .c)__runs" runs "$file"
        done
    done < <(documents | grep -v /man/)
}

# What it is, one command, and a picture of a buffer's path.
first_screen() {
    local screen
    screen=$(head -n 30 "$SOURCE_DIR/README.md")
    [[ $screen == *'hmreg is a C library'*$'```sh\n./run demo\n```'*'+-- device memory'*'region  GPUDirect'* ]]
}

example_says_hello() {
    [[ $("$work/readme") == hello ]]
}

documents() {
    find "$SOURCE_DIR/README.md" "$SOURCE_DIR"/docs "$SOURCE_DIR"/examples "$SOURCE_DIR/simulated" -name '*.md'
}

# Who copies an example gives peers no more than they need.
no_example_asks_for_all_rights() {
    ! grep -rn HMREG_ACCESS_ALL "$SOURCE_DIR/README.md" "$SOURCE_DIR/docs" "$SOURCE_DIR/examples" |
        grep -v 'hmreg-constants.7.md\|which few callers need'
}

links_lead_somewhere() {
    local document link bad=0 found=0
    while read -r document; do
        while read -r link; do
            ((++found))
            [[ -e ${document%/*}/${link%%#*} ]] && continue
            echo "${document#"$SOURCE_DIR"/}: no file $link"
            bad=1
        done < <(grep -oE '\]\([^):]+\)' "$document" | sed 's/^](//; s/)$//' | grep -v '^#')
    done < <(documents)
    ((found > 5 && !bad))
}

# Folders and sources that documents name in code spans.
named_files_exist() {
    local document name bad=0 found=0
    while read -r document; do
        while read -r name; do
            ((++found))
            compgen -G "$SOURCE_DIR/$name" >/dev/null && continue
            echo "${document#"$SOURCE_DIR"/}: no $name"
            bad=1
        done < <(grep -oE '`(core|hmem|preload|providers|simulated|tools|tests|docs|examples|cmake|include)/[a-z0-9_/.*-]*`' \
            "$document" | tr -d '`')
    done < <(documents)
    ((found > 20 && !bad))
}

check readme__first_screen__what_it_is_a_command_and_a_picture first_screen
check readme__example_compiles example_compiles
check readme__example_says_hello example_says_hello
check_examples
check_blocks
check documents__rights__are_those_needed no_example_asks_for_all_rights
check documents__links_lead_somewhere links_lead_somewhere
check documents__named_files_exist named_files_exist
finish
