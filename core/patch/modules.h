/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The files that the dynamic linker has loaded into this process, in all its link namespaces:
 * dlmopen(3) and LD_AUDIT load into other namespaces than the program's, with a libc of their own.
 */
#ifndef HMREG_CORE_PATCH_MODULES_H
#define HMREG_CORE_PATCH_MODULES_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct module {
    const char *file; /* "": the program */
    const struct link_map *map;
    bool all_stay; /* of the program's link namespace, of this library's, or of an auditor's: their
                      libc is never unloaded */
};

/* The number of files that the linker has entered in its lists so far, and of those in them now. */
struct modules_count {
    uint64_t added, listed;
};

/* Are the linker's lists unchanging? During a change (struct r_debug: RT_ADD, RT_DELETE) files are
 * mapped that are in no list yet. True: files mapped before the call are listed, and each list read
 * later has them. Before glibc 2.35 this sees the program's namespace only. Sets *now in any
 * case. */
bool modules_are_settled(struct modules_count *now);

/* Is the file mapped at this address listed, or not mapped any more (*gone)? glibc maps a file
 * before it says RT_ADD and enters it. Before glibc 2.35: true. */
bool modules_have(uint64_t address, bool *gone);

/* Is code of an unlisted file mapped, which the linker may be about to enter? Reads the kernel's
 * list of mappings; false if there is none, and before glibc 2.35. */
bool modules_is_one_unlisted(void);

/* Calls look() for each file, until it returns nonzero, and returns that; last with NULL if more
 * files are loaded than the linker shows: before glibc 2.35 it hides the files of other namespaces.
 * The linker's list is locked meanwhile: nothing is loaded or unloaded. look() may not load or
 * unload, nor call dlsym(3) or dladdr(3). A statically linked program has no files. */
int modules_each(int (*look)(const struct module *module, void *arg), void *arg);

/* Is the file never unloaded: the program, or linked with -z nodelete? */
bool module_stays(const struct module *module);

/* Finds a function that the file itself defines and exports. Several versions may share the name:
 * the one after `nth` others. NULL: there is none. Its type may be STT_GNU_IFUNC: then its value is
 * the function's resolver. */
const ElfW(Sym) * module_function(const struct module *module, const char *name, unsigned nth);

/* The executable segment of a file of the program's link namespace. */
struct module_text {
    const char *file; /* as in struct module */
    uint64_t start, end;
};

/* Finds the segment that contains the address. False: it is in no file's. */
bool module_text(uint64_t address, struct module_text *out);

/* Finds the dynamic linker's segment. False: a statically linked program has none. */
bool modules_linker(struct module_text *out);

/* Keeps the file loaded that this code is in. False: it is being unloaded, or no file's. */
bool module_keep(const void *code);

#endif
