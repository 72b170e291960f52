#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# hmreg.hpp and the examples in it: each compiler, as C++17 and C++20, has no warning, without exceptions and RTTI;
# the examples do what those in C do.
. "$(dirname "$0")/cases.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

strict=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -fno-exceptions -fno-rtti -Werror
    "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include")
libraries=(-L"$BUILD_DIR/core" -L"$BUILD_DIR/providers" -lhmreg-ofi -lhmreg -lfabric
    "-Wl,-rpath,$BUILD_DIR/core:$BUILD_DIR/providers")
examples=(1-host-over-libfabric/host 2-device-memory/device)

# Containers, a span, an array, a pointer; owners and pointers of C as arguments; every call.
cat >"$work/uses.cpp" <<'END'
#include <hmreg/hmreg.hpp>
#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <string>
#if __cplusplus > 202000L
#include <span>
#endif

static int all(hmr::ref<hmreg_domain> domain, const hmr::library &lib)
{
    std::vector<int> vector(1000);
    const std::string string("bytes");
    double array[50] = {};
    if (!hmr::get(domain, vector, HMREG_SEND) || !hmr::get(domain, string, HMREG_SEND) ||
        !hmr::get(domain, array, HMREG_RECV) || !hmr::get(domain, {array, 8}, HMREG_RECV))
        return 2;
    auto again = hmr::try_get(domain, vector, HMREG_SEND);
    if (again.error ? again.error.code != -EAGAIN : !again.value)
        return 9;
    if (again && !hmreg_mr_try_put(again.value.get()))
        static_cast<void>(again.value.release());
    if (hmr::try_get(domain, {array, 4}, HMREG_SEND).error.code != -EAGAIN)
        return 10;
    if (hmr::range(array).len != 400 || hmr::range(vector).len != 4000)
        return 3;
#if __cplusplus > 202000L
    if (hmr::range(std::span(vector).first(10)).len != 40)
        return 4;
#endif
    auto region = hmr::reg(domain, vector, HMREG_REMOTE_WRITE);
    auto token = hmr::pack(region.value);
    auto part = hmr::pack(region.value, {&vector[1], 4});
    auto remote = hmr::open_remote(domain, token.value);
    auto place = hmr::address(remote.value, 4, 4);
    if (!region || !token || !part || !remote || !place)
        return 5;
    vector[0] = 7;
    if (hmreg_loopback_write(remote.value.get(), vector.data(), 4, nullptr, place.value.addr, place.value.key) ||
        vector[1] != 7)
        return 6;
    auto outside = hmr::address(remote.value, 4000, 4);
    if (outside || outside.error.code != -ERANGE || !*outside.error.text())
        return 7;
    return hmr::stats(domain).value.misses == 3 && hmr::query(lib, vector) && hmr::explain(region.value) ? 0 : 8;
}

int main()
{
    auto lib = hmr::open();
    auto domain = hmr::open_domain(hmreg_domain_open_loopback, lib.value, nullptr, nullptr);
    hmreg_domain *member = domain.value.get();
    auto group = hmr::open_domain(hmreg_group_open, lib.value, &member, 1u, nullptr);
    auto memory = hmr::allocate(lib.value, HMREG_IFACE_SYSTEM, -1, HMREG_MEM_HOST, 4096);
    return domain && group && memory ? all(domain.value, lib.value) : 1;
}
END

compiles() { # COMPILER STANDARD SOURCE
    "$1" "-std=$2" "${strict[@]}" -fsyntax-only "$3"
}

runs() { # COMPILER STANDARD
    "$1" "-std=$2" "${strict[@]}" "$work/uses.cpp" -o "$work/uses" -L"$BUILD_DIR/core" -L"$BUILD_DIR/providers" \
        -lhmreg-loopback -lhmreg "-Wl,-rpath,$BUILD_DIR/core:$BUILD_DIR/providers" && "$work/uses"
}

# The example in C++ ends as that in C and has its lines.
does_the_same() { # NAME
    local name=${1%/*} line
    "$CXX" -std=c++17 "${strict[@]}" -c "$SOURCE_DIR/examples/$1.cpp" -o "$work/main.o" &&
        "$CC" -D_GNU_SOURCE "${strict[@]:7}" -c "$SOURCE_DIR/examples/common/endpoint.c" -o "$work/endpoint.o" &&
        "$CXX" "$work"/{main,endpoint}.o "${libraries[@]}" -o "$work/example" || return
    export LD_LIBRARY_PATH=$BUILD_DIR/simulated/cuda
    "$BUILD_DIR/examples/$name" >"$work/c" && "$work/example" >"$work/cxx" || { cat "$work"/c "$work"/cxx && return 1; }
    while read -r line; do
        grep -qF -- "$line" "$work/c" || { echo "not of the example in C: $line" && return 1; }
    done < <(sed -E 's/^.*(: device memory)/\1/; s/^ *//' "$work/cxx")
    cat "$work/cxx"
}

for compiler in g++ clang++; do
    if ! command -v $compiler >/dev/null; then
        skip "cxx__$compiler" "$compiler is not installed"
        continue
    fi
    for standard in c++17 c++20; do
        check "cxx__${compiler}_${standard}__uses" compiles $compiler $standard "$work/uses.cpp"
        for example in "${examples[@]}"; do
            [[ " $COMPONENTS " == *" ofi "* ]] || continue
            check "cxx__${compiler}_${standard}__${example##*/}" compiles $compiler $standard \
                "$SOURCE_DIR/examples/$example.cpp"
        done
    done
done
if [[ $SANITIZE || ! $CXX ]]; then
    skip cxx__runs "the library has a sanitizer, or no C++ compiler is installed"
else
    check cxx__runs_as_cxx17 runs "$CXX" c++17
    check cxx__runs_as_cxx20 runs "$CXX" c++20
    for example in "${examples[@]}"; do
        [[ -x $BUILD_DIR/examples/${example%/*} ]] || continue
        check "cxx__${example##*/}__does_the_same" does_the_same "$example"
    done
fi
finish
