/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A program that links libibverbs. */
#include "tests/preload/scenario.h"

int main(int argc, char **argv)
{
    return scenario(argv);
}
