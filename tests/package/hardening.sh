#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What an attacker finds in the installed files: hardening.sh CONFIGURATION PROCESSOR
# Installs into a prefix of its own and reads every ELF file there; cmake/HmregHarden.cmake says what
# they must have. libc checks buffers only in optimized builds, of which .ci/options has one examined.
. "$(dirname "$0")/cases.sh"

configuration=$1 processor=$2
if [[ $SANITIZE || $HARDEN == OFF ]]; then
    skip package__hardening "this build is not hardened (HMREG_HARDEN, HMREG_SANITIZE)"
    finish
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# each COMMAND...: it succeeds for every file, given as the last argument.
each() {
    local file bad=0
    for file in "${files[@]}"; do
        "$@" "$file" && continue
        echo "$* ${file#"$work/"}"
        bad=1
    done
    return $bad
}

prints() { # PATTERN COMMAND...
    local output
    output=$("${@:2}") && grep -qE "$1" <<<"$output"
}

segment() { # TYPE FILE: its flags
    readelf -lW "$2" | awk -v type="$1" '$1 == type { print $(NF - 1) }'
}

has_relro() { prints ' GNU_RELRO ' readelf -lW "$1"; }
binds_now() { prints 'BIND_NOW|FLAGS_1.*NOW' readelf -dW "$1"; }
stack_is_data() { [[ $(segment GNU_STACK "$1") == RW ]]; }
no_text_relocations() { ! prints TEXTREL readelf -dW "$1"; }

no_segment_is_both() {
    ! prints '^ *LOAD .* RWE ' readelf -lW "$1"
}

# Each entry of a search path is absolute or begins at the file's folder.
searches_named_folders() {
    local path entry
    path=$(readelf -dW "$1" | sed -nE 's/.*R(UN)?PATH.*\[(.*)\]/\2/p')
    [[ $path ]] || return 0
    while IFS= read -r -d : entry; do
        [[ $entry == '$ORIGIN'* || $entry == /* ]] || return
    done <<<"$path:"
}

is_position_independent() { prints 'Type:.*DYN' readelf -hW "$1"; }
has_note() { prints "Properties:.*$1" readelf -nW "$2"; } # WORD FILE
# libhmreg has arrays on the stack, and copies into buffers.
libhmreg_calls() { prints " $1(@|$)" nm -D --undefined-only "$work/$LIBDIR/libhmreg.so"; } # SYMBOL

# Where an indirect call may arrive there is an endbr64, except for the file of a hit's calls.
entries_are_marked() {
    local address name first bad=0 hit
    hit=$(sed -nE 's/^[a-z].*[ *](hmreg_[a-z_]+)\(.*/\1/p' "$SOURCE_DIR/core/cache/get_fast.c")
    while read -r address _ name; do
        grep -qx "${name%%@*}" <<<"$hit" && continue
        first=$(objdump -d --no-show-raw-insn --start-address="0x$address" --stop-address=$((0x$address + 4)) "$1" |
            awk 'END { print $2 }')
        [[ $first == endbr64 ]] && continue
        echo "$name begins with $first"
        bad=1
    done < <(nm -D --defined-only "$1" | awk '$2 == "T"')
    return $bad
}

check package__hardened__installs "$CMAKE" --install "$BUILD_DIR" --prefix "$work"
mapfile -t files < <(find "$work" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec sh -c \
    'head -c 4 "$1" | grep -q ELF' sh {} \; -print)
check package__hardened__there_are_files test ${#files[@]} -ge 2
check package__hardened__relro each has_relro
check package__hardened__symbols_are_bound_at_the_start each binds_now
check package__hardened__stack_is_not_executable each stack_is_data
check package__hardened__code_is_not_writable each no_segment_is_both
check package__hardened__no_text_relocations each no_text_relocations
check package__hardened__searches_named_folders_only each searches_named_folders
check package__hardened__position_independent each is_position_independent
check package__hardened__stack_is_checked libhmreg_calls __stack_chk_fail
[[ $configuration == Debug ]] || check package__hardened__buffers_are_checked libhmreg_calls '__[a-z]+_chk'
case $processor in
x86_64 | AMD64)
    check package__hardened__shadow_stack each has_note SHSTK
    check package__hardened__indirect_calls_arrive_at_endbr64 entries_are_marked "$work/$LIBDIR/libhmreg.so"
    ;;
esac
finish
