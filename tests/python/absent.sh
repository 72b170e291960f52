#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In place of the tests of the Python package, where it is not built.
. "$SOURCE_DIR/tests/package/cases.sh"
skip python_package "this build is without the Python package (Debian's python3-dev, of Python 3.11 or later)"
finish
