/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program's file: what the bytes make of a good ELF file or script, or the bytes alone. `hmreg
 * run` says whether a library can be loaded into it, and if not, why. Scripts may name the file
 * itself, and the shell; no other file of this machine is opened.
 */
#include <fcntl.h>

static int open_permitted(const char *path, int flags);
#define open open_permitted
#include "tools/run/run_program.c"
#undef open

#include "tests/fuzz/targets/target.h"

#include <sys/mman.h>

static char file_path[64];

static const struct {
    ElfW(Ehdr) header;
    ElfW(Phdr) parts[2];
    char linker[32];
} good = {
    .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
                           sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32},
#if defined(__x86_64__)
               .e_machine = EM_X86_64,
#elif defined(__aarch64__)
               .e_machine = EM_AARCH64,
#endif
               .e_phoff = sizeof(ElfW(Ehdr)),
               .e_phentsize = sizeof(ElfW(Phdr)),
               .e_phnum = 2},
    .parts = {{.p_type = PT_LOAD},
              {.p_type = PT_INTERP,
               .p_offset = sizeof(ElfW(Ehdr)) + 2 * sizeof(ElfW(Phdr)),
               .p_filesz = sizeof("/lib/ld-linux.so.2")}},
    .linker = "/lib/ld-linux.so.2",
};

/* "self" in a script is the file. */
static int open_permitted(const char *path, int flags)
{
    if (!strcmp(path, "self"))
        path = file_path;
    if (strcmp(path, file_path) && strcmp(path, "/bin/sh")) {
        errno = *path % 2 ? ENOENT : EACCES;
        return -1;
    }
    return (open)(path, flags);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    return 0;
}

static int make_file(struct input *input)
{
    enum { ELF, SCRIPT, BYTES, KINDS };
    uint8_t bytes[sizeof(good) + 64] = {0};
    int fd = memfd_create("program", MFD_CLOEXEC), kind = input_byte(input) % KINDS;

    PROMISED(fd >= 0);
    snprintf(file_path, sizeof(file_path), "/proc/self/fd/%d", fd);
    if (kind == BYTES) {
        PROMISED(write(fd, input->at, input->left) == (ssize_t)input->left);
        return fd;
    }
    if (kind == ELF)
        memcpy(bytes, &good, sizeof(good));
    else
        strcpy((char *)bytes, "#! self \n");
    input_patch(input, bytes, sizeof(bytes));
    PROMISED(write(fd, bytes, sizeof(bytes)) == sizeof(bytes));
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char *why = calloc(1, 512);
    int fd = make_file(&input), before = dup(fd), after;
    bool takes;

    PROMISED(why && before >= 0);
    close(before);
    takes = program_takes_libraries(file_path, why);
    PROMISED(takes || (why[0] && memchr(why, '\0', 512)));
    if (!size)
        PROMISED(takes);
    after = dup(fd);
    PROMISED(after == before); /* each descriptor was closed */
    close(after);
    close(fd);
    free(why);
    return 0;
}
