#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# lives.sh LIFE [MONITOR...]: in the guest, a process (life.c) is saved by CRIU and goes on; from the image two clones
# are restored. Each is a life with tokens of its own, in which no region serves that was cached before. A process with
# one of the monitors named CRIU does not save.
. "$SOURCE_DIR/tests/package/cases.sh"
. "$SOURCE_DIR/tests/criu/criu.sh"
program=$1
shift

begin() { # MONITOR
    HMREG_STATS=off FI_MR_CACHE_MONITOR=$1 setsid "$program" "$work/life" </dev/null >/dev/null 2>&1 &
    process=$!
    processes+=($process)
    await life/first $process
}

value() { # REPORT NAME [N]: the first value of that name, or the Nth
    awk -v name="$2" -v n="${3:-1}" '$1 == name && !--n { print $2; exit }' "$work/$1"
}

has() { # REPORT NAME VALUE [N]
    local found
    found=$(value "$1" "$2" "${4:-1}")
    cat "$work/$1"
    [[ $found == "$3" ]]
}

differ() { # VALUE...
    printf '%s\n' "$@"
    (($(printf '%s\n' "$@" | sort -u | wc -l) == $#))
}

is_whole() { # REPORT PID
    await "$1" "$2" || { why_criu_failed "${1%/*}"; return 1; }
    cat "$work/$1"
    grep -qx complete "$work/$1"
}

mkdir "$work"/{life,one,two}
# Before CRIU 4.2, and before Linux 6.11, images have all memory, in which a life does not notice that it is another at
# a get that its thread's table serves (docs/lives.md): there it packs a token first.
order=token
if [[ $HMREG_GUEST != 6.1 ]] && printf '%s\n' 4.2 "$(criu_version)" | sort -CV; then
    order=get
fi
echo token >"$work/one/go"
echo $order >"$work/two/go"

begin memhooks
check first__loopback__cached is_whole life/first $process
check save__memhooks__goes_on save $process --leave-running
((failed)) && finish
first=$process
echo token >"$work/life/go"
check saved__goes_on__the_same_life is_whole life/again $first
check saved__its_token__of_the_same_registration has life/again state 0
check saved__its_cached_region__serves has life/again registered 0
for name in one two; do
    restore $name
    check "restored_${name}__in_other_namespaces__goes_on" is_whole $name/again "${processes[-1]}"
    check "restored_${name}__a_remote_of_before__is_of_another_life" has $name/again state 3
    check "restored_${name}__first_get__registers" has $name/again registered 1
    check "restored_${name}__second_get__served_by_the_cache" has $name/again registered 0 2
done
check token__of_three_lives__differ differ \
    "$(value life/first token)" "$(value one/again token)" "$(value two/again token)"
check token__of_the_life_that_went_on__as_before test "$(value life/first token)" = "$(value life/again token)"
rm -r "$work/images"

for monitor; do
    rm -f "$work"/life/*
    begin "$monitor"
    check "save__${monitor}__refused" fails "Can't" save $process
done
finish
