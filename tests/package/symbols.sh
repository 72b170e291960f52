#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The symbols that a library exports and needs: symbols.sh LIBRARY MAP "HEADER..." ALLOWED...
# It exports exactly what its map names and its headers declare, links libc and at most ALLOWED,
# and refers to no symbol of a vendor's runtime, or of a libibverbs newer than ibv_reg_mr_iova2()'s:
# those are found at run time or not at all. ibv_fork_init() is the application's to call.
. "$(dirname "$0")/cases.sh"

library=$1 map=$2 headers=$3
shift 3
name=$(basename "${library%%.so*}")
name=${name#lib}
name=${name//-/_}

same() { # two lists, the first being the right one
    diff -u --label expected --label found <(echo "$1") <(echo "$2")
}

# "name node" of each global of the map.
map_symbols() {
    awk '
        /^[A-Z_0-9.]+ \{/ { node = $1; global = 0 }
        /global:/ { global = 1; next }
        /local:/ { global = 0 }
        global && /^ .*;/ { gsub(/[ ;]/, ""); print $0, node }
    ' "$map" | sort
}

exported_symbols() {
    nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@+/, " ", $3); print $3 }' | sort
}

# Functions that a public header declares: they begin a line, or follow their type on it.
declared_functions() {
    local header
    for header in $headers; do
        sed -nE '/^static inline/d; s/^[a-z].*[ *](hmreg_[a-z_]+)\(.*/\1/p' "$SOURCE_DIR/include/hmreg/$header"
    done | sort
}

exports_its_map() {
    same "$(map_symbols)" "$(exported_symbols)"
}

exports_its_headers() {
    same "$(declared_functions)" "$(map_symbols | sed '/_PRIVATE_/d; s/ .*//')"
}

refers_to_no_vendor() {
    ! nm -D --undefined-only "$library" |
        grep -E '(^| )(cu|cuda|nvml|hip)[A-Z]|(^| )(hsa_|amdsmi_|rsmi_)|(^| )(ze|zes|zet|zel)[A-Z]'
}

# The dynamic linker has a kilobyte and a half for the thread-local data of all libraries that are
# loaded late and find theirs without a call; one that finds none left cannot be loaded by dlopen(3).
# Five copies of ours fit (unit_copies loads them).
thread_local_data_is_small() {
    local bytes
    bytes=$(($(readelf -lW "$library" | awk '$1 == "TLS" { print $6 }')))
    echo "$library: ${bytes:-0} bytes of thread-local data"
    [[ $SANITIZE ]] || ((${bytes:-0} <= 320))
}

refers_to_old_verbs_only() {
    ! nm -D --undefined-only "$library" |
        grep -E 'IBVERBS_1\.(9|[1-9][0-9])|ibv_fork_init|ibv_reg_dmabuf_mr|ibv_reg_mr_ex'
}

# libc is two files: the loader's belongs to it.
links_at_most() {
    local needed extra=0
    for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        [[ $needed == ld-linux* || " $* " == *" $needed "* ]] && continue
        echo "links $needed as well"
        extra=1
    done
    return $extra
}

# What a provider's library needs of another version's libhmreg has another name there, which the
# dynamic linker says and refuses; likewise among the libraries that `hmreg run` loads.
fits_its_own_version_only() {
    local version
    version=$(sed -nE 's/^project\(hmreg VERSION ([0-9.]+) .*/\1/p' "$SOURCE_DIR/CMakeLists.txt")
    map_symbols | awk '/_PRIVATE_/ { print $2 }' | sort -u | same "HMREG_PRIVATE_$version" "$(cat)" &&
        ! grep -hE '^HMREG.* \{' "$SOURCE_DIR"/preload/*.map "$SOURCE_DIR"/preload/verbs/*.map | grep -vF "_$version {"
}

check "symbols_${name}__are_those_of_the_map" exports_its_map
check "symbols_${name}__are_those_of_the_headers" exports_its_headers
check "symbols_${name}__no_vendor_is_referred_to" refers_to_no_vendor
if [[ $name == hmreg ]]; then
    check "symbols_${name}__fits_its_own_version_only" fits_its_own_version_only
fi
check "symbols_${name}__thread_local_data_is_small" thread_local_data_is_small
check "symbols_${name}__no_newer_libibverbs_is_needed" refers_to_old_verbs_only
if [[ $SANITIZE ]]; then
    skip "symbols_${name}__links_only_what_it_says" "-fsanitize=$SANITIZE links its own libraries"
else
    check "symbols_${name}__links_only_what_it_says" links_at_most libc.so.6 "$@"
fi
finish
