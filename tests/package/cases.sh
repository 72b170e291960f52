# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Sourced by the tests of this folder: cases with the output of tests/support/test.h.
set -uo pipefail

passed=0 failed=0 skipped=0

# check NAME COMMAND...: one case, passed if the command succeeds; a failure shows its output.
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "[       OK ] $name"
        ((++passed))
    else
        echo "[  FAILED  ] $name: $*"
        echo "$output" | sed 's/^/    /'
        ((++failed))
    fi
}

skip() { # NAME WHY
    echo "[  SKIPPED ] $1"
    if [[ ${HMREG_TEST_NO_SKIP-} == 1 ]]; then
        echo "    would be skipped, and skips are failures here: $2"
        ((++failed))
    else
        echo "SKIPPED because: $2"
        ((++skipped))
    fi
}

# For check: a command succeeds, or fails, and prints these words.
says() { # WORDS COMMAND...
    local words=$1 output
    shift
    output=$("$@" 2>&1) || { echo "$output" && return 1; }
    echo "$output"
    [[ $output == *"$words"* ]]
}

fails() { # WORDS COMMAND...
    local words=$1 output
    shift
    ! output=$("$@" 2>&1) || return
    echo "$output"
    [[ $output == *"$words"* ]]
}

# Without a process of its own, which under emulation takes its time.
tcp_is_listening() { # PORT
    local port file at state
    printf -v port :%04X "$1"
    for file in /proc/net/tcp{,6}; do
        while read -r _ at _ state _; do
            [[ $at == *"$port" && $state == 0A ]] && return
        done <$file
    done
    return 1
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed)) && exit 1
    ((passed)) && exit 0
    ((skipped)) && exit 77
    exit 1
}
