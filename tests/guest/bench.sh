#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The guest as a command: its results, and its error if it cannot run.
. "$SOURCE_DIR/tests/package/cases.sh"
guest=$SOURCE_DIR/simulated/guest/guest

why=$("$SOURCE_DIR/simulated/guest/prepare" 6.1 2>&1) || {
    skip guest "${why##*cannot run here: }"
    finish
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ends STATUS "WORDS" COMMAND...
ends() {
    local expected=$1 words=$2 output status
    shift 2
    output=$("$@" 2>&1)
    status=$?
    echo "status $status: $output"
    ((status == expected)) && [[ $output == *"$words"* ]]
}

# Several cases check the output and status of one guest.
cat >"$work/ask" <<'END'
echo "args: $# $1"
pwd
echo "told: $TOLD, kernel $HMREG_GUEST: $(uname -r)"
ls /sys/class/infiniband /dev/softgpu
echo kept >"$OUT/kept"
echo lost >"$OUT/../lost"
read -r line || echo "no input"
date +'time: %s'
od -An -N8 -tx8 /dev/urandom >"$OUT/random"
exit 99
END
mkdir "$work/out"
began=$(date +%s)
(cd "$work" && TOLD='a "b" $c' OUT=$work/out exec "$guest" --out "$work/out" \
    bash ask 'one  argument' a\'b) >"$work/output" 2>&1 <<<input
answer=$?
"$guest" od -An -N8 -tx8 /dev/urandom >"$work/random" 2>&1

says() {
    cat "$work/output"
    grep -Fqx -- "$1" "$work/output"
}

lost() { [[ ! -e $work/lost ]]; }
has_log() { grep -q 'Linux version 6\.1\.' "$work/out/kernel.log"; }
# Guests go on from one saved state.
has_time() {
    local now=$(date +%s) then
    then=$(sed -n 's/^time: //p' "$work/output")
    echo "$then in the guest, between $began and $now"
    ((began <= then && then <= now))
}
differs() { [[ -s $work/random && -s $work/out/random ]] && ! cmp "$work/random" "$work/out/random"; }
has_release() { grep -Eq 'kernel 6\.1: 6\.1\.' "$work/output"; }

check guest__exit_status__comes_back test $answer == 99
check guest__arguments__arrive_as_they_are says 'args: 2 one  argument'
check guest__working_directory__is_the_callers says "$work"
check guest__environment__is_the_callers grep -Fq 'told: a "b" $c' "$work/output"
check guest__kernel__is_the_one_asked_for has_release
check guest__rdma_device__is_there says rxe0
check guest__softgpu__is_there says /dev/softgpu
check guest__input__is_empty says 'no input'
check guest__written_under_out__stays grep -q kept "$work/out/kept"
check guest__written_elsewhere__is_discarded lost
check guest__log_of_the_kernel__is_kept has_log
check guest__clock__is_right has_time
check guest__randomness__is_its_own differs
check guest__boot__same_kernel ends 0 6.1 "$guest" --boot uname -r

check guest__kernel_panics__125_and_its_last_words ends 125 'sysrq triggered crash' \
    "$guest" --bare sh -c 'echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger'
check guest__kernel_complains__success_is_125 ends 125 'WARNING: a test of the guest' \
    "$guest" --bare sh -c 'echo "WARNING: a test of the guest" >/dev/kmsg'
check guest__command_crashes__its_signal_is_told ends 139 'Segmentation fault' \
    "$guest" --bare --memory=512 sh -c 'kill -SEGV $$'
check guest__time_limit__124 ends 124 'at the time limit' "$guest" --time-limit 1 --bare true

check guest__no_command__teaches ends 125 'usage: ./run guest' "$guest"
check guest__unknown_option__teaches ends 125 'no such option: --fly' "$guest" --fly true
check guest__unknown_kernel__says_which ends 125 'there are 6.1, 6.12 and' "$guest" --kernel 5 true
check guest__option_without_value__says_so ends 125 'lacks its value' "$guest" --kernel
check guest__memory_no_number__says_so ends 125 "--memory is 'much'" "$guest" --memory much true
check guest__help__teaches ends 0 '--time-limit S' "$guest" --help

mkdir "$work/tools"
ln -s /usr/bin/* /usr/sbin/* "$work/tools/" 2>/dev/null
rm "$work/tools/qemu-system-x86_64"
check guest__tool_missing__says_how_to_get_it \
    ends 125 'cannot run here: no qemu-system-x86_64; as root: ./run setup guest' \
    env PATH="$work/tools" "$guest" true
finish
