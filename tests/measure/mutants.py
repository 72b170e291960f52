#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Do the tests notice a wrong line? `./run mutants` changes one place of the sources at a time, in a
copy of the tree, and runs the tests that execute that place, the quickest first, until one fails.

One build of the copy has all changes of the sources in it, and HMREG_MUTANT in the environment chooses
one (schemata.py). Each test runs once without a mutant, to find which places it executes. A change whose
object file stays the same, optimized, is no mutant, nor is one that does not compile.

What is known of each mutant is kept in build/mutants/results.jsonl, so a run that was stopped goes on where
it ended. A test that let a mutant pass runs again only when its programs have changed.
"""
import argparse
import json
import os
import random
import resource
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import mutated
import tested
from mutated import BUILD, HERE, WORK
from tested import content

RESULTS = os.path.join(WORK, "results.jsonl")
LABELS = "unit|conformance|fault|stress|cuda|rocr|ze|ofi|fuzz"
WITHOUT = "long|guest|rdma|package"
# The names of the tests that judge a folder's mutants; those of other folders are judged by all with the labels.
JUDGES = {
    "hmem": "(cuda|rocr|ze|unit)_.*",
    "providers": "(conformance|ofi|unit|fault)_.*|stress_loopback",
    "preload": "preload_.*|unit_record.*|tool_run.*|fuzz_replay_(trace|lost|program)",
    "tools": "tool_.*|unit_record.*|fuzz_replay_(doctor|stats|json|foreign|trace)",
}


def say(words):
    sys.stderr.write(words + "\n")


class Results:
    """What is known of mutants, by their key. The last line of a mutant counts."""

    def __init__(self):
        self.lock, self.known = threading.Lock(), {}
        if os.path.exists(RESULTS):
            with open(RESULTS) as file:
                for line in file:
                    record = json.loads(line)
                    self.known[record["key"]] = record

    def of(self, mutant):
        return self.known.get(mutant.key, {})

    def verdict(self, mutant):
        return self.of(mutant).get("verdict")

    def add(self, mutant, **more):
        record = dict(key=mutant.key, file=mutant.file, line=mutant.line, function=mutant.function.name,
                      context=mutant.context, words=mutant.words(), **more)
        with self.lock:
            self.known[mutant.key] = record
            with open(RESULTS, "a") as file:
                file.write(json.dumps(record) + "\n")
        return record


def find_tests(args, places, stop):
    """The tests that pass, with what they execute; of tests that did not change this is known."""
    tests = tested.listed(BUILD, args.labels, args.without, args.tests, args.excepted)
    seen = os.path.join(WORK, "seen")
    os.makedirs(seen, exist_ok=True)

    def measure(test):
        kept = os.path.join(seen, f"{test.name}-{test.version}")
        if not os.path.exists(kept + ".json") and not stop.is_set():
            passed = test.measure(kept, places, stop)
            if not stop.is_set():
                mutated.write(kept + ".json", json.dumps([passed, test.seconds]))
        if stop.is_set():
            return False
        test.seen, (passed, test.seconds) = content(kept), json.loads(content(kept + ".json"))
        return passed

    say(f"== running {len(tests)} tests: which places each executes")
    with ThreadPoolExecutor(args.jobs) as pool:
        passed = list(pool.map(measure, sorted(tests, key=lambda t: -t.cost)))
    tests.sort(key=lambda t: -t.cost)
    good = [t for t, is_good in zip(tests, passed) if is_good and t.seconds <= args.longest]
    for t in tests:
        if t not in good:
            say(f"left out: {t.name}, {t.seconds:.0f} s" + ("" if t.seconds > args.longest else ", does not pass"))
    say(f"== {len(good)} tests, {sum(t.seconds for t in good):.0f} s one after the other")
    return good


def choose(sources, args, results, compiler, stop):
    """The first real mutants of the seed's order, and how many were in places not chosen at run time."""
    candidates = [m for s in sources for m in s.mutants]
    random.Random(args.seed).shuffle(candidates)
    chosen, elsewhere, count = [], 0, args.count
    if args.at:
        candidates = [m for m in candidates if f"{m.file}:{m.line}" in args.at]
        count = len(candidates)

    def is_real(mutant):
        if not results.verdict(mutant) and not stop.is_set():
            results.add(mutant, verdict="real" if compiler.changes(mutant) else "none")
        return results.verdict(mutant) != "none"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while candidates and len(chosen) < count:
            some, candidates = candidates[:count - len(chosen)], candidates[count - len(chosen):]
            real = [m for m, yes in zip(some, pool.map(is_real, some)) if yes]
            chosen += [m for m in real if m.in_slot]
            elsewhere += len([m for m in real if not m.in_slot])
    return chosen, elsewhere


def choose_again(sources, args):
    """The mutants that an earlier run of the seed chose, also if the sources have changed around them."""
    mutants = [m for s in sources for m in s.mutants if m.in_slot]
    found = {m.described(): m for m in mutants} | {m.key: m for m in mutants}
    earlier = json.loads(content(sample(args)))
    chosen = [found.get(key) or found.get(described) for key, described in earlier]
    gone = chosen.count(None)
    if gone:
        say(f"{gone} mutants of the earlier run are no longer there")
    return [m for m in chosen if m], 0


def sample(args):
    folders = "+".join(args.folders).replace("/", "-")
    return os.path.join(WORK, f"sample-{folders}-{args.seed}.json")


class Judge:
    """Runs tests with mutants. What ran with one: {test's name: [its version, outcome]}."""

    def __init__(self, args, tests, results, stop):
        self.args, self.tests, self.results, self.stop = args, {t.name: t for t in tests}, results, stop
        self.kills, self.sound = {}, {}
        for record in results.known.values():
            for name, (_, outcome) in record.get("ran", {}).items():
                self.learn(record["file"], name, outcome)

    def learn(self, path, name, outcome):
        if tested.is_kill(outcome):
            self.kills[path, name] = self.kills.get((path, name), 0) + 1

    def order(self, mutant):
        """The tests that execute the place; first what is quick, or noticed others in this file."""
        selected = [t for t in self.tests.values() if t.seen[mutant.place]]
        return sorted(selected, key=lambda t: t.seconds / (1 + 3 * self.kills.get((mutant.file, t.name), 0)))

    def run(self, mutant, test, ran, twice):
        """Runs a test with a mutant. Of one that makes many tests hang, the rest have less time."""
        hung = sum(1 for _, outcome in ran.values() if outcome == "time limit")
        outcome = test.outcome(mutant.number, self.args.limit / (4 if hung > 2 else 1), twice, self.stop)
        if not self.stop.is_set() and (not tested.is_kill(outcome) or self.is_sound(test)):
            ran[test.name] = [test.version, outcome]
            self.learn(mutant.file, test.name, outcome)

    def is_sound(self, test):
        """Does the test pass without a mutant, here and now? Asked once, when it first fails with one."""
        if test.name not in self.sound:
            self.sound[test.name] = test.outcome(0, self.args.limit, True, self.stop) == "passed"
            if not self.sound[test.name]:
                say(f"does not count: {test.name}, which fails without a mutant")
        return self.sound[test.name]

    def judge(self, mutant):
        """Returns the mutant's record, and how many tests ran for it now."""
        before, selected = self.results.of(mutant), self.order(mutant)
        if self.args.survivors and before.get("verdict") == "killed" and set(before["by"]) & set(self.tests):
            return before, 0
        ran = {name: [version, outcome] for name, (version, outcome) in before.get("ran", {}).items()
               if name in self.tests and self.tests[name].version == version}
        known, left = len(ran), [t for t in selected if t.name not in ran]
        while left and not self.stop.is_set() and (self.args.all or not killers(ran)):
            test = next((t for t in left if not t.lock.locked()), left[0]) # no waiting while another test can run
            left.remove(test)
            if self.sound.get(test.name, True):
                self.run(mutant, test, ran, twice=not self.args.all)
        if self.args.all and len(ran) > known and len(killers(ran)) <= 2: # a failure by chance would matter
            for name in killers(ran):
                self.run(mutant, self.tests[name], ran, twice=True)
        verdict = "killed" if killers(ran) else "partial" if self.stop.is_set() else "survived"
        found = dict(verdict=verdict, by=killers(ran), executed=len(selected), ran=ran,
                     all=all(t.name in ran or not self.sound.get(t.name, True) for t in selected))
        if found.items() <= before.items():
            return before, 0
        return self.results.add(mutant, **found), len(ran) - known


def killers(ran):
    return [name for name, (_, outcome) in ran.items() if tested.is_kill(outcome)]


def judge_all(judge, chosen, jobs):
    begin = time.monotonic()

    def one(mutant):
        if judge.stop.is_set():
            return
        record, count = judge.judge(mutant)
        by = ", ".join(f"{name} ({record['ran'][name][1]})" for name in record["by"][:3])
        if count:
            say(f"[{time.monotonic() - begin:5.0f} s] {mutant}: " + (f"killed by {by}" if by else
                f"{record['verdict'].upper()}") + f"; {len(record['ran'])} of {record['executed']} tests ran")

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, chosen))


class Equivalents:
    """Mutants that no test can notice: lines that begin with how a mutant describes itself."""

    def __init__(self, path, sources, folders=""):
        text = content(path).decode() if os.path.exists(path) else ""
        lines = [line for line in text.splitlines() if line.strip() and line[0] != "#" and line.startswith(folders)]
        known = {mutant.described() for source in sources for mutant in source.mutants}
        named = {line: {name for name in known if line.startswith(name)} for line in lines}
        self.names = set().union(*named.values())
        for line in (line for line in lines if not named[line]):
            say(f"no such mutant: {line}")

    def has(self, mutant, verdict):
        if verdict == "killed" and mutant.described() in self.names:
            say(f"not equivalent, since killed: {mutant}")
        return verdict == "survived" and mutant.described() in self.names


def print_survivor(mutant, record):
    names = sorted(record["ran"])
    tests = " ".join(names[:6]) + (" ..." if len(names) > 6 else "")
    print(f"{mutant}\n    {mutant.context}\n    " +
          (f"executed by {record['executed']}: {tests}" if names else "executed by no test"))


def print_tests(chosen, results, names):
    """What each test kills that no other one kills, of mutants with which all tests ran."""
    records = [(m, results.of(m)) for m in chosen if results.verdict(m) == "killed" and results.of(m)["all"]]
    alone, kills = {}, dict.fromkeys(names, 0)
    for mutant, record in records:
        for name in record["by"]:
            kills[name] = kills.get(name, 0) + 1
        if len(record["by"]) == 1:
            alone.setdefault(record["by"][0], []).append(str(mutant))
    print(f"\n== one test only kills {sum(map(len, alone.values()))} of {len(records)} killed mutants:")
    for name in sorted(alone):
        print("\n".join(f"{name}: {mutant}" for mutant in alone[name]))
    print("\n== kill some, but none alone:",
          ", ".join(f"{name} {kills[name]}" for name in sorted(kills) if kills[name] and name not in alone))
    print("\n== kill none:", ", ".join(name for name in sorted(kills) if not kills[name]), "\n")
    return dict(alone=alone, kills=kills)


def by_chance(chosen, results):
    """Tests that failed with a mutant, but not again."""
    ran = [record for m in chosen for record in results.of(m).get("ran", {}).items()]
    return sorted({name for name, (_, outcome) in ran if outcome.startswith("once")})


def report(args, chosen, elsewhere, results, names, equivalents):
    sets = {which: [] for which in ("killed", "survived", "equivalent", "unknown")}
    for mutant in chosen:
        verdict = results.verdict(mutant)
        if equivalents.has(mutant, verdict):
            verdict = "equivalent"
        sets[verdict if verdict in sets else "unknown"].append(mutant)
    for mutant in sorted(sets["survived"], key=lambda m: (m.file, m.line)):
        print_survivor(mutant, results.of(mutant))
    written = dict(seed=args.seed, elsewhere=elsewhere, by_chance=by_chance(chosen, results))
    if args.all:
        written.update(print_tests(chosen, results, names))
    if written["by_chance"]:
        print("failed once, but not again: " + ", ".join(written["by_chance"]))
    killed, real = len(sets["killed"]), len(sets["killed"]) + len(sets["survived"])
    print(", ".join(f"{len(some)} {which}" for which, some in sets.items()) + f", {len(chosen)} in all"
          + (f": {100 * killed / real:.1f} % killed" if real else "")
          + f"; {elsewhere} more cannot be chosen at run time")
    written.update({which: [dict(results.of(m), at=str(m)) for m in some] for which, some in sets.items()})
    mutated.write(os.path.join(WORK, "mutants.json"), json.dumps(written, indent=1))


def parse():
    arguments = argparse.ArgumentParser(prog="./run mutants", description=__doc__.split("\n\n")[0])
    add = arguments.add_argument
    add("--seed", type=int, default=1)
    add("--count", type=int, default=200, help="how many mutants")
    add("--at", action="append", metavar="FILE:LINE", help="all mutants of this line instead")
    add("--in", dest="folders", action="append", metavar="FOLDER", help="of the sources; default: core")
    add("--tree", default=HERE, help="another checkout, to compare")
    add("--all", action="store_true", help="run all tests with each mutant, not only until one fails")
    add("--survivors", action="store_true", help="only those that survived an earlier run of this seed")
    add("--results", action="store_true", help="print what is known, run nothing")
    add("--pieces", default="1/1", metavar="K/N", help="only the K-th of N parts")
    add("--minutes", type=float, help="stop after so long; the next start goes on")
    add("--labels", default=LABELS, help="of tests; a regular expression")
    add("--without", default=WITHOUT, help="no tests with these labels")
    add("--tests", metavar="NAMES", help="tests with these names; default: those that concern the folders")
    add("--except", dest="excepted", default="model_protocol", metavar="NAMES", help="no tests with these names")
    add("--longest", type=float, default=120, help="without tests of more seconds")
    add("--limit", type=float, default=20, help="seconds a test may take beyond 10 times its usual")
    add("--jobs", type=int, default=os.cpu_count() + 2, help="how many tests at once")
    add("--equivalent", default=os.path.join(HERE, "tests/measure/equivalent.txt"), metavar="FILE",
        help="mutants that are proven equivalent")
    args = arguments.parse_args()
    args.folders = sorted(folder.rstrip("/") for folder in args.folders or ["core"])
    args.tests = args.tests or "|".join(JUDGES.get(folder.split("/")[0], ".*") for folder in args.folders)
    return args


def limit_resources():
    """Tests with a mutant that recurses or allocates without end must not take the machine's memory."""
    for what, most in (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 2 << 30), (resource.RLIMIT_DATA, 6 << 30):
        resource.setrlimit(what, (most, resource.getrlimit(what)[1]))


def stop_after(minutes, stop):
    """Tests find all signals as usual, also where a shell that starts jobs behind it ignores some."""
    for which in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT:
        signal.signal(which, lambda *_: stop.set())
    if minutes:
        timer = threading.Timer(60 * minutes, stop.set)
        timer.daemon = True
        timer.start()


def main():
    args, stop, results, tests = parse(), threading.Event(), Results(), []
    tree, folders = os.path.abspath(args.tree), tuple(folder + "/" for folder in args.folders)
    stop_after(args.minutes, stop)
    if args.results:
        compiler = mutated.Compiler()
        sources = mutated.read_sources(tree, folders, compiler)
    else:
        sources, places, compiler = mutated.prepare(tree, folders)
        limit_resources()
        tests = find_tests(args, places, stop)
    if args.survivors:
        chosen, elsewhere = choose_again(sources, args)
    else:
        chosen, elsewhere = choose(sources, args, results, compiler, stop)
    if not (args.survivors or args.at or args.results):
        mutated.write(sample(args), json.dumps([[m.key, m.described()] for m in chosen]))
    part, parts = map(int, args.pieces.split("/"))
    if tests and not stop.is_set():
        judge_all(Judge(args, tests, results, stop), chosen[part - 1::parts], args.jobs)
    equivalents = Equivalents(args.equivalent, sources, folders)
    report(args, chosen, elsewhere, results, [t.name for t in tests], equivalents)


if __name__ == "__main__":
    main()
