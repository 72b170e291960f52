#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The wheel and the sdist, built offline from an installation: what the wheel has, that its tag is true, and that both
# are imported and work. wheel.sh PYTHON
. "$SOURCE_DIR/tests/package/cases.sh"
python=$1
if ! "$python" -c 'import setuptools, wheel' 2>/dev/null; then
    skip python_wheel "Python has no setuptools or no wheel (Debian's python3-setuptools, python3-wheel)"
    finish
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
export PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig HMREG_BUNDLE=1

# In a copy: setuptools writes beside its sources.
builds() {
    "$CMAKE" --install "$BUILD_DIR" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log" && return 1; }
    mkdir "$work/tree" && cp -r "$SOURCE_DIR/python" "$SOURCE_DIR/CMakeLists.txt" "$work/tree" && cd "$work/tree/python" &&
        unshare_net "$python" setup.py -q sdist bdist_wheel && mv dist/* "$work"
}

unshare_net() { # COMMAND: without a network, where this user may do so
    if unshare --net true 2>/dev/null; then
        unshare --net "$@"
    else
        "$@"
    fi
}

# Nothing of other projects; libraries of the fabrics that the build has.
has_what_it_should() {
    local expected component
    expected=$(printf 'hmreg/%s\n' __init__.py __init__.pyi py.typed _hmreg.abi3.so "libhmreg.so.$ABI"
        for component in $COMPONENTS; do
            [[ $component == affinity ]] || echo "hmreg/libhmreg-$component.so.$ABI"
        done)
    "$python" -m zipfile -l "$work"/*.whl | awk '$1 ~ /^hmreg\// { print $1 }' | sort | diff <(sort <<<"$expected") -
}

# Each file's newest symbol of glibc is not newer than the tag, and one has that of the tag; of the C++ and other
# runtimes that the tag limits there is none.
tag_is_true() {
    local tag versions
    tag=$(basename "$work"/*.whl | sed -nE 's/^hmreg-.*-cp311-abi3-manylinux_([0-9]+)_([0-9]+)_.*$/\1.\2/p')
    versions=$(objdump -T "$work"/site/hmreg/*.so* | grep -oE '\b(GLIBC|GLIBCXX|CXXABI|GCC|OPENSSL|ZLIB)_[0-9.]+' | sort -Vu)
    echo "tag $tag; $versions"
    [[ $tag ]] && ! grep -vqE '^GLIBC_' <<<"$versions" &&
        [[ $(grep '^GLIBC_' <<<"$versions" | tail -n 1) == "GLIBC_$tag"?(.*) ]]
}

# pip, where it is installed; a wheel is an archive.
install_wheel() {
    "$python" -m pip install -q --no-index --no-deps --target "$work/site" "$work"/*.whl 2>"$work/log" ||
        "$python" -m zipfile -e "$work"/*.whl "$work/site"
}

# The tests of the package, on the wheel alone.
works() {
    mv "$prefix" "$prefix.away"
    PYTHONPATH=$work/site "$python" -B "$SOURCE_DIR/tests/python/run.py" objects
    local status=$?
    PYTHONPATH=$work/site "$python" -B -c 'import hmreg, sys; sys.exit(not hmreg.__file__.startswith(sys.argv[1]))' "$work/site" ||
        status=1
    mv "$prefix.away" "$prefix"
    return $status
}

sdist_builds() {
    mkdir "$work/sdist" && tar -x -C "$work/sdist" --strip-components=1 -f "$work"/hmreg-"$VERSION".tar.gz &&
        cd "$work/sdist" && HMREG_BUNDLE=0 "$python" setup.py -q build_ext --inplace &&
        LD_LIBRARY_PATH=$prefix/$LIBDIR PYTHONPATH=$work/sdist "$python" -B -c \
            'import hmreg, sys; hmreg.open().loopback(); sys.exit(hmreg.version != sys.argv[1])' "$VERSION"
}

check wheel__builds builds
check wheel__installs install_wheel
check wheel__has_what_it_should has_what_it_should
check wheel__tag_is_true tag_is_true
check wheel__works works
check sdist__builds sdist_builds
finish
