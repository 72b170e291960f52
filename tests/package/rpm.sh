#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# packaging/hmreg.spec against the tree and debian/, and the options that leave a library out: what packaging/rpm would
# find after minutes.
. "$(dirname "$0")/cases.sh"
cd "$SOURCE_DIR" || exit 1
spec=packaging/hmreg.spec

version_agrees() {
    grep -qE "^Version: +$VERSION\$" $spec
}

# "PACKAGE FILE", by Debian's names of packages and folders. Without Python's, of which there is no RPM.
of_debian() {
    local file package
    for file in debian/*.install; do
        [[ $file != debian/python3-* ]] || continue
        package=$(basename "$file" .install)
        sed '/^#/d' "$file" | while read -r from to; do
            case $from in
            debian/modules-load.d) echo "$package $to/modules-load.d/hmreg.conf" ;;
            kernel/*) echo "$package usr/src/hmreg-VERSION" ;;
            *) echo "$package $from" ;;
            esac
        done
    done | sort -u
}

# The same of the spec, whose conditions do not count.
of_spec() {
    awk -v abi="$ABI" '
        /^%files/ {
            package = "hmreg" ($2 == "" ? "" : "-" $2)
            if ($2 == "-n")
                package = $3 == "libhmreg-devel" ? "libhmreg-dev" : $3 abi
        }
        package != "" && /^(%dir )?%\{_/ && $1 != "%dir" { print package, $1 }' $spec |
        sed 's/%{_bindir}/usr\/bin/; s/%{_includedir}/usr\/include/; s/%{_libdir}/usr\/lib\/*/
            s/%{_mandir}\(.*[0-9]\)\*$/usr\/share\/man\1/; s/%{_mandir}/usr\/share\/man/
            s/%{_datadir}/usr\/share/; s/%{_modulesloaddir}/usr\/lib\/modules-load.d/
            s/%{_usrsrc}/usr\/src/; s/%{name}-%{version}/hmreg-VERSION/; s/site-functions/vendor-completions/' | sort -u
}

files_are_those_of_debian() {
    diff <(of_debian) <(of_spec)
}

# --without an option for each library that a build can lack.
optional_libraries_can_be_left_out() {
    local option bad=0
    for option in DOCS HWLOC OFI ROCR SIMULATED TOOLS ZE ZYDIS; do
        grep -q "^option(HMREG_$option " CMakeLists.txt && grep -q "%{option ${option,,} $option}" $spec ||
            { echo "$option" && bad=1; }
    done
    return $bad
}

# What pkg-config's other names would be is each distribution's.
parses() {
    local all without
    all=$(rpmspec -q --builtrpms --qf '%{name}\n' $spec | sort) &&
        without=$(rpmspec -q --builtrpms --qf '%{name}\n' --without ofi --without tools --without simulated $spec | sort) || return
    diff <(echo "$all") <(of_debian | sed -E "s/ .*//; s/^(lib.*)$ABI\$/\1/; s/-dev\$/-devel/" | sort -u) &&
        diff <(grep -vxE 'libhmreg-ofi|hmreg|hmreg-simulated' <<<"$all") <(echo "$without")
}

check rpm__version_agrees version_agrees
check rpm__files_are_those_of_debian files_are_those_of_debian
check rpm__optional_libraries_can_be_left_out optional_libraries_can_be_left_out
if command -v rpmspec >/dev/null; then
    check rpm__spec_parses_with_and_without_them parses
else
    skip rpm__spec_parses_with_and_without_them "rpmspec is not installed"
fi
finish
