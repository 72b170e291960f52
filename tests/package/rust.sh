#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# rust/: the declarations against the headers, and the crates built and tested without a network, on what is installed.
# rust.sh CARGO: "" if there is none, or none that builds for this library.
. "$(dirname "$0")/cases.sh"
cargo=${1-}
rust=$SOURCE_DIR/rust
work=$BUILD_DIR/rust
mkdir -p "$work"

declares_what_the_headers_do() { # BINDINGS
    python3 -B "$SOURCE_DIR/tests/package/bindings.py" "$1" "$SOURCE_DIR"/include/hmreg/*.h >"$work/bindings.c" &&
        "$CC" -fsyntax-only -Wall -I"$BUILD_DIR/include" -I"$SOURCE_DIR/include" "$work/bindings.c"
}

# One that differs in a field, a parameter, a value.
tells_a_difference() {
    local change
    for change in 's/pub fork_max_bytes: u64/pub fork_max_bytes: u32/' 's/key_size: \*mut usize/key_size: *mut u32/' \
        's/\(HMREG_REMOTE_WRITE: .*\) = 8192/\1 = 4096/' 's/pub reg_ns: u64,//' '/pub fn hmreg_mr_put/d'; do
        sed "$change" "$rust/hmreg-sys/src/bindings.rs" >"$work/other.rs"
        ! cmp -s "$rust/hmreg-sys/src/bindings.rs" "$work/other.rs" || { echo "no change: $change" && return 1; }
        ! declares_what_the_headers_do "$work/other.rs" >"$work/told" 2>&1 ||
            { echo "not told: $change" && return 1; }
    done
}

bindgen_prints_it() {
    "$rust/hmreg-sys/generate" >"$work/bindings.rs" && diff "$rust/hmreg-sys/src/bindings.rs" "$work/bindings.rs"
}

# Debian's cargo runs Debian's compiler, whatever rustc comes first in PATH.
run_cargo() {
    local -x CARGO_HOME=$work/home CARGO_TARGET_DIR=$work/target CARGO_PROFILE_DEV_DEBUG=0 RUSTFLAGS='-D warnings'
    local -x PKG_CONFIG_PATH=$work/prefix/$LIBDIR/pkgconfig LD_LIBRARY_PATH=$work/prefix/$LIBDIR CARGO_INCREMENTAL=0
    [[ ! -x ${cargo%/*}/rustc ]] || local -x RUSTC=${cargo%/*}/rustc
    (cd "$rust" && "$cargo" "$1" --quiet --frozen "${@:2}")
}

installs() {
    rm -rf "$work/prefix"
    "$CMAKE" --install "$BUILD_DIR" --prefix "$work/prefix"
}

versions_agree() {
    local crate
    for crate in hmreg-sys hmreg example-endpoint; do
        grep -qx "version = \"$VERSION\"" "$rust/$crate/Cargo.toml" || { echo "$crate is not $VERSION" && return 1; }
    done
    grep -F "hmreg-sys = { path = \"../hmreg-sys\", version = \"$VERSION\" }" "$rust/hmreg/Cargo.toml"
}

examples_are_safe() {
    local example
    for example in "$rust"/*/examples/*.rs; do
        grep -qx '#!\[forbid(unsafe_code)\]' "$example" || { echo "$example" && return 1; }
    done
}

# The code that the document shows is lines of the example, without comments.
document_shows_the_example() {
    local line shown=0
    while read -r line; do
        ((++shown))
        grep -qF "$line" "$rust/hmreg/examples/loopback.rs" || { echo "$line" && return 1; }
    done < <(awk '/^```rust$/ { code = 1; next } /^```/ { code = 0 } code' "$SOURCE_DIR/docs/rust.md" |
        sed 's/ *\/\/.*//' | grep .)
    ((shown > 5))
}

check rust__versions_agree versions_agree
check rust__document_shows_the_example document_shows_the_example
check rust__examples_forbid_unsafe_code examples_are_safe
names=(rust__bindings_declare_what_the_headers_do rust__bindings_that_differ_are_told)
if [[ " $COMPONENTS " != *' ofi '* || " $COMPONENTS " != *' verbs '* ]]; then
    for name in "${names[@]}"; do skip "$name" "this build is without libfabric or verbs"; done
elif ! command -v python3 >/dev/null; then
    for name in "${names[@]}"; do skip "$name" "python3 is not installed"; done
else
    check "${names[0]}" declares_what_the_headers_do "$rust/hmreg-sys/src/bindings.rs"
    check "${names[1]}" tells_a_difference
fi
if [[ $(bindgen --version 2>&1) == 'bindgen 0.60.1' ]]; then
    check rust__bindings_are_bindgens bindgen_prints_it
else
    skip rust__bindings_are_bindgens "bindgen 0.60.1 of Debian 12 is not what is installed"
fi

names=(rust__installs rust__cargo_test rust__example_loopback rust__example_host)
if [[ ! $cargo ]]; then
    for name in "${names[@]}"; do skip "$name" "cargo is not installed, or the library is for other programs"; done
    finish
fi
check rust__installs installs
check rust__cargo_test run_cargo test --tests
check rust__example_loopback says 'written by a peer' run_cargo run --example loopback
if [[ " $COMPONENTS " == *' ofi '* ]]; then
    check rust__example_host says 'tcp: written through the fabric' run_cargo run -p example-endpoint --example host
else
    skip rust__example_host "this build is without libfabric"
fi
finish
