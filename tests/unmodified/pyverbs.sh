#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: rdma-core's own tests of libibverbs, in Python, which Debian's package python3-pyverbs has among
# its documents, over Soft-RoCE, as they are and in `hmreg run` with each option: each test ends alike, and the report
# has as many registrations as the kernel made.
. "$SOURCE_DIR/tests/package/cases.sh"
. "$SOURCE_DIR/tests/unmodified/kernel.sh"
hmreg=$BUILD_DIR/tools/hmreg
python=/usr/bin/python3 # the distribution's
documents=/usr/share/doc/rdma-core/tests

if [[ ! -e $documents/run_tests.py ]] || ! $python -c 'import pyverbs.mr' 2>/dev/null; then
    # This guest skips nothing else.
    HMREG_TEST_NO_SKIP=0 skip pyverbs "no $documents, or no pyverbs: Debian's package python3-pyverbs"
    finish
fi
work=$(mktemp -d)
kernel_starts_counting || exit 1
trap 'kernel_stops_counting; rm -rf "$work"' EXIT
cp -r "$documents" "$work/tests" && gunzip -rq "$work/tests" && cd "$work" || exit 1

# MODE [COMMAND...]: how each test ended under the command, in order: none after one that a signal ended.
# test_resize_cq is left out: without us too it fails where its datagrams are not sent by the time it looks.
ends() {
    local mode=$1
    shift
    "$@" $python tests/run_tests.py --dev rxe0 --gid 1 -v >"$mode.out" 2>&1 </dev/null
    awk '/^test/ { name = $1 " " $2 }
         / \.\.\. (ok|skipped|FAIL|ERROR)/ && name !~ /test_resize_cq/ { sub(/.* \.\.\. /, ""); print name, $1 }' \
        <"$mode.out" >"$mode.ends"
}

# Or the test of it is worth nothing.
registers() {
    echo "$(<plain.out)"
    grep -q '^test_mr_rereg_addr ' plain.ends && (($(grep -c ' ok$' plain.ends) > 50))
}

alike() { # MODE
    mkdir "$1.before" "$1.after"
    kernel_counts "$1.before"
    ends "$1" "$hmreg" run "--$1" --json --output "$1.report" --
    kernel_counts "$1.after"
    echo "$(<"$1.out")"
    echo "$(<"$1.report")"
    diff -u plain.ends "$1.ends"
}

calls() { # FILE
    awk '{ calls += $1 } END { print calls + 0 }' "$1"
}

# Without ibv_rereg_mr(), which is no registration of the kernel's.
reported_as_made() { # MODE
    local reported made
    reported=$(jq '[.processes[].registrations[] | select(.call != "ibv_rereg_mr") | .count] | add // 0' "$1.report")
    made=$(($(calls "$1.after/made") - $(calls "$1.before/made")))
    echo "reported: $reported, by the kernel: $made"
    ((reported == made && made > 50))
}

ends plain
check pyverbs__plain__registers registers
for mode in trace gpu; do
    check "pyverbs__${mode}__each_test_ends_as_without_us" alike $mode
    check "pyverbs__${mode}__registrations_as_the_kernel_counts" reported_as_made $mode
done
finish
