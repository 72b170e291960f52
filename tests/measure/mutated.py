# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A copy of the tree that is built with all changes of its sources in it, for mutants.py."""
import filecmp
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading

import schemata
import tested
from mutations import mutations, skeleton
from tested import content, digest

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(HERE, "build/mutants")
TREE = os.path.join(WORK, "tree")
BUILD = os.path.join(TREE, "build/mutated")


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode:
        sys.exit("mutants: " + " ".join(command) + "\n" + done.stdout.decode())
    return done.stdout.decode()


def write(path, text):
    """Equal files keep their times, and so their objects."""
    if not os.path.exists(path) or content(path) != text.encode():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def copy(tree, folders):
    """What git lists, uncommitted changes included; of sources in the folders, only the first time."""
    listed = must("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=tree).splitlines()
    names = {name for name in listed if os.path.isfile(os.path.join(tree, name))}
    for name in tested.files(TREE):
        short = os.path.relpath(name, TREE)
        if short not in names and not short.startswith("build/"):
            os.remove(name)
    for name in names:
        ours, theirs = os.path.join(TREE, name), os.path.join(tree, name)
        if os.path.exists(ours) and (filecmp.cmp(ours, theirs, shallow=False)
                                     or name.startswith(folders) and name.endswith(".c")):
            continue
        os.makedirs(os.path.dirname(ours), exist_ok=True)
        shutil.copy(theirs, ours)


def configure():
    command = ["cmake", "-G", "Ninja", "-S", TREE, "-B", BUILD, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
               "-DHMREG_BENCH=OFF", "-DHMREG_DOCS=OFF", "-DHMREG_EXAMPLES=OFF",
               "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g0 -w", "-DCMAKE_CXX_FLAGS_DEBUG=-g0 -w",
               "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON"]
    if shutil.which("ccache"):
        command.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    if shutil.which("ld.lld"):
        command += [f"-DCMAKE_{kind}_LINKER_FLAGS=-fuse-ld=lld" for kind in ("EXE", "SHARED", "MODULE")]
    must(*command)


class Function:
    def __init__(self, name, begin, text):
        self.name, self.begin, self.text = name, begin, text


class Mutant:
    """One change of a source, and what identifies it when other code has changed."""

    def __init__(self, source, change):
        begin, end, self.new = change
        self.source, self.change, self.number, self.place = source, change, None, None
        self.file, self.old = source.path, source.text[begin:end]
        self.line = source.text.count("\n", 0, begin) + 1
        self.context = source.lines[self.line - 1].strip()
        inside = (f for f in source.functions if f.begin <= begin < f.begin + len(f.text))
        self.function = next(inside, Function("", 0, ""))
        self.occurrence = 1
        self.key = digest(self.file, self.function.name, self.function.text, begin - self.function.begin,
                          self.old, self.new)

    def words(self):
        old, new = (" ".join(which.split()) or "nothing" for which in (self.old, self.new))
        return f"{old} -> {new}" + (f" #{self.occurrence}" if self.occurrence > 1 else "")

    def described(self):
        """How tests/measure/equivalent.txt names it: by the source's line, without the line's number."""
        return f"{self.file}: {self.function.name}: {self.words()} | {self.context} | "

    def __str__(self):
        return f"{self.file}:{self.line}: {self.function.name}: {self.words()}"


class Source:
    """A source with all its changes."""

    def __init__(self, tree, path):
        self.path = path
        self.text = content(os.path.join(tree, path)).decode()
        self.lines = self.text.splitlines()
        self.functions = list(self.find_functions(skeleton(self.text)))
        self.mutants = [Mutant(self, change) for change in mutations(self.text)]
        found = schemata.slots(self.text)[0]
        for mutant in self.mutants:
            mutant.in_slot = schemata.slot_of(found, mutant.change) is not None
        counts = {}
        for mutant in sorted(self.mutants, key=lambda m: m.change[0]):
            same = (mutant.function.begin, mutant.context, mutant.old, mutant.new)
            mutant.occurrence = counts[same] = counts.get(same, 0) + 1

    def find_functions(self, code):
        behind = 0
        for body in schemata.BODY.finditer(code):
            begin = max([behind, *(code.rfind(c, behind, body.start()) + 1 for c in ";}")])
            begin += len(code[begin:]) - len(code[begin:].lstrip())
            names = re.findall(r"(\w+)\(", code[begin:body.start()])
            name = next((n for n in names if not n.startswith("__")), "")
            yield Function(name, begin, self.text[begin:body.end()])
            behind = body.end()


class Compiler:
    """Compiles a source that is changed in one place, and says whether its object is another one."""

    def __init__(self):
        with open(os.path.join(BUILD, "compile_commands.json")) as file:
            commands = json.load(file)
        self.commands, self.originals, self.lock = {}, {}, threading.Lock()
        for command in commands:
            self.commands.setdefault(os.path.relpath(command["file"], TREE), shlex.split(command["command"]))

    def command(self, path, *more):
        words = [w for w in self.commands[path] if os.path.basename(w) != "ccache"]
        return [*words[:words.index("-o")], *more, "-I", os.path.dirname(os.path.join(TREE, path)), "-x", "c", "-"]

    def compile(self, path, text):
        """The optimized object of this text, as bytes; None if it does not compile."""
        output = os.path.join(WORK, f"compiled-{os.getpid()}-{threading.get_ident()}.o")
        try:
            done = run(*self.command(path, "-O2", "-c", "-o", output), cwd=BUILD,
                       input=f'# 1 "{os.path.join(TREE, path)}"\n{text}'.encode())
            return content(output) if done.returncode == 0 else None
        finally:
            if os.path.exists(output):
                os.remove(output)

    def changes(self, mutant):
        source, (begin, end, new) = mutant.source, mutant.change
        with self.lock:
            if source.path not in self.originals:
                self.originals[source.path] = self.compile(source.path, source.text)
        changed = self.compile(source.path, source.text[:begin] + new + source.text[end:])
        return changed not in (None, self.originals[source.path])

    def accepts(self, path, text):
        return run(*self.command(path, "-fsyntax-only"), cwd=BUILD, input=text.encode()).returncode == 0


def instrumented(source, first, header, compiler):
    """The source with all its changes; slots that do not compile as a choice are left as they are."""
    changes = [m.change for m in source.mutants]
    broken, begin = [], f'#include "{header}"\n# 1 "{os.path.join(TREE, source.path)}"\n'

    def attempt(left):
        return begin + schemata.instrument(source.text, changes, first, broken + left)[0]

    def search(suspects, others):
        """Finds the slots among the suspects that do not compile, without the others."""
        if compiler.accepts(source.path, attempt(others)):
            return
        if len(suspects) == 1:
            broken.append(suspects[0])
            return
        half = len(suspects) // 2
        search(suspects[:half], others + suspects[half:])
        search(suspects[half:], others + suspects[:half])

    if content(os.path.join(TREE, source.path)).decode() != attempt([]):
        search(schemata.slots(source.text)[0], [])
    text, numbers = schemata.instrument(source.text, changes, first, broken)
    for mutant in source.mutants:
        mutant.number, mutant.place = numbers.get(mutant.change, (None, None))
        mutant.in_slot = mutant.number is not None
    return begin + text, len(numbers)


def read_sources(tree, folders, compiler):
    paths = sorted(path for path in compiler.commands if path.startswith(folders))
    return [Source(tree, path) for path in paths]


def prepare(tree, folders):
    """Copies and builds the tree; returns the sources of the folders, and the number of places."""
    copy(tree, folders)
    configure()
    compiler = Compiler()
    sources, first, header = read_sources(tree, folders, compiler), 1, os.path.join(BUILD, "hmreg_mutant.h")
    if not os.path.exists(header):
        write(header, "#define HMREG_MUTANTS 1\n" + schemata.HEADER)
    for source in sources:
        text, count = instrumented(source, first, header, compiler)
        write(os.path.join(TREE, source.path), text)
        first += count
    write(header, f"#define HMREG_MUTANTS {first}\n" + schemata.HEADER)
    print(f"== building {os.path.relpath(BUILD, HERE)}", file=sys.stderr, flush=True)
    must("cmake", "--build", BUILD, "--target", "all", "all-tests")
    return sources, first, compiler
