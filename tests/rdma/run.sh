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
rdma resource show mr pid "$pid" -j >"$work/kernel"
rdma resource show mr pid "$pid" >"$work/kernel.txt"
exec 8>&-
wait "$command"
status=$?

value() { # FILE EXPRESSION, in Python: d is the document
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"
}

shows() { # FILE EXPRESSION RESULT
    local found
    found=$(value "$work/$1" "$2")
    echo "$2: $found, not $3"
    [[ $found == "$3" ]]
}

totals='d["processes"][0]["totals"]'
# Soft-RoCE lists each region with its length.
kernel_count=$(value "$work/kernel" 'len(d)')
kernel_bytes=$(value "$work/kernel" 'sum(r["mrlen"] for r in d)')

check run__program__its_exit_status test "$status" = 0
check run__program__nothing_on_standard_error test ! -s "$work/err"
check run__regions__as_many_as_the_kernel_has shows meanwhile "${totals}['left']" "$kernel_count"
check run__regions__as_long_as_the_kernels shows meanwhile "${totals}['left_bytes']" "$kernel_bytes"
check run__regions__ten test "$kernel_count" = 10
check run__meanwhile__running shows meanwhile 'd["processes"][0]["state"]' running
check run__meanwhile__its_pid shows meanwhile 'd["processes"][0]["pid"]' "$pid"
check run__end__registrations shows report "${totals}['registrations']" 20
check run__end__deregistrations shows report "${totals}['deregistrations']" 10
check run__end__failures shows report "${totals}['failures']" 1
check run__end__failure_is_explained \
    shows report "d['processes'][0]['failures'][0]['name']" EFAULT
check run__end__device shows report "d['processes'][0]['registrations'][0]['nic']" rxe0
finish
