#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: the Python package on a protection domain of pyverbs, over Soft-RoCE. over_verbs.sh PYTHON, or Debian's
# own Python, if that has pyverbs and PYTHON is another.
. "$SOURCE_DIR/tests/package/cases.sh"
for python in "$1" /usr/bin/python3; do
    "$python" -c 'import pyverbs.qp' 2>/dev/null && break
    python=
done
if [[ ! $python ]]; then
    # This guest skips nothing else.
    HMREG_TEST_NO_SKIP=0 skip python_over_verbs "no pyverbs: Debian's package python3-pyverbs"
    finish
fi
check python_over_verbs__token__reaches_the_other_process "$python" -B "$SOURCE_DIR/tests/python/over_verbs.py" rxe0
finish
