/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * outside_inlined FILE...: prints the first system call of its own that the search of loaded code
 * finds in each ELF file (core/patch/inlined.h), or "none". See inlined_packages.
 */
#include "core/patch/inlined.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void look(const char *name, const uint8_t *file, size_t size)
{
    const Elf64_Ehdr *header = (const void *)file;
    const Elf64_Phdr *segment = (const void *)(file + header->e_phoff);
    struct inlined_call call;

    for (unsigned i = 0; i < header->e_phnum; i++, segment++) {
        const uint8_t *start = file + segment->p_offset;

        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
            segment->p_offset + segment->p_filesz > size ||
            !inlined_next(start, start + segment->p_filesz, &call))
            continue;
        printf("%s: %s at 0x%llx\n", name, call.name,
               (unsigned long long)segment->p_vaddr + (unsigned long long)(call.at - start));
        return;
    }
    printf("%s: none\n", name);
}

int main(int count, char **names)
{
    for (int i = 1; i < count; i++) {
        int fd = open(names[i], O_RDONLY | O_CLOEXEC);
        struct stat stat;
        void *file;

        if (fd < 0 || fstat(fd, &stat)) {
            perror(names[i]);
            return 1;
        }
        file = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (file == MAP_FAILED)
            return 1;
        if (memcmp(file, ELFMAG "\2\1", SELFMAG + 2) == 0)
            look(names[i], file, (size_t)stat.st_size);
        munmap(file, (size_t)stat.st_size);
    }
    return 0;
}
