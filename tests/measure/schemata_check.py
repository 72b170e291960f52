# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""schemata_check.py FOLDER: each change of a program that is chosen at run time does what it does when it is
written into the program.
"""
import os
import subprocess
import sys

from mutations import mutations
from schemata import HEADER, instrument

TEXT = r"""
int printf(const char *format, ...);
void exit(int status);
struct pair { int a, b; };
static const int fixed[2] = {3, 4};

static void show(int value)
{
    static unsigned lines = 1;

    lines += lines;
    if (!lines)
        exit(7);
    printf("%d ", value); /* a < b */
}

static struct pair pair_of(int a, int b)
{
    struct pair made = {.a = a + 1, b - 1}, *at = &made;

    if (a == 2 || !b)
        show(a);
    else if (b > 3)
        show(b);
    for (int i = 0; i < 2; i++)
        show(fixed[i & 1]);
    do {
        show(at->b);
    } while (--made.b > 0);
    switch (a + 2) {
    case 3:
        show(a -
             at->b); // a + b
        break;
    default:
        at->a += 2;
    }
    return at->a < 4 ? made : (struct pair){0, 1};
}

int main(void)
{
    struct pair all[5] = {pair_of(1, 2), pair_of(2, 0), pair_of(0, 4)};
    for (unsigned i = 0; i < 3; i++)
        printf("%d %d,", all[i].a, all[i].b);
    return 0;
}
"""


def output(program, number):
    done = subprocess.run(["./" + program], env={"HMREG_MUTANT": str(number)}, stdout=subprocess.PIPE, check=False)
    return done.returncode, done.stdout


def compiled(text, name):
    subprocess.run(["cc", "-w", "-x", "c", "-o", name, "-"], input=text, text=True, check=True)
    return name


def main():
    os.chdir(sys.argv[1])
    changes = list(mutations(TEXT))
    text, numbers = instrument(TEXT, changes, 1)
    every = compiled(f"#define HMREG_MUTANTS {len(changes)}\n{HEADER}{text}", "every")
    assert output(every, 0) == output(compiled(TEXT, "none"), 0)
    outside = {TEXT[begin:end] for begin, end, new in changes if (begin, end, new) not in numbers}
    assert outside == {"1", "2", "3", "4", "5"}, outside
    for (begin, end, new), (number, _) in numbers.items():
        written = output(compiled(TEXT[:begin] + new + TEXT[end:], "one"), 0)
        assert output(every, number) == written, (TEXT[begin - 20:end], new)
    assert len({output(every, number) for number, _ in numbers.values()}) > len(numbers) / 2


main()
