# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prints a C file that compiles if rust/hmreg-sys/src/bindings.rs declares what the headers do: sizes, offsets and
types of fields, types of functions, values of constants. Fails if a name of the headers is absent.

    bindings.py BINDINGS HEADER..."""
import re
import sys

# bindgen puts an underscore behind names that are words of Rust, such as priv.
text = re.sub(r"\b(\w+)_:", r"\1:", open(sys.argv[1]).read())
NUMBERS = {"u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "i64": "int64_t",
           "usize": "size_t", "c_void": "void", "c_char": "char", "c_int": "int", "c_uint": "unsigned int",
           "c_ulong": "unsigned long", "c_long": "long"}
enums = set(re.findall(r"pub type ((?:hmreg|ibv)_\w+) = ", text))
unions = dict.fromkeys(re.findall(r"pub union (\w+) ", text))


def split(items):
    """At the commas that are in no parentheses."""
    parts, depth = [""], 0
    for token in re.findall(r"->|.", items, re.S):
        depth += (token in "([<") - (token in ")]>")
        if token == "," and not depth:
            parts.append("")
        else:
            parts[-1] += token
    return [p.strip() for p in parts if p.strip()]


def of_function(arguments, result):
    """Of fn(ARGUMENTS) -> RESULT: a function's type in C, which goes around a name."""
    given = ", ".join(of(a.split(":", 1)[1].strip()) for a in split(arguments)) or "void"
    return f"__typeof__({of(result or 'c_void')} (*)({given}))"


def of(rust):
    """A type in C."""
    rust = re.sub(r"^(?:::)?std::os::raw::", "", rust)
    if found := re.match(r"\*(mut|const) (.*)$", rust):
        # Of a pointer to const, the const is behind what it points to.
        return of(found[2]) + (" const *" if found[1] == "const" else " *")
    if found := re.match(r"\[(.*); (\d+)usize\]$", rust):
        return f"__typeof__({of(found[1])}[{found[2]}])"
    if found := re.match(r'::std::option::Option<\s*unsafe extern "C" fn\((.*)\)(?: -> ([^,>]*))?,?\s*>$', rust, re.S):
        return of_function(found[1], found[2])
    if rust in NUMBERS:
        return NUMBERS[rust]
    if rust in unions:
        return f"__typeof__({unions[rust]})"
    return ("enum " if rust in enums else "struct ") + rust


def must(condition, what):
    print(f'_Static_assert({condition}, "{what}");')


print("#include <stddef.h>\n#include <stdint.h>\n#include <sys/uio.h>")
for header in sys.argv[2:]:
    print(f"#include <hmreg/{header.rsplit('/', 1)[-1]}>")

structs = re.findall(r"pub struct (hmreg\w*) \{\n(.*?)\n\}", text, re.S)
bodies = [(name, split(fields)) for name, fields in structs if "_unused" not in fields]
for name, fields in bodies:
    for field, kind in (f.removeprefix("pub ").split(": ", 1) for f in fields):
        if kind in unions:
            unions[kind] = f"((struct {name} *)0)->{field}"
for name, fields in bodies:
    pairs = [f.removeprefix("pub ").split(": ", 1) for f in fields]
    print(f"struct rust_{name} {{")
    for field, kind in pairs:
        print(f"    {of(kind)} {field};")
    print("};")
    must(f"sizeof(struct {name}) == sizeof(struct rust_{name})", f"size of {name}")
    for field, kind in pairs:
        must(f"offsetof(struct {name}, {field}) == offsetof(struct rust_{name}, {field})", f"place of {name}.{field}")
        must(f"__builtin_types_compatible_p(__typeof__(((struct {name} *)0)->{field}), {of(kind)})",
             f"type of {name}.{field}")

functions = re.findall(r"pub fn (\w+)\((.*?)\)(?: -> ([^;]*))?;", text, re.S)
for name, arguments, result in functions:
    must(f"__builtin_types_compatible_p(__typeof__(&{name}), {of_function(arguments, result)})", f"type of {name}")

constants = re.findall(r"pub const (HMREG_\w+): ([\w:]+) =\s+([^;]+);", text)
for name, kind, value in constants:
    must(f"{name} == ({of(kind)}){'-1' if value.endswith('MAX') else value + 'ull' * (value[0] != '-')}",
         f"value of {name}")

declared = "".join(open(header).read() for header in sys.argv[2:])
plain = re.sub(r"/\*.*?\*/", "", declared, flags=re.S)
names = {c[0] for c in constants} | {f[0] for f in functions} | {s[0] for s in structs}
wanted = set(re.findall(r"^#define (HMREG_\w+) ", plain, re.M)) | set(re.findall(r"^ +(HMREG_\w+) = ", plain, re.M))
inline = set(re.findall(r"^static inline .*?(hmreg_\w+)\(", plain, re.M))
wanted |= set(re.findall(r"^\w[^#\n(]*?\b(hmreg_\w+)\(", plain, re.M)) - inline
wanted |= set(re.findall(r"^struct (hmreg\w*)", plain, re.M))
absent = sorted(wanted - names)
if absent or len(functions) < 90 or len(bodies) < 25 or len(constants) < 150:
    sys.exit(f"absent: {absent}; {len(functions)} functions, {len(bodies)} structs, {len(constants)} constants")
