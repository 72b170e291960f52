#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Do the tests notice a wrong line? `./run mutants` changes one place of the sources at a time, in a
copy of the tree, and runs the tests that execute that place, the quickest first, until one fails.

Two builds of the copy: one with coverage, which says which test executes which line; and one that is
mutated. A place that no test executes survives without a run. A place whose object file stays
the same is no mutant, nor is one that does not compile. The same seed and tree: the same mutants.
"""
import argparse
import filecmp
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import coverage
from mutations import mutations

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(HERE, "build/mutants")
TREE = os.path.join(WORK, "tree")
BUILD = os.path.join(TREE, "build/mutated")
COVER = os.path.join(TREE, "build/coverage")


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode:
        sys.exit("mutants: " + " ".join(command) + "\n" + done.stdout)
    return done.stdout


def copy(tree):
    """What git lists, uncommitted changes included. Equal files keep their times, and so their objects."""
    listed = must("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=tree).splitlines()
    files = {name for name in listed if os.path.isfile(os.path.join(tree, name))}
    for folder, _, names in os.walk(TREE):
        there = {os.path.relpath(os.path.join(folder, name), TREE) for name in names}
        for name in there - files:
            if not name.startswith("build/"):
                os.remove(os.path.join(TREE, name))
    for name in files:
        ours, theirs = os.path.join(TREE, name), os.path.join(tree, name)
        if not os.path.exists(ours) or not filecmp.cmp(ours, theirs, shallow=False):
            os.makedirs(os.path.dirname(ours), exist_ok=True)
            shutil.copy(theirs, ours)


def prepare(tree):
    copy(tree)
    common = ["cmake", "-G", "Ninja", "-S", TREE, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_BUILD_TYPE=",
              "-DHMREG_BENCH=OFF", "-DHMREG_DOCS=OFF", "-DHMREG_EXAMPLES=OFF"]
    if shutil.which("ccache"):
        common.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    # Without lines and columns in objects: the same code is the same object.
    must(*common, "-B", BUILD, "-DCMAKE_C_FLAGS=-g0 -w", "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON",
         *(["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"] if shutil.which("ld.lld") else []))
    must(*common, "-B", COVER, "-DCMAKE_C_FLAGS=-w --coverage -fprofile-update=atomic")
    for build in BUILD, COVER:
        say(f"== building {os.path.relpath(build, HERE)}")
        must("cmake", "--build", build)


class Test:
    """A test of CTest's, run without it."""

    def __init__(self, described, outputs):
        properties = {p["name"]: p["value"] for p in described.get("properties", [])}
        self.name, self.command = described["name"], described["command"]
        self.labels = properties.get("LABELS", [])
        self.skipped = properties.get("SKIP_RETURN_CODE")
        self.environment = properties.get("ENVIRONMENT", [])
        self.where = properties.get("WORKING_DIRECTORY", BUILD)
        words = re.split(r"[=:;,\s]", " ".join(self.command + self.environment))
        paths = (os.path.relpath(word, BUILD) for word in words if word.startswith(BUILD + "/"))
        self.programs = {path for path in paths if path in outputs}
        self.executed, self.seconds = {}, 0

    def start(self, build, **environment):
        env = dict(os.environ, HMREG_TEST_PART="10", **environment)
        env.update(e.replace(BUILD, build).split("=", 1) for e in self.environment if "=" in e)
        return subprocess.Popen([word.replace(BUILD, build) for word in self.command], env=env,
                                cwd=self.where.replace(BUILD, build), start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def measure(self):
        """Finds which lines it executes, and how long it takes; returns whether it passes."""
        where = os.path.join(WORK, "executed", self.name)
        shutil.rmtree(where, ignore_errors=True)
        process = self.start(COVER, GCOV_PREFIX=where, GCOV_PREFIX_STRIP=str(COVER.count("/")))
        passed = end(process, 300) == 0
        for output, _ in coverage.objects(COVER):
            stem = output[:-len(".o")]
            if os.path.exists(os.path.join(where, stem + ".gcda")):
                os.symlink(os.path.join(COVER, stem + ".gcno"), os.path.join(where, stem + ".gcno"))
        self.executed = coverage.read(COVER, where)
        shutil.rmtree(where, ignore_errors=True)
        begin = time.monotonic()
        passed = passed and end(self.start(BUILD), 300) == 0
        self.seconds = time.monotonic() - begin
        return passed

    def executes(self, path, line):
        """This line; if it has no code, the one before it in its function; or any, outside functions."""
        if path not in self.executed:
            return False
        functions, lines = self.executed[path]["functions"], self.executed[path]["lines"]
        begin = max((b for b, e in functions.items() if b <= line <= e), default=None)
        if begin is None:
            return any(lines.values())
        return lines.get(max((n for n in lines if begin <= n <= line), default=0), 0) > 0


def end(process, seconds=0):
    """The status of a test's process, which is ended with all it left, at the latest after so long."""
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        status = None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    return status


def find_tests(labels, longest):
    listed = json.loads(must("ctest", "--show-only=json-v1", cwd=BUILD))
    outputs = {line.split(":")[0] for line in must("ninja", "-t", "targets", "all", cwd=BUILD).splitlines()}
    tests = [Test(t, outputs) for t in listed["tests"] if t.get("command")]
    tests = [t for t in tests if any(re.fullmatch(labels, label) for label in t.labels)]
    say(f"== running {len(tests)} tests: which lines each executes")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = list(pool.map(Test.measure, tests))
    good = [t for t, is_good in zip(tests, passed) if is_good and t.seconds <= longest]
    for t in tests:
        if t not in good:
            say(f"left out: {t.name}, {t.seconds:.0f} s" + ("" if t.seconds > longest else ", does not pass"))
    return sorted(good, key=lambda t: t.seconds)


def first_failure(tests, limit):
    """Which test fails, as many at once as there are processors; None if all pass."""
    left, running = list(tests), []
    try:
        while left or running:
            while left and len(running) < os.cpu_count():
                test = left.pop(0)
                running.append((test, test.start(BUILD), time.monotonic() + limit + 5 * test.seconds))
            for each in list(running):
                test, process, deadline = each
                if process.poll() is None and time.monotonic() < deadline:
                    continue
                running.remove(each)
                status = end(process)
                if status not in (0, test.skipped):
                    return test.name + (" (time limit)" if status is None else "")
            time.sleep(0.005)
        return None
    finally:
        for _, process, _ in running:
            end(process)


def judge(tests, objects, originals, mutation, limit):
    """What becomes of one mutant; None if it does not compile or changes nothing."""
    path, begin, stop, new = mutation
    name = os.path.join(TREE, path)
    with open(name) as file:
        text = file.read()
    built = [os.path.join(BUILD, output) for output in objects.get(path, [])]
    contents = originals.setdefault(path, [open(output, "rb").read() for output in built])
    line = text.count("\n", 0, begin) + 1
    mutant = dict(file=path, line=line, old=text[begin:stop], new=new, killed_by=None)
    mutant["executed"] = [t for t in tests if t.executes(path, line)]
    try:
        with open(name, "w") as file:
            file.write(text[:begin] + new + text[stop:])
        if not built or run("ninja", *objects[path], cwd=BUILD).returncode:
            return None
        if contents == [open(output, "rb").read() for output in built]:
            return None
        selected = mutant["executed"]
        mutant["executed"] = len(selected)
        programs = sorted(set().union(*(t.programs for t in selected)))
        if selected and run("ninja", *programs, cwd=BUILD).returncode:
            return None # changes the size of a type that others rely on
        mutant["killed_by"] = first_failure(selected, limit)
        return mutant
    finally:
        with open(name, "w") as file:
            file.write(text)


def shown(mutant):
    words = [" ".join(mutant[which].split()) or "nothing" for which in ("old", "new")]
    why = "" if mutant["executed"] else " (executed by no test)"
    return f"{mutant['file']}:{mutant['line']}: {words[0]} -> {words[1]}{why}"


def main():
    arguments = argparse.ArgumentParser(prog="./run mutants", description=__doc__.split("\n\n")[0])
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--count", type=int, default=200, help="how many mutants")
    arguments.add_argument("--in", dest="folders", action="append", metavar="FOLDER", help="default: core")
    arguments.add_argument("--tree", default=HERE, help="another checkout, to compare")
    arguments.add_argument("--labels", default="unit|conformance|fault", help="of tests; a regular expression")
    arguments.add_argument("--longest", type=float, default=15, help="without tests of more seconds")
    arguments.add_argument("--limit", type=float, default=10, help="seconds a test may take beyond 5 times its usual")
    args = arguments.parse_args()
    prepare(os.path.abspath(args.tree))
    tests = find_tests(args.labels, args.longest)
    objects, originals = {}, {}
    for output, source in coverage.objects(BUILD):
        objects.setdefault(source, []).append(output)
    folders = tuple(folder.rstrip("/") + "/" for folder in args.folders or ["core"])
    candidates = []
    for source in sorted(source for source in objects if source.startswith(folders)):
        with open(os.path.join(TREE, source)) as file:
            candidates += [(source, *mutation) for mutation in mutations(file.read())]
    random.Random(args.seed).shuffle(candidates)
    say(f"== {args.count} of {len(candidates)} places, judged by {len(tests)} tests")
    mutants = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for candidate in candidates:
            if len(mutants) == args.count:
                break
            begin = time.monotonic()
            mutant = judge(tests, objects, originals, candidate, args.limit)
            if mutant:
                mutants.append(mutant)
                by = f"killed by {mutant['killed_by']}" if mutant["killed_by"] else "SURVIVED"
                say(f"[{len(mutants)}/{args.count}] {time.monotonic() - begin:4.1f} s {shown(mutant)}: {by}")
    except KeyboardInterrupt:
        say("interrupted: what follows is of the mutants so far")
    survivors = [m for m in mutants if not m["killed_by"]]
    for mutant in sorted(survivors, key=shown):
        print(shown(mutant))
    killed = len(mutants) - len(survivors)
    print(f"{killed} killed, {len(survivors)} survived, {len(mutants)} in all")
    with open(os.path.join(WORK, "mutants.json"), "w") as file:
        json.dump(dict(tree=args.tree, seed=args.seed, killed=killed, survived=len(survivors),
                       mutants=mutants), file, indent=1)


if __name__ == "__main__":
    main()
