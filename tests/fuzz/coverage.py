# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prints which share of lines and branches of some files a target executed, from llvm-cov's export on
stdin: coverage.py TARGET TREE BEGINNING..., of the files' names in the tree."""

import json
import os
import sys

target, tree, *beginnings = sys.argv[1:]
files = [(os.path.relpath(entry["filename"], tree), entry["summary"])
         for entry in json.load(sys.stdin)["data"][0]["files"]]
totals = {"lines": [0, 0], "branches": [0, 0]}
for beginning in beginnings:
    matched = [summary for name, summary in files if name.startswith(beginning)]
    if not matched:
        sys.exit(f"fuzz: {target} executes no file whose name begins with {beginning}")
    for summary in matched:
        for kind, total in totals.items():
            total[0] += summary[kind]["covered"]
            total[1] += summary[kind]["count"]


def share(kind):
    covered, count = totals[kind]
    return f"{100 * covered / max(count, 1):5.1f} % of {count} {kind}"


print(f"{target:12} {share('lines')}, {share('branches')}")
