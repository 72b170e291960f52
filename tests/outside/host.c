/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * outside_host MODULE: a program that is not linked with hmreg. It loads a plugin that uses it,
 * runs it, unloads it and continues without it; several times.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TIMES 4

static int run_plugin(const char *file)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    int (*run)(void), rc;

    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    run = (int (*)(void))dlsym(handle, "outside_run");
    rc = run ? run() : 1;
    dlclose(handle);
    return rc;
}

/* libc's calls work as before the plugin was loaded. */
static int go_on(void)
{
    size_t len = 1 << 20;
    char *block = malloc(len);
    void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (!block || map == MAP_FAILED)
        return 1;
    memset(block, 1, len);
    free(block);
    return madvise(map, len, MADV_DONTNEED) || munmap(map, len);
}

int main(int argc, char **argv)
{
    for (int i = 0; argc == 2 && i < TIMES; i++)
        if (run_plugin(argv[1]) || go_on())
            return 1;
    return argc != 2;
}
