#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Installs into a prefix of its own, and uses it as a user does: by find_package() with and without
# components, by pkg-config, the command by its path. Then moves the prefix and repeats all of it.
. "$(dirname "$0")/cases.sh"

if [[ $SANITIZE ]]; then
    skip package__consumers "a library with -fsanitize=$SANITIZE is for programs built alike"
    finish
fi

consumer=$(dirname "$(readlink -f "$0")")/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

configures() { # a CMake consumer, with these options
    "$CMAKE" -G Ninja -S "$consumer" -B "$work/cmake" --fresh -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_PREFIX_PATH="$prefix" "$@"
}

by_cmake() { # with these components
    local program with
    printf -v with '%s;' "$@"
    configures "-DWITH=${with%;}" && "$CMAKE" --build "$work/cmake" || return
    for program in hmreg "$@"; do
        [[ $("$work/cmake/$program") == "$VERSION" ]] || return
    done
}

by_pkg_config() { # a module and the consumer of its name
    local -x PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig
    [[ $(pkg-config --modversion "$1") == "$VERSION" ]] || return
    # shellcheck disable=SC2046
    "$CC" -o "$work/program" "$consumer/${1#hmreg-}.c" $(pkg-config --cflags --libs "$1") || return
    [[ $(LD_LIBRARY_PATH=$prefix/$LIBDIR "$work/program") == "$VERSION" ]]
}

# Every document for users, and the targets of its links.
documents_are_whole() {
    local doc=$prefix/share/doc/hmreg document link bad=0 found=0
    diff <(cd "$SOURCE_DIR" && find README.md docs examples -name '*.md' | sort) \
        <(cd "$doc" && find README.md docs examples -name '*.md' | sort) || bad=1
    while IFS=: read -r document link; do
        ((++found))
        [[ $(readlink -f "${document%/*}/$link") == "$doc"/* && -e ${document%/*}/$link ]] && continue
        echo "${document#"$doc"/}: $link is not installed"
        bad=1
    done < <(grep -rHoE '\]\([^):#]+' --include='*.md' "$doc" | sed 's/:\](/:/')
    ((found > 50 && !bad))
}

examples_are_a_project() {
    "$CMAKE" -G Ninja -S "$prefix/share/doc/hmreg/examples" -B "$work/examples" --fresh -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_PREFIX_PATH="$prefix" && "$CMAKE" --build "$work/examples" || return
    local program
    for program in "$work"/examples/[0-9]*-*; do
        ldd "$program" | grep "libhmreg.so.* => $prefix/" || return
    done
}

# The compiler commands of examples/README.md.
examples_compile_as_documented() {
    local -x PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig
    local line compiled=0
    while read -r line; do
        ((++compiled))
        (cd "$prefix/share/doc/hmreg/examples" && eval "$CC -Wall -Wextra -Werror ${line#cc } -o $work/program") || return
    done < <(grep -E "^cc .*hmreg-(${COMPONENTS// /|})\)" "$prefix/share/doc/hmreg/examples/README.md")
    ((compiled))
}

command_runs() {
    local said
    said=$(env -u LD_LIBRARY_PATH "$prefix/bin/hmreg" --version) && echo "$said" || return
    [[ " $said " == *" $VERSION "* ]]
}

refuses() { # WORDS OPTION...: the package is not found, and says why
    local words=$1 output
    shift
    ! output=$(configures "$@" 2>&1) || return
    echo "$output"
    [[ $(tr -s ' \n' ' ' <<<"$output") == *"$words"* ]] # however CMake folded it
}

# No package file contains the folder of the build or of the first installation.
names_no_place() {
    ! grep -rIF -e "$work" -e "$BUILD_DIR" -e "$SOURCE_DIR" "$prefix" || return
    local file
    for file in "$prefix/$LIBDIR"/*.so "$prefix"/bin/*; do
        [[ ! -e $file ]] || ! readelf -d "$file" | grep -E 'R(UN)?PATH.*(\[|:)/' || return
    done
}

headers_are_those_of_components() {
    local expected
    expected=$(printf '%s.h\n' hmreg cache group hibernate job lost plan region remote suspend table version $COMPONENTS)
    diff <(printf '%s\n' "$expected" hmreg.hpp | sort) <(ls "$prefix/include/hmreg" | sort)
}

pages_are_those_of_components() {
    local man=$prefix/share/man component
    [[ -s $man/man3/hmreg_open.3 && -s $man/man7/hmreg.7 ]] || return
    [[ -e $man/man1/hmreg.1 || $TOOL == 0 ]] || return
    for component in loopback ofi verbs; do
        [[ " $COMPONENTS " == *" $component "* ]] && echo "$component"
    done | diff - <(cd "$man/man3" && ls | sed -n 's/^hmreg_domain_open_\(loopback\|ofi\|verbs\)\.3$/\1/p')
}

versions_agree() {
    grep -F "\"$VERSION\"" "$prefix/include/hmreg/version.h" &&
        [[ -f $prefix/$LIBDIR/libhmreg.so.$ABI.$VERSION ]] &&
        configures -DEXACT="$VERSION"
}

# Of the same first two numbers, and no newer than what is installed.
same_minor_satisfies() {
    configures -DAT_LEAST="${VERSION%.*}" && configures -DAT_LEAST="$VERSION"
}

# Whatever the umask of who installs, only the owner can write; others can read unless the umask forbids it.
rights_are_right() { # UMASK
    local root=$work/staged
    rm -rf "$root"
    (umask "$1" && DESTDIR=$root "$CMAKE" --install "$BUILD_DIR" --prefix /opt/hmreg >/dev/null) || return
    ! find "$root/opt" ! -type l -perm /7022 -printf 'may be written: %P %m\n' | grep . || return
    [[ $1 != 0077 ]] || return 0
    ! find "$root/opt" ! -type l ! -perm -444 -printf 'cannot be read: %P %m\n' | grep . &&
        ! find "$root/opt" \( -type d -o -path '*/bin/*' -type f \) ! -perm -555 -printf 'cannot be used: %P %m\n' | grep .
}

everything() { # WHERE, for the names of the cases
    check "package_$1__cmake" by_cmake
    check "package_$1__cmake_components" by_cmake $COMPONENTS
    check "package_$1__pkg_config" by_pkg_config hmreg
    for component in $COMPONENTS; do
        check "package_$1__pkg_config_$component" by_pkg_config "hmreg-$component"
    done
    if [[ $COMPONENTS == *@(ofi|verbs)* ]]; then # the others have no example
        check "package_$1__examples_are_a_project" examples_are_a_project
        check "package_$1__examples_compile_as_told" examples_compile_as_documented
    fi
    [[ $TOOL == 0 ]] || check "package_$1__command" command_runs
    check "package_$1__documents_are_whole" documents_are_whole
    check "package_$1__names_no_place" names_no_place
}

prefix=$work/first
check package__installs "$CMAKE" --install "$BUILD_DIR" --prefix "$prefix"
check package__headers_are_those_of_components headers_are_those_of_components
[[ $DOCS == 0 ]] || check package__pages_are_those_of_components pages_are_those_of_components
check package__versions_agree versions_agree
check package__find_package_of_this_minor_version__satisfied same_minor_satisfies
earlier=${VERSION%.*}
earlier=${earlier%.*}.$((${earlier#*.} - 1))
check package__find_package_of_an_earlier_minor_version__refused refuses "version: $VERSION" -DAT_LEAST="$earlier"
for mask in 0000 0002 0077; do
    check "package__umask_${mask}__rights_are_right" rights_are_right $mask
done
check package__licences_are_there test -s "$prefix/share/doc/hmreg/LICENSES/BSD-2-Clause.txt"
everything installed

mv "$prefix" "$work/second"
prefix=$work/second
everything moved

check package__unknown_component__says_so refuses "no component 'roce'" -DWITH=roce
check package__other_version__says_so refuses "version: $VERSION" -DEXACT=99.0.0
for component in $COMPONENTS; do
    rm "$prefix/$LIBDIR/cmake/hmreg/hmreg-${component}Targets.cmake"
done
check package__missing_component__says_so refuses "without its component 'ofi'" -DWITH=ofi
finish
