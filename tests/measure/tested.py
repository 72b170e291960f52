# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""CTest's tests of a build, run without it, for mutants.py: which slots of schemata.py each executes, how
long it takes, and whether it notices a mutant.
"""
import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time


def digest(*contents):
    made = hashlib.sha256()
    for content in contents:
        made.update(content if isinstance(content, bytes) else str(content).encode())
        made.update(b"\0")
    return made.hexdigest()[:12]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def files(folder):
    """All regular files under a folder, in order."""
    found = (os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
    return sorted(name for name in found if os.path.isfile(name) and not os.path.islink(name))


def sources(folder):
    """The files under a folder that are not compiled."""
    return [name for name in files(folder) if not name.endswith((".c", ".h", ".md", ".txt"))]


def end(process, seconds, stop):
    """The status of a test's process, which is ended with all it left, at the latest after so long."""
    status, deadline = None, time.monotonic() + seconds
    while status is None and time.monotonic() < deadline and not stop.is_set():
        try:
            status = process.wait(min(0.5, seconds))
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    return status


class Test:
    def __init__(self, described, build, common):
        properties = {p["name"]: p["value"] for p in described.get("properties", [])}
        self.name, self.command = described["name"], described["command"]
        self.labels = properties.get("LABELS", [])
        self.skipped = properties.get("SKIP_RETURN_CODE")
        self.environment = [e for e in properties.get("ENVIRONMENT", []) if "=" in e]
        self.where = properties.get("WORKING_DIRECTORY", build)
        self.version = self.compute_version(common)
        self.lock = threading.Lock() # a test may keep its files in one place
        self.cost = properties.get("COST", 0)
        self.seconds, self.seen = 0, b""

    def compute_version(self, common):
        """Changes whenever the test does: its programs and libraries; of a script also what lies beside it."""
        words = re.split(r"[=:;,\s]", " ".join(self.command + self.environment))
        names = {word for word in words if word.startswith("/") and os.path.isfile(word)}
        for word in words:
            if word.startswith(common["build"] + "/") and os.path.isdir(word):
                names.update(name for name in files(word) if ".so" in name)
        scripts = {name for name in names if name.startswith(common["tests"])}
        for name in scripts:
            names.update(sources(os.path.dirname(name)))
        return digest(self.command, self.environment, *map(content, sorted(names)), common["libraries"],
                      common["scripts"] if scripts else "")

    def run(self, limit, stop, **environment):
        """Its status; None if it took longer."""
        env = dict(os.environ, **environment)
        env.setdefault("HMREG_TEST_PART", "100")
        env.update(e.split("=", 1) for e in self.environment)
        with self.lock:
            process = subprocess.Popen(self.command, env=env, cwd=self.where, start_new_session=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            return end(process, limit, stop)

    def measure(self, seen, places, stop):
        """Finds which slots it executes, and how long it takes; returns whether it passes."""
        for _ in range(2):
            with open(seen, "wb") as file:
                file.truncate(places)
            begin = time.monotonic()
            passed = self.run(300, stop, HMREG_MUTANT_SEEN=seen) == 0
            self.seconds = time.monotonic() - begin
            if passed:
                break
        self.seen = content(seen)
        return passed

    def outcome(self, number, seconds, twice, stop):
        """How it ends with this mutant; a failure counts if it comes `twice`."""
        first = ""
        for _ in range(2 if twice else 1):
            for _ in range(3): # who ends it by SIGKILL is the kernel, short of memory, or a person
                status = self.run(seconds + 10 * self.seconds, stop, HMREG_MUTANT=str(number))
                if status != -signal.SIGKILL:
                    break
                stop.wait(1)
            if status in (0, self.skipped):
                return f"once {first}" if first else "passed"
            first = "time limit" if status is None else f"status {status}"
        return first


def is_kill(outcome):
    return outcome.startswith(("status", "time limit"))


def listed(build, labels, without, named, excepted):
    """The tests of a build that have one of the labels and of the names, and none of the others."""
    found = json.loads(subprocess.check_output(["ctest", "--show-only=json-v1"], cwd=build))["tests"]
    tests = os.path.join(os.path.dirname(os.path.dirname(build)), "tests")
    tools = [name for name in files(os.path.join(build, "tools")) if os.access(name, os.X_OK)]
    shared = sources(os.path.join(tests, "support")) + [os.path.join(tests, "package/cases.sh")]
    ours = [name for folder in ("core", "affinity", "providers", "lib") for name in files(os.path.join(build, folder))]
    common = dict(build=build, tests=tests, libraries=digest(*(content(name) for name in ours if ".so" in name)),
                  scripts=digest(*map(content, tools + shared)))
    tests = [Test(t, build, common) for t in found if t.get("command")]
    return [t for t in tests if any(re.fullmatch(labels, label) for label in t.labels)
            and not any(re.fullmatch(without, label) for label in t.labels)
            and re.fullmatch(named, t.name) and not re.fullmatch(excepted, t.name)]
