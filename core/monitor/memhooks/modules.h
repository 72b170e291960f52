/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The files that the dynamic linker has loaded into this process, in all its link namespaces:
 * dlmopen(3) and LD_AUDIT load into others than the program's, with a libc of their own.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_MODULES_H
#define HMREG_CORE_MONITOR_MEMHOOKS_MODULES_H

#include <link.h>
#include <stdbool.h>

struct module {
    const char *file; /* "": the program */
    const struct link_map *map;
    bool stays; /* of the program's link namespace, of this library's, or of an auditor's: never
                   unloaded */
};

/* Calls look() for each file, until it returns nonzero, and returns that; last with NULL if more
 * files are loaded than the linker shows: before glibc 2.35 it hides the files of other namespaces.
 * The linker's list is locked meanwhile: nothing is loaded or unloaded. look() may not load or
 * unload, nor call dlsym(3) or dladdr(3). A statically linked program has no files. */
int modules_each(int (*look)(const struct module *module, void *arg), void *arg);

/* Finds a function that the file itself defines. NULL: it has none of that name. */
const ElfW(Sym) * module_function(const struct module *module, const char *name);

/* Returns what changes mappings past every hook in libc, by its usual name: a sanitizer's runtime,
 * a Go runtime. *file: where it is, valid as long as that file is loaded. NULL: none is known. */
const char *modules_bypass(const char **file);

#endif
