#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Rules for every file of the tree, such as a licence line at its top and a limited length; and for a commit's subject.
. "$(dirname "$0")/cases.sh"
cd "$SOURCE_DIR" || exit 1

# Committed files in a clone, else all but build folders (an unpacked archive).
files() {
    git ls-files 2>/dev/null ||
        find . \( -name .git -o -name 'build*' \) -prune -o -type f -printf '%P\n'
}

text_files() {
    files | grep -v '^LICENSES/' | xargs -d '\n' grep -Il .
}

# Inputs of fuzzers are bytes, whatever they look like; two of debian/ have no comments.
# The licence of the library, or of kernel modules in folders of their own; programs include the interface of one.
licensed() {
    text_files | grep -vE '^(tests/fuzz/corpus/|debian/(changelog|source/format)$)' | xargs -d '\n' awk '
        function licence() {
            return FILENAME ~ /^(simulated\/guest\/kmod|kernel)\// && FILENAME !~ /\/hmreg_counter\.h$/ \
                       ? "GPL-2.0-only" : "BSD-2-Clause OR GPL-2.0-only"
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

# What is loaded into programs does not obey the environment in set-user-id programs.
environment_is_read_safely() {
    ! text_files | grep -E '^(affinity|core|hmem|preload|providers)/.*\.[ch]$' |
        xargs -d '\n' grep -nE '(^|[^_[:alnum:]])getenv\('
}

# Packages come from the mirrors of the machine that a script runs on (simulated/guest/mirror).
no_package_archive_is_named() {
    local found
    found=$(text_files | xargs -d '\n' grep -nE '[^w]\.debian\.org|https?://[^ ]*/debian')
    echo "$found"
    [[ ! $found ]]
}

# FILE:LINE:COMMENT of C files, of scripts and of CMake's.
comments() {
    text_files | grep -E '\.[ch]$' | xargs -d '\n' awk '
        FNR == 1 { inside = 0 }
        inside || /\/\*|\/\// {
            text = $0
            if (!inside)
                sub(/^.*(\/\*|\/\/)/, "", text)
            if (/\/\*/)
                inside = 1
            if (/\*\//)
                inside = 0
            print FILENAME ":" FNR ":" text
        }'
    text_files | grep -E '(\.(sh|awk|py|cmake|txt|map|in)|^run|^\.ci/[a-z0-9]+)$' |
        xargs -d '\n' grep -nHoE '^[[:space:]]*# .*'
}

# Files of other projects that comments name, and files that a test makes.
elsewhere='amdgpu|cuda|errno|fs|hsa|hsakmttypes|kfi_domain|kfi_errno|pan|rcache|ze_api'

named_files_exist() {
    comments | files=$(files) awk -v elsewhere="$elsewhere" '
        BEGIN {
            for (n = split(ENVIRON["files"], all, "\n"); n; n--) {
                path = all[n]
                sub(/\.in$/, "", path)
                there[path] = 1
                while (sub(/^[^\/]*\//, "", path))
                    there[path] = 1
            }
        }
        {
            split($0, place, ":")
            text = substr($0, length(place[1]) + length(place[2]) + 3)
            while (match(text, /[A-Za-z0-9_.\/*-]*[A-Za-z0-9_*-]\.[ch]([^A-Za-z0-9_]|$)/)) {
                name = substr(text, RSTART, RLENGTH)
                text = substr(text, RSTART + RLENGTH)
                sub(/[^A-Za-z0-9_]$/, "", name)
                found++
                sub(/^\//, "", name) # of <vendor>/name
                if (name in there || name ~ /\*/ || name ~ "(^|/)(" elsewhere ")\\.[ch]$")
                    continue
                print place[1] ":" place[2] ": names " name ", which does not exist"
                bad = 1
            }
        }
        END { exit bad || found < 100 }'
}

# Calls that open a descriptor, each with its flag that an exec closes it; a statement may have lines.
closed_by_exec() {
    files | grep -E '^(affinity|core|hmem|providers|tools)/.*\.c$' | xargs -d '\n' awk '
        FNR == 1 { text = "" }
        { gsub(/\/\*.*\*\/|^ \*.*/, ""); text = text " " $0 }
        /[;{}][ \t]*$/ {
            gsub(/->open\(/, "", text) # an operation of a table
            flagged = text ~ /CLOEXEC/
            if (text ~ /[^a-z_](open|openat|socket|accept4|pipe2|memfd_create|eventfd|dup3)\(/)
                found++
            if ((!flagged && text ~ /[^a-z_](open|openat|socket|accept4|pipe2|memfd_create|eventfd|dup3)\(/) ||
                text ~ /[^a-z_](accept|pipe|dup|dup2|creat|epoll_create|mkstemp)\(/ ||
                (text ~ /[^a-z_](fopen|popen)\(/ && text !~ /"[rwa]+[+b]*e"/)) {
                print FILENAME ":" FNR ":" text
                bad = 1
            }
            text = ""
        }
        END { exit bad || found < 10 }'
}

# Of the newest commit, before it lands; an unpacked archive has none.
subject_is_short() {
    local subject=''
    [[ ! -e .git ]] || subject=$(git log -1 --no-merges --format=%s)
    echo "${#subject} characters: $subject"
    ((${#subject} <= 72))
}

# Commits from here on have a body, unless they change at most 20 lines. A shallow clone may not have the commit.
bodies_since=ea772ef5

# HASH of each commit since another one that changes more than 20 lines and has no body.
commits_without_body() { # CLONE HASH
    git -C "$1" log --no-merges --shortstat --format='commit %h%n%w(0,1,1)%b' "$2..HEAD" | awk '
        /^commit / { commit = $2; body = 0; next }
        /^ [0-9]+ files? changed/ { if (!body && $4 + $6 > 20) print commit; next }
        /[^ ]/ { body = 1 }'
}

commits_say_why() {
    local found=''
    [[ ! -e .git ]] || ! git cat-file -e "$bodies_since^{commit}" 2>/dev/null || found=$(commits_without_body . $bodies_since)
    printf '%s' "${found:+no body says why: $found}"
    [[ ! $found ]]
}

# A commit of 30 lines with a body, one of few lines without, and one of 30 without.
long_commit_without_body_is_found() {
    local clone found
    clone=$(mktemp -d)
    git -C "$clone" init -q
    commit() { # LINES MESSAGE
        seq "$1" >>"$clone/file"
        git -C "$clone" add file
        git -C "$clone" -c user.name=test -c user.email=test@localhost commit -q -m "$2"
    }
    commit 1 first
    commit 30 $'with\n\nbody'
    commit 5 short
    commit 30 long
    found=$(commits_without_body "$clone" HEAD~3)
    [[ $found && $found == "$(git -C "$clone" log -1 --format=%h)" ]]
    local status=$?
    rm -rf "$clone"
    return $status
}

some() {
    local count
    count=$(text_files | wc -l)
    echo "$count files"
    ((count > 20))
}

check tree__is_found some
check tree__every_file_names_its_licence licensed
check tree__files_named_in_comments_exist named_files_exist
check tree__every_descriptor_is_closed_by_exec closed_by_exec
check tree__libraries_read_the_environment_safely environment_is_read_safely
check tree__no_package_archive_is_named no_package_archive_is_named
check tree__no_source_above_800_lines short
check tree__newest_subject_has_at_most_72_characters subject_is_short
check tree__commit_of_many_lines_without_body__found long_commit_without_body_is_found
check tree__commits__have_a_body_or_few_lines commits_say_why
finish
