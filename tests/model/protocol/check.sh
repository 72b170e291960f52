#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Lets spin visit all states of each scene of hit.pml and load.pml, and of the other models, each of which is a scene of
# its own, and find an error when one rule is broken:
#
#     check.sh                 a case for each scene, and for each broken rule
#     check.sh SCENE [RULE]    one search; prints the shortest path to an error, step by step
. "$(dirname "$0")/../../package/cases.sh"

folder=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit

# How many there are of each process, and what else differs.
usual="START=SERVING SLOTS=1 THREADS=2 GETS=1 HOOKS=0 OTHERS=0 EVENTS=0 COUNTS=0 EVICTIONS=0 REAPER=0"
scenes="pins refused evictions changes batches misses reaper kernel counts last_put counter table load install load_older
known lost gone member"
declare -A scene=(
    [pins]="HOOKS=1 EVICTIONS=1 REAPER=1"
    [refused]="HOOKS=1 REAPER=1 REFUSED=1"
    [evictions]="GETS=2 EVICTIONS=1"
    [changes]="HOOKS=1 OTHERS=1 STRONG=1"
    [batches]="HOOKS=1 OTHERS=1 SLOTS=2 STRONG=1"
    [misses]="GETS=2 HOOKS=1 START=FREE STRONG=1"
    [reaper]="THREADS=1 HOOKS=1 OTHERS=1 REAPER=1 SLOTS=2 STRONG=1"
    [kernel]="GETS=2 EVENTS=1 STRONG=1"
    [counts]="GETS=2 COUNTS=1 STRONG=1"
    [last_put]="" # last_put.pml's own
    [counter]=""  # counter.pml's
    [table]=""    # table.pml's
    [load]="INSTALLED=1 FIND=1 LOADS=3 GETS=2"
    [install]="INSTALLED=0 FIND=1 LOADS=3 GETS=2"
    [load_older]="INSTALLED=1 FIND=0 LOADS=3 GETS=2"
    [known]="GETS=3"
    [lost]="GETS=2"
    [gone]="" # gone.pml's
    [member]="" # member.pml's
)
declare -A model_of=([install]=load [load_older]=load) # else of the scene's name, or hit.pml

find_model() { # SCENE
    local name=${model_of[$1]-$1}

    [[ -f $folder/$name.pml ]] && echo "$folder/$name.pml" || echo "$folder/hit.pml"
}

# search SCENE RULE CFLAGS...: visits the states, and prints what spin's verifier says. Later
# settings replace earlier ones.
search() {
    local setting
    model=$(find_model "$1")
    declare -A settings
    for setting in $usual ${scene[$1]} BREAK="$2"; do
        settings[${setting%=*}]="-D$setting"
    done
    options=("${settings[@]}")
    shift 2
    rm -f ./*
    spin -a "${options[@]}" "$model" &&
        "${CC:-cc}" -w -DSAFETY -DNOFAIR -DMEMLIM=1500 "$@" -o pan pan.c &&
        ./pan -m20000 -w20 # a table for 2^20 states, which grows
}

# The absence of an error counts only if the search was complete.
holds() { # SCENE
    local output
    output=$(search "$1" 0 -O1 2>&1)
    echo "$output"
    grep -q 'errors: 0$' <<<"$output" && grep -q '^pan: elapsed time' <<<"$output" &&
        ! grep -Eiq 'too small|out of memory|MEMLIM|not completed|truncated|aborted' <<<"$output"
}

# Most errors are near: compiling takes longer than finding them.
is_found() { # SCENE RULE
    local output
    output=$(search "$1" "$2" -O0 2>&1)
    echo "$output"
    grep -q '^pan:1: assertion violated' <<<"$output"
}

if ! command -v spin >/dev/null; then
    skip model_protocol "spin is not installed"
    finish
fi
if (($#)); then
    search "$1" "${2-0}" -O2 -DBFS
    [[ ! -f ${model##*/}.trail ]] || spin -p -g -t -k "${model##*/}.trail" "${options[@]}" "$model"
    exit
fi
for name in $scenes; do
    check "$name" holds "$name"
done
rules=0
while read -r _ rule _ _ name _; do
    check "${name}__without_${rule,,}__error" is_found "$name" "$rule"
    ((++rules))
done < <(grep -hE '^#define [A-Z_]+ +[0-9]+ /\* ' "$folder"/*.pml)
check rules__of_the_model__are_read test "$rules" -gt 0
finish
