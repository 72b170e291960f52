#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# debian/ against the tree: what ./run package would find after minutes. debian.sh MAP...
. "$(dirname "$0")/cases.sh"
maps=("$@")
cd "$SOURCE_DIR" || exit 1

# The value of a field, its lines joined.
field() { # SOURCE-OR-PACKAGE FIELD
    awk -v package="$1" -v field="$2:" '
        /^(Source|Package): / { there = $2 == package }
        /^[^ ]/ { inside = there && $1 == field; sub(/^[^:]*:/, "") }
        inside { print }' debian/control | tr -s ' \n' ' '
}

versions_agree() {
    [[ $(head -n 1 debian/changelog) == "hmreg ($VERSION)"* ]] &&
        [[ $(grep -m 1 '^## ' CHANGELOG.md) == "## $VERSION"* ]] &&
        grep -qx "PACKAGE_VERSION=\"$VERSION\"" kernel/dkms.conf
}

# Debian names a library's package by the number in its soname.
libraries_are_named_by_soname() {
    diff <(sed -nE 's/^Package: (libhmreg.*[0-9])$/\1/p' debian/control | sort) \
        <(printf "libhmreg%s$ABI\n" '' -affinity -loopback -ofi -verbs | sort)
}

# "NAME@NODE" of the public functions and nodes, "NODE" of private ones.
of_map() { # MAP
    awk '/^HMREG_.* \{/ { node = $1; print node ~ /_PRIVATE_/ ? node : node "@" node }
         /^ +hmreg_.*;/ && node !~ /_PRIVATE_/ { sub(/;.*/, ""); print $1 "@" node }' "$1"
}

symbols_are_those_of_the_maps() {
    local map library bad=0
    for map in "${maps[@]}"; do
        library=$(basename "$map" .map)
        [[ $library == hmreg ]] && library=lib$library || library=libhmreg-$library
        diff <(sed -nE 's/^ (\(symver\))?([^ ]+) [0-9.]+$/\2/p' "debian/$library$ABI.symbols" | sort) \
            <(of_map "$map" | sort) && continue
        echo "debian/$library$ABI.symbols is not as $map"
        bad=1
    done
    return $bad
}

# The libraries and tools of debian/control are those of ./run setup.
build_dependencies_are_those_of_setup() {
    local all
    all=$(field hmreg Build-Depends | tr ',' '\n' | awk '{ print $1 }' | grep -vxE 'debhelper-compat|dh-sequence-python3')
    diff <(sort <<<"$all") <(sed -nE 's/^build  *([^ ]+).*/\1/p' cmake/packages.txt |
        grep -vxE 'gcc|g\+\+|libc6-dev|spin|groff-base|jq|libfabric-bin' | sort) # build-essential has those; tests skip without the others
}

# dh_missing finds all else; these are not built everywhere.
pages_are_installed() {
    local page pattern patterns found bad=0
    mapfile -t patterns < <(sed -n 's|^usr/share/man/man1/||p' debian/*.install)
    for page in docs/man/*.1.md; do
        page=$(basename "$page" .md)
        found=0
        for pattern in "${patterns[@]}"; do
            # shellcheck disable=SC2053
            [[ $page == $pattern ]] && ((++found))
        done
        ((found == 1)) && continue
        echo "$found lines of debian/*.install have $page"
        bad=1
    done
    return $bad
}

# What hmreg-guest needs on a user's machine: its message, its manual, what its package suggests, and the
# group guest, which has what our own tests run there besides.
guest_needs_the_same_packages() {
    local of_message
    of_message=$(sed -nE "s/.*guest_setup(='apt-get install|\+=')([^']*)'.*/\2/p" simulated/guest/machine |
        tr -s ' ' '\n' | grep . | sort)
    diff <(echo "$of_message") <(sed -nE '/^guest /{ /tests of|unmodified|the same/!s/^guest +([^ ]+).*/\1/p }' \
        cmake/packages.txt | sort) &&
        diff <(echo "$of_message") <(field hmreg-simulated Suggests | tr ',' '\n' | sed -n 's/ *\(.*\) \[amd64\].*/\1/p' | sort) &&
        diff <(echo "$of_message") <(tr '\n' ' ' <docs/man/hmreg-guest.1.md |
            sed 's/.*with the packages \(.*\), and package lists.*/\1/; s/ and /, /' | tr -d ' ' | tr ',' '\n' | sort)
}

check debian__versions_agree versions_agree
check debian__libraries_are_named_by_soname libraries_are_named_by_soname
check debian__symbols_are_those_of_the_maps symbols_are_those_of_the_maps
check debian__build_dependencies_are_those_of_setup build_dependencies_are_those_of_setup
check debian__manual_pages_are_installed pages_are_installed
# None of ours runs as root at an installation; those of hmreg-dkms are made by dh_dkms.
no_maintainer_scripts() {
    local found
    found=$(find debian -regextype posix-extended -regex '.*[/.](preinst|postinst|prerm|postrm|config)')
    echo "$found"
    [[ ! $found ]]
}
check debian__no_maintainer_scripts no_maintainer_scripts
check debian__guest_needs_the_same_packages guest_needs_the_same_packages
finish
