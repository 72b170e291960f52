#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The documents: the README and each page are short; the README's program moves bytes over libfabric; each example and
# each block of C compiles as C11 and as C++20, and runs if it is a program; each page and heading that a link names is
# there, and links lead from the index to each page. Pictures are what their texts draw.
# readme.sh LIBHMREG-LOOPBACK LIBHMREG [LIBHMREG-OFI]
. "$(dirname "$0")/cases.sh"
. "$(dirname "$0")/code.sh"

libraries=("${@:1:2}") ofi=${3-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

builds() { # FILE OUTPUT
    local sanitize=() folders=("${libraries[@]%/*}")
    [[ $SANITIZE ]] && sanitize=("-fsanitize=$SANITIZE")
    "$CC" -std=c11 -Wall -Wextra -Werror -pedantic "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include" \
        "${sanitize[@]}" -o "$2" "$1" "${libraries[@]}" "${folders[@]/#/-Wl,-rpath,}"
}

# Of the README: each block of a kind, with all its lines but the empty ones.
blocks() { # KIND
    awk -v kind="$1" '$0 == "```" kind { code = 1; next } /^```/ { code = 0 } code && NF' "$SOURCE_DIR/README.md"
}

programs_are_short() {
    awk '/^```(c|python)$/ { lines = 1; ++found; next } /^```/ { lines = 0 } /^#include/ { next }
         lines && NF && ++lines > 16 { long = 1 }
         END { exit long || found < 3 }' "$SOURCE_DIR/README.md"
}

is_short() {
    (($(wc -w <"$SOURCE_DIR/README.md") <= 900))
}

# Pages of more than 1,500 words that readers search rather than read, and why they are not divided.
long='
doctor.md: one row for each finding, which hmreg doctor names
performance/figures.md: the report of one run, as ./run bench --docs writes it
semantics.md: one row for each promise, so that one search finds it
'

# Lines of `long` without a page, and of a page that has become short, are found too.
pages_are_short() {
    local page words reason bad=0
    while read -r page; do
        words=$(wc -w <"$page")
        page=${page#"$SOURCE_DIR/docs/"}
        reason=$(grep -F "$page: " <<<"$long")
        if ((words > 1500)) && [[ ! $reason ]]; then
            echo "docs/$page: $words words; divide or shorten it"
            bad=1
        elif ((words <= 1500)) && [[ $reason ]]; then
            echo "docs/$page: $words words, and in the list of long pages"
            bad=1
        fi
    done < <(find "$SOURCE_DIR/docs" -name '*.md' ! -path '*/man/*')
    while read -r page; do
        [[ ! $page || -e $SOURCE_DIR/docs/${page%%:*} ]] || { echo "no page: $page" && bad=1; }
    done <<<"$long"
    ((!bad))
}

# Both functions of the README, each the other's peer, over libfabric's tcp.
program_moves_bytes() {
    local sanitize=() flags
    [[ $SANITIZE ]] && sanitize=("-fsanitize=$SANITIZE")
    read -ra flags < <(pkg-config --cflags --libs libfabric)
    blocks c >"$work/readme_program.h"
    "$CC" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include" "-I$SOURCE_DIR" \
        "-I$work" "${sanitize[@]}" -o "$work/program" "$SOURCE_DIR/tests/package/documents/readme.c" \
        "$SOURCE_DIR/examples/common/endpoint.c" "$ofi" "${libraries[1]}" "${flags[@]}" \
        "-Wl,-rpath,${ofi%/*}:${libraries[1]%/*}" && "$work/program"
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

# What it is, what never ran on hardware, two commands, and a picture of a buffer's path.
first_screen() {
    local screen
    screen=$(head -n 30 "$SOURCE_DIR/README.md")
    [[ $screen == *'hmreg is a C library'*'Never run on hardware'*$'```sh\n./run demo '*$'\n./run test '*'+-- device memory'*'region  GPUDirect'* ]]
}

# The first program of docs/start.md.
first_program_says_hello() {
    awk '/^```c$/ { code = 1; next } /^```/ && code { exit } code' "$SOURCE_DIR/docs/start.md" >"$work/first.c"
    builds "$work/first.c" "$work/first" && [[ $("$work/first") == hello ]]
}

documents() {
    find "$SOURCE_DIR/README.md" "$SOURCE_DIR"/docs "$SOURCE_DIR"/examples "$SOURCE_DIR/simulated" -name '*.md'
}

# Who copies an example gives peers no more than they need.
no_example_asks_for_all_rights() {
    ! grep -rn HMREG_ACCESS_ALL "$SOURCE_DIR/README.md" "$SOURCE_DIR/docs" "$SOURCE_DIR/examples" |
        grep -v 'hmreg-constants.7.md\|which few callers need'
}

# DOCUMENT and TARGET of each link in the tree: a file with or without a heading, or a heading of the document itself.
links() {
    find "$SOURCE_DIR" \( -name build -o -name '.?*' \) -prune -o -name '*.md' -print |
        xargs grep -oE '\]\([^):]+\)' /dev/null | sed -E 's/:\]\(/ /; s/\)$//'
}

# A document's headings, as GitHub writes them in links.
headings() { # DOCUMENT
    awk '/^ *```/ { fenced = !fenced } !fenced && /^#/' "$1" | sed -E 's/^#+ +//; s/\[([^]]*)\]\([^)]*\)/\1/g' |
        tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

links_lead_somewhere() {
    local document link file bad=0 found=0
    local -A known=()
    while read -r document link; do
        ((++found))
        file=${document%/*}/${link%%#*}
        [[ $link != '#'* ]] || file=$document
        [[ -e $file ]] || { echo "${document#"$SOURCE_DIR"/}: no file $link" && bad=1; }
        [[ $link == *.md#* || $link == '#'* ]] && [[ -f $file ]] || continue
        [[ ${known[$file]-} ]] || known[$file]=$'\n'$(headings "$file")$'\n'
        [[ ${known[$file]} == *$'\n'${link#*#}$'\n'* ]] ||
            { echo "${document#"$SOURCE_DIR"/}: no heading $link" && bad=1; }
    done < <(links)
    ((found > 100 && !bad))
}

# From docs/README.md; the pages of the manual are reached by the overview, which names each.
links_reach_each_page() {
    local document link bad=0
    local -A reached=(["$(readlink -f "$SOURCE_DIR/docs/README.md")"]=1)
    while read -r document link; do
        reached[$(readlink -f "${document%/*}/${link%%#*}")]=1
    done < <(links | grep "^$SOURCE_DIR/docs/README.md ")
    while read -r document; do
        [[ $document != */man/* ]] || continue
        [[ ${reached[$document]-} ]] || { echo "docs/README.md does not lead to ${document#"$SOURCE_DIR"/}" && bad=1; }
    done < <(find "$(readlink -f "$SOURCE_DIR/docs")" -name '*.md')
    grep -q 'man/hmreg.7.md' "$SOURCE_DIR/docs/README.md" && ((${#reached[@]} > 20 && !bad))
}

manual_names_each_page() {
    local page name bad=0
    for page in "$SOURCE_DIR"/docs/man/*.md; do
        name=${page##*/} name=${name%.md}
        grep -qwF -- "${name%.*}" "$SOURCE_DIR"/docs/man/hmreg.[17].md "$SOURCE_DIR/docs/README.md" ||
            { echo "neither hmreg(7) nor hmreg(1) names $name" && bad=1; }
    done
    ((!bad))
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

check readme__first_screen__what_it_is_two_commands_and_a_picture first_screen
check readme__at_most_900_words is_short
check documents__pictures__are_drawn_from_their_texts "$SOURCE_DIR/docs/pictures/draw" --check
check documents__pages__at_most_1500_words_or_searched pages_are_short
check readme__programs__at_most_15_lines programs_are_short
if [[ $ofi ]]; then
    check readme__program__moves_bytes_over_libfabric program_moves_bytes
else
    skip readme__program__moves_bytes_over_libfabric "this build is without ofi"
fi
check documents__first_program__says_hello first_program_says_hello
check_examples
check_blocks
check documents__rights__are_those_needed no_example_asks_for_all_rights
check documents__links_lead_somewhere links_lead_somewhere
check documents__links__reach_each_page links_reach_each_page
check documents__manual__names_each_page manual_names_each_page
check documents__named_files_exist named_files_exist
finish
