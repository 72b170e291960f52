/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A loaded library's own name. Its file's name does not identify it: a program may have loaded it
 * as libcuda.so, or by the path of libcuda.so.550.54.15.
 *
 * Inline: each of our libraries looks for runtimes, and they share no private function for it.
 */
#ifndef HMREG_CORE_BASE_SONAME_H
#define HMREG_CORE_BASE_SONAME_H

#include <link.h>
#include <stddef.h>

/* Call in a callback of dl_iterate_phdr(3). NULL: the library has no soname. */
static inline const char *soname_of(const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *entry = NULL;
    ElfW(Addr) strings = 0, soname = 0;

    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            strings = entry->d_un.d_ptr;
        if (entry->d_tag == DT_SONAME)
            soname = entry->d_un.d_val;
    }
    if (strings < info->dlpi_addr) /* the linker did not relocate it: the vDSO's */
        strings += info->dlpi_addr;
    return soname ? (const char *)(strings + soname) : NULL;
}

#endif
