# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prints which share of lines and branches of some files a target executed, from llvm-cov's export on
stdin: coverage.py TARGET PATTERN."""

import json
import os
import re
import sys

target, pattern = sys.argv[1:]
totals = {"lines": [0, 0], "branches": [0, 0]}
for entry in json.load(sys.stdin)["data"][0]["files"]:
    if not re.match(pattern, os.path.normpath(entry["filename"])):
        continue
    for kind, total in totals.items():
        total[0] += entry["summary"][kind]["covered"]
        total[1] += entry["summary"][kind]["count"]
lines, branches = totals["lines"], totals["branches"]
print(f"{target:12} {100 * lines[0] / lines[1]:5.1f} % of {lines[1]} lines, "
      f"{100 * branches[0] / branches[1]:5.1f} % of {branches[1]} branches")
