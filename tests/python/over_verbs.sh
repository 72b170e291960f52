#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: the Python package on a protection domain of pyverbs, over Soft-RoCE. over_verbs.sh PYTHON
. "$SOURCE_DIR/tests/package/cases.sh"
if ! "$1" -c 'import pyverbs.qp' 2>/dev/null; then
    # This guest skips nothing else.
    HMREG_TEST_NO_SKIP=0 skip python_over_verbs "no pyverbs: Debian's package python3-pyverbs"
    finish
fi
check python_over_verbs__token__reaches_the_other_process "$1" -B "$SOURCE_DIR/tests/python/over_verbs.py" rxe0
finish
