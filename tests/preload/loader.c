/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A program that does not link libibverbs, and loads a module that does: loader MODULE SCENARIO. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*run)(char **) = module ? (int (*)(char **))dlsym(module, "scenario") : NULL;

    if (run)
        return run(argv + 1);
    fprintf(stderr, "loader: %s\n", dlerror());
    return 96;
}
