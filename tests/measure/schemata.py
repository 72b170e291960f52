# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""All changes of a C source in one text, each behind a number that is chosen when a program starts.

Expressions that can be chosen at run time ("slots") are: the conditions of if, while, do, for and switch,
what a return returns, initialisers of variables that are not static, and expression statements. A slot A
with the changes 7 and 8 becomes (hmreg_in(7, 2) ? hmreg_mutant == 7 ? (A') : (A'') : (A)). A number in an
array's size, a case label, an enumeration or a static initialiser is in no slot.

The number is HMREG_MUTANT in the environment, which children inherit. With HMREG_MUTANT_SEEN=FILE each
process marks in that file, at the first number of a slot, that it executed the slot; since it is mapped,
marks of processes that a signal ends stay.
"""
import re

from mutations import skeleton

# Not by libc, whose functions tests replace.
HEADER = r"""
#ifndef HMREG_MUTANT_H
#define HMREG_MUTANT_H
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __x86_64__
static inline long hmreg_call(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = 0;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
}
#else
#define hmreg_call syscall
#endif
__attribute__((weak, visibility("hidden"))) int hmreg_mutant;
__attribute__((weak, visibility("hidden"))) char *hmreg_seen;

static inline int hmreg_in(int first, int count)
{
    if (hmreg_seen && !hmreg_seen[first])
        hmreg_seen[first] = 1;
    return (unsigned)hmreg_mutant - first < count;
}

__attribute__((constructor(101))) static void hmreg_read_mutant(void)
{
    const char *number = getenv("HMREG_MUTANT"), *seen = getenv("HMREG_MUTANT_SEEN");
    if (number)
        hmreg_mutant = atoi(number);
    if (seen && !hmreg_seen) {
        long fd = hmreg_call(SYS_openat, AT_FDCWD, (long)seen, O_RDWR | O_CLOEXEC, 0, 0);
        long map = fd < 0 ? -1 : hmreg_call(SYS_mmap, 0, HMREG_MUTANTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
        if (fd >= 0)
            hmreg_call(SYS_close, fd, 0, 0, 0, 0);
        if (map > 0 || map < -4095)
            hmreg_seen = (char *)map;
    }
}
#endif
"""

BODY = re.compile(r"^\{$.*?^\}", re.S | re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
# Two names with nothing but stars between: a type and what it declares.
DECLARATION = re.compile(r"(?:const|struct|union|unsigned|volatile)\b|\w+(?:\s*\((?:[^()]|\([^()]*\))*\))?"
                         r"(?:\s+|\s*\*[\s*]*)(?:const\s+)?[A-Za-z_]")
CONSTANT = re.compile(r"(?:[^;={]*\b)?(?:static|extern|typedef|enum\s*\w*\s*\{|_Thread_local|register)\b")
ASM = re.compile(r"__asm__|asm\b")
OPEN, CLOSE = "([{", ")]}"


def closing(code, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        if code[i] in OPEN:
            depth += 1
        elif code[i] in CLOSE:
            depth -= 1
            if not depth:
                return i
    raise ValueError("no closing bracket")


def find(code, wanted, begin, end):
    """The first of the wanted characters outside brackets in code[begin:end]; end if there is none."""
    i = begin
    while i < end:
        if code[i] in wanted:
            return i
        i = closing(code, i) + 1 if code[i] in OPEN else i + 1
    return end


class Slots:
    """Finds the slots of a function's body: (begin, end, is_statement)."""

    def __init__(self, code):
        self.code, self.found = code, []

    def skip(self, i):
        while i < len(self.code) and self.code[i].isspace():
            i += 1
        return i

    def add(self, begin, end, is_statement=False):
        begin = self.skip(begin)
        while end > begin and self.code[end - 1].isspace():
            end -= 1
        if end > begin:
            self.found.append((begin, end, is_statement))

    def block(self, begin):
        end, i = closing(self.code, begin), self.skip(begin + 1)
        while i < end:
            i = self.skip(self.statement(i))
        return end + 1

    def statement(self, i):
        """Reads the statement at i, and returns the index behind it."""
        code = self.code
        if code[i] == "{":
            return self.block(i)
        word = WORD.match(code, i)
        name = word[0] if word else ""
        behind = self.skip(word.end()) if word else i
        if name in ("if", "while", "switch", "for"):
            return self.controlled(name, behind)
        if name == "do":
            i = self.skip(self.statement(behind)) + len("while")
            i = self.skip(i)
            self.add(i + 1, closing(code, i))
            return find(code, ";", i, len(code)) + 1
        if name in ("case", "default") or name and code[behind] == ":":
            return find(code, ":", i, len(code)) + 1
        if name and code[behind] == "(":
            after = self.skip(closing(code, behind) + 1)
            if code[after] == "{": # a macro that expands to a loop
                return self.statement(after)
        end = find(code, ";", i, len(code))
        if name == "return":
            self.add(behind, end)
        elif name not in ("goto", "break", "continue"):
            self.simple(i, end)
        return end + 1

    def controlled(self, name, i):
        code, end = self.code, closing(self.code, i)
        if name == "for":
            first = find(code, ";", i + 1, end)
            second = find(code, ";", first + 1, end)
            self.simple(self.skip(i + 1), first)
            self.add(first + 1, second)
            self.add(second + 1, end, True)
        else:
            self.add(i + 1, end)
        i = self.statement(self.skip(end + 1))
        following = self.skip(i)
        if name == "if" and WORD.match(code, following) and WORD.match(code, following)[0] == "else":
            return self.statement(self.skip(following + len("else")))
        return i

    def simple(self, begin, end):
        code = self.code[begin:end]
        if CONSTANT.match(code) or ASM.match(code):
            return
        if not DECLARATION.match(code):
            self.add(begin, end, True)
            return
        while begin < end:
            comma = find(self.code, ",", begin, end)
            equals = find(self.code, "=", begin, comma)
            if equals < comma:
                self.initialiser(equals + 1, comma)
            begin = comma + 1

    def initialiser(self, begin, end):
        begin = self.skip(begin)
        if begin >= end or self.code[begin] != "{":
            self.add(begin, end)
            return
        end, begin = closing(self.code, begin), begin + 1
        while begin < end:
            comma = find(self.code, ",", begin, end)
            begin = self.skip(begin)
            if begin < comma and self.code[begin] in ".[":
                begin = find(self.code, "=", begin, comma) + 1
            self.initialiser(begin, comma)
            begin = comma + 1


def slots(text):
    """The slots of a source, in order, and how many functions could not be read."""
    code, unread, found = skeleton(text), 0, []
    for body in BODY.finditer(code):
        reader = Slots(code[:body.end()])
        try:
            reader.block(body.start())
            found += [s for s in reader.found if not re.search(r"^[ \t]*#", text[s[0]:s[1]], re.M)]
        except (ValueError, IndexError):
            unread += 1
    return sorted(found), unread


COMMENT = re.compile(r'("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')|/\*.*?\*/|//[^\n]*', re.S)


def one_line(text):
    return " ".join(COMMENT.sub(lambda found: found[1] or " ", text).split())


def choice(text, slot, first, changes):
    """The slot's text with its changes, numbered from first on; the lines stay as they are."""
    begin, end, is_statement = slot
    kind = "(void)" if is_statement else ""
    variants = []
    for at, stop, new in changes:
        variant = one_line(text[begin:at] + new + text[stop:end])
        variants.append(f"{kind}({variant})" if variant else "(void)0")
    chain = "".join(f"hmreg_mutant == {first + i} ? {v} : " for i, v in enumerate(variants[:-1]))
    return f"(hmreg_in({first}, {len(changes)}) ? {chain}{variants[-1]} : {kind}({text[begin:end]}))"


def slot_of(found, change):
    """The slot that contains a change."""
    return next((s for s in found if s[0] <= change[0] and change[1] <= s[1]), None)


def instrument(text, changes, first, broken=()):
    """The text with all changes that lie in slots (but broken ones), and {change: (number, its slot's)}."""
    found = [s for s in slots(text)[0] if s not in broken]
    inside = {}
    for change in changes:
        slot = slot_of(found, change)
        if slot:
            inside.setdefault(slot, []).append(change)
    pieces, numbers, at = [], {}, 0
    for slot in sorted(inside):
        pieces += [text[at:slot[0]], choice(text, slot, first, inside[slot])]
        numbers.update((change, (first + i, first)) for i, change in enumerate(inside[slot]))
        first += len(inside[slot])
        at = slot[1]
    return "".join(pieces) + text[at:], numbers
