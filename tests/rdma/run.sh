#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: `hmreg run` in front of a plain verbs program on a real RDMA device. While the program
# waits, the regions that the report counts are those that the kernel lists (rdma res).
. "$SOURCE_DIR/tests/package/cases.sh"
tool=$BUILD_DIR/tools/hmreg
program=$BUILD_DIR/tests/rdma/rdma_plain_verbs

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkfifo "$work/in" "$work/out"

"$tool" run --json --output "$work/report" --dir "$work/traces" "$program" <"$work/in" >"$work/out" 2>"$work/err" &
command=$!
exec 8>"$work/in" 9<"$work/out"
read -r pid <&9
"$tool" run --report "$work/traces" --json >"$work/meanwhile"
rdma resource show mr pid "$pid" >"$work/kernel"
exec 8>&-
wait "$command"
status=$?

# A process of Python would take seconds to start under emulation, for each value.
value() { # FILE NAME: the first of that name in the document, which is printed one to a line
    awk -v name="\"$2\":" '$1 == name && $2 !~ /^[[{]/ { gsub(/[",]/, "", $2); print $2; exit }' "$work/$1"
}

shows() { # FILE NAME RESULT
    local found
    found=$(value "$1" "$2")
    cat "$work/$1"
    echo "$2: $found, not $3"
    [[ $found && $found == "$3" ]]
}

# Soft-RoCE lists each region with its length.
kernel_count=$(grep -c ' mrlen ' "$work/kernel")
kernel_bytes=$(awk '{ for (i = 1; i < NF; i++) if ($i == "mrlen") sum += $(i + 1) } END { print sum }' "$work/kernel")

check run__program__its_exit_status test "$status" = 0
check run__program__nothing_on_standard_error test ! -s "$work/err"
check run__regions__as_many_as_the_kernel_has shows meanwhile left "$kernel_count"
check run__regions__as_long_as_the_kernels shows meanwhile left_bytes "$kernel_bytes"
check run__regions__ten test "$kernel_count" = 10
check run__meanwhile__running shows meanwhile state running
check run__meanwhile__its_pid shows meanwhile pid "$pid"
check run__end__registrations shows report registrations 20
check run__end__deregistrations shows report deregistrations 10
check run__end__failures shows report failures 1
check run__end__failure_is_explained shows report name EFAULT
check run__end__device shows report nic rxe0
finish
