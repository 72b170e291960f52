#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the tests of a build of the preset coverage executed: coverage.py BUILD_DIR.

Prints lines and branches for each folder of the library and the tools, and writes them, with each
file's, to BUILD_DIR/coverage.json. Uses gcov(1) alone.
"""
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOTS = ("core", "hmem", "providers", "tools")


def objects(build):
    """Each object compiled from a source under ROOTS, relative to build."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        commands = json.load(file)
    tree = os.path.dirname(os.path.dirname(build))
    found = ((re.search(r" -o (\S+)", c["command"])[1], os.path.relpath(c["file"], tree)) for c in commands)
    return [output for output, source in found if source.split("/")[0] in ROOTS]


def gcov(build, data):
    """gcov's JSON documents for these data files, whose notes lie beside them."""
    if not data:
        return []
    done = subprocess.run(["gcov", "--stdout", "--json-format", "--branch-probabilities", *data],
                          cwd=build, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line]


def add(files, document, tree):
    """Adds one document's counts to files[path] = {lines, branches}."""
    for one in document["files"]:
        path = os.path.join(document["current_working_directory"], one["file"])
        path = os.path.relpath(os.path.normpath(path), tree)
        if path.split("/")[0] not in ROOTS:
            continue
        into = files.setdefault(path, {"lines": {}, "branches": {}})
        for line in one["lines"]:
            number = line["line_number"]
            into["lines"][number] = into["lines"].get(number, 0) + line["count"]
            for which, branch in enumerate(line["branches"]):
                key = (number, which)
                into["branches"][key] = into["branches"].get(key, 0) + branch["count"]


def read(build):
    """The counts of a build."""
    tree = os.path.dirname(os.path.dirname(build))
    data = [os.path.join(build, output[:-len(".o")] + ".gcda") for output in objects(build)]
    data = [name for name in data if os.path.exists(name)]
    files = {}
    some = [data[i::8] for i in range(8)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for documents in pool.map(lambda part: gcov(build, part), some):
            for document in documents:
                add(files, document, tree)
    return files


def share(hit, total):
    return f"{hit:6d} of {total:6d}  {100 * hit / total if total else 100:5.1f} %"


def main():
    build = os.path.abspath(sys.argv[1])
    files = read(build)
    result = {}
    for path, counts in sorted(files.items()):
        parts = [*("/".join(path.split("/")[:n]) for n in (1, 2) if n < path.count("/") + 1), "sum", path]
        for name in dict.fromkeys(parts):
            row = result.setdefault(name, dict.fromkeys(
                ("lines", "lines_hit", "branches", "branches_hit"), 0))
            for kind in ("lines", "branches"):
                row[kind] += len(counts[kind])
                row[kind + "_hit"] += sum(1 for n in counts[kind].values() if n)
    print(f"{'folder':22s} {'lines executed':>25s}   {'branches taken':>25s}")
    for name in sorted((n for n in result if n not in files and n != "sum")) + ["sum"]:
        row = result[name]
        print(f"{name:22s} {share(row['lines_hit'], row['lines'])}   "
              f"{share(row['branches_hit'], row['branches'])}")
    with open(os.path.join(build, "coverage.json"), "w") as file:
        json.dump(result, file, indent=1)
    print(f"each file's: {os.path.join(build, 'coverage.json')}")


if __name__ == "__main__":
    main()
