# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Sourced by tests of documents: compiles the C code that they show.

languages=c11
[[ ! $CXX ]] || languages=c11_and_cxx20

# Code on the standard input, as C11 and, where a C++ compiler is installed, as C++20.
compiles_as_c_and_cxx() { # OPTION...
    local code
    # shellcheck disable=SC2046
    local strict=(-Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-unused-function -fsyntax-only
        "-I$SOURCE_DIR/include" "-I$BUILD_DIR/include" $(pkg-config --cflags libfabric libibverbs 2>/dev/null))
    code=$(cat)
    [[ $code ]] || return
    "$CC" -x c -std=c11 "${strict[@]}" "$@" - <<<"$code" || return
    [[ ! $CXX ]] || "$CXX" -x c++ -std=c++20 "${strict[@]}" "$@" - <<<"$code"
}

# The build lacks what this code needs.
lacks() { # CODE
    grep -q '<mpi\.h>' <<<"$1" && echo "MPI's compiler" && return
    grep -qE 'fi_[a-z]|hmreg/ofi' <<<"$1" && [[ " $COMPONENTS " != *' ofi '* ]] && echo ofi && return
    grep -q 'ibv_\|hmreg/verbs' <<<"$1" && [[ " $COMPONENTS " != *' verbs '* ]] && echo verbs
}
