# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Changes of one place of a C source that the tests should notice: another comparison, && for ||, + for
-, another number, a condition negated, a call left out. Nothing in comments, strings, preprocessor
lines and assertions.
"""
import re

SWAPS = {" == ": " != ", " != ": " == ", " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ",
         " && ": " || ", " || ": " && ", " + ": " - ", " - ": " + ", "++": "--", "--": "++",
         " += ": " -= ", " -= ": " += ", "true": "false", "false": "true"}
SWAP = re.compile(r" (?:[=!<>+-]=|<|>|&&|\|\||\+|-) |\+\+|--|\btrue\b|\bfalse\b")
NUMBER = re.compile(r"(?<![\w.])\d+(?=[uUlL]*\b)(?!\.)")
NOT = re.compile(r"!(?=[\w(*])")
ASSERT = re.compile(r"\b(?:static_)?assert(?=\()")
TEST = re.compile(r"\b(?:if|while) \(")
CALL = re.compile(r"(?<=[;{}):])\s*\n[ \t]+([a-z_]\w*(?:\.\w+|->\w+)*\()")
BLACK = re.compile(r"[^\n]")
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^[ \t]*#(?:\\\n|[^\n])*',
                     re.S | re.M)


def close(text, at):
    """The place behind the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def blank(match):
    return BLACK.sub(" ", match[0])


def skeleton(text):
    """The text, of the same length, with digits for strings and nothing for comments and directives."""
    return NO_CODE.sub(lambda found: "0" * len(found[0]) if found[0][0] in "\"'" else blank(found), text)


def mutations(text):
    """(begin, end, replacement) for each change of one place of this text."""
    code = NO_CODE.sub(blank, text)
    for found in list(ASSERT.finditer(code)):
        end = close(code, found.end())
        code = code[:found.start()] + BLACK.sub(" ", code[found.start():end]) + code[end:]
    for found in SWAP.finditer(code):
        yield found.start(), found.end(), SWAPS[found[0]]
    for found in NUMBER.finditer(code):
        if not found[0].startswith("0") or found[0] == "0":
            yield found.start(), found.end(), str(int(found[0]) + 1)
            if found[0] == "1":
                yield found.start(), found.end(), "0"
    for found in NOT.finditer(code):
        yield found.start(), found.end(), ""
    for found in TEST.finditer(code):
        end = close(code, found.end() - 1)
        yield found.end(), end - 1, "!(" + text[found.end():end - 1] + ")"
    for found in CALL.finditer(code):
        end = close(code, found.end() - 1)
        if code[end:end + 1] == ";":
            yield found.start(1), end, BLACK.sub("", text[found.start(1):end])
