/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For LD_PRELOAD in the guest: ibv_reg_dmabuf_mr() on Soft-RoCE. Its kernel driver takes dmabufs
 * there (simulated/guest/kmod), but rdma-core's provider lacks the operation and answers
 * EOPNOTSUPP. Then this function calls the kernel by libibverbs' own ibv_cmd_reg_dmabuf_mr(), which
 * is private to its providers but exported, and creates an object that rxe's dereg accepts.
 *
 * Programs that load libibverbs themselves look the function up by dlsym() or dlvsym(), so these
 * two are interposed as well; libc's own are found in its symbol table. A sanitizer may call them
 * before anything is initialized, so the code below that serves them does not use libc.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>

/* rdma-core's struct verbs_mr, with room for what newer ones add. */
struct made {
    struct ibv_mr mr;
    int type, access;
    void *later[4];
};

typedef struct ibv_mr *reg_call(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
typedef int command_call(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int, struct made *,
                         void *driver);

static void *(*libc_dlsym)(void *, const char *);
static void *(*libc_dlvsym)(void *, const char *, const char *);

/* ---- libc's symbols --------------------------------------------------------------------- */

static bool equal(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static const struct link_map *libc(void)
{
    const struct link_map *map = _r_debug.r_map;

    for (; map; map = map->l_next) {
        const char *base = map->l_name;

        for (const char *c = base; *c; c++)
            if (*c == '/')
                base = c + 1;
        if (equal(base, "libc.so.6"))
            return map;
    }
    __builtin_trap();
}

static const void *section(const struct link_map *map, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag; entry++)
        if (entry->d_tag == tag)
            return (const void *)entry->d_un.d_ptr;
    __builtin_trap();
}

/* One more than the last symbol, from a table of the kind DT_GNU_HASH: header, filter, buckets,
 * chains, of which each ends with an odd number. */
static uint32_t symbol_count(const uint32_t *hash)
{
    const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(size_t) / sizeof(*hash));
    const uint32_t *chains = buckets + hash[0];
    uint32_t last = 0;

    for (uint32_t i = 0; i < hash[0]; i++)
        if (buckets[i] > last)
            last = buckets[i];
    while (!(chains[last - hash[1]] & 1))
        last++;
    return last + 1;
}

static void *libc_symbol(const char *name)
{
    const struct link_map *map = libc();
    const ElfW(Sym) *symbols = section(map, DT_SYMTAB);
    const char *names = section(map, DT_STRTAB);
    const uint32_t *hash = section(map, DT_GNU_HASH);
    uint32_t count = symbol_count(hash);

    for (uint32_t i = hash[1]; i < count; i++)
        if (symbols[i].st_shndx && equal(names + symbols[i].st_name, name))
            return (void *)(map->l_addr + symbols[i].st_value);
    __builtin_trap();
}

__attribute__((constructor)) static void init(void)
{
    if (libc_dlsym)
        return;
    libc_dlvsym = libc_symbol("dlvsym");
    libc_dlsym = libc_symbol("dlsym");
}

/* ---- the call --------------------------------------------------------------------------- */

static void *of_libibverbs(const char *name)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found;

    init();
    found = library ? libc_dlsym(library, name) : NULL;
    if (library)
        dlclose(library);
    return found;
}

static struct ibv_mr *call_kernel(command_call *command, struct ibv_pd *pd, uint64_t offset,
                                  size_t length, uint64_t iova, int fd, int access)
{
    struct made *made = calloc(1, sizeof(*made));
    int saved = errno, errnum;

    if (!made)
        return NULL;
    errnum = command(pd, offset, length, iova, fd, access, made, NULL);
    if (errnum) {
        free(made);
        errno = errnum;
        return NULL;
    }
    made->mr.context = pd->context;
    made->mr.pd = pd;
    made->mr.addr = (void *)(uintptr_t)offset; /* as libibverbs has it */
    made->mr.length = length;
    errno = saved;
    return &made->mr;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access)
{
    reg_call *real = (reg_call *)of_libibverbs("ibv_reg_dmabuf_mr");
    command_call *command = (command_call *)of_libibverbs("ibv_cmd_reg_dmabuf_mr");
    struct ibv_mr *mr;

    if (!real || !command) {
        errno = ENOSYS;
        return NULL;
    }
    mr = real(pd, offset, length, iova, fd, access);
    if (mr || errno != EOPNOTSUPP)
        return mr;
    return call_kernel(command, pd, offset, length, iova, fd, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    return reg_dmabuf_mr(pd, offset, length, iova, fd, access);
}

/* ---- lookup by name --------------------------------------------------------------------- */

/* By its own name the function could be that of a library before this one in LD_PRELOAD.
 * The last calls are tail calls (-O2): the real functions look at their caller for RTLD_NEXT. */
void *dlsym(void *handle, const char *name)
{
    init();
    if (equal(name, "ibv_reg_dmabuf_mr") && libc_dlsym(handle, name))
        return (void *)reg_dmabuf_mr;
    return libc_dlsym(handle, name);
}

void *dlvsym(void *handle, const char *name, const char *version)
{
    init();
    if (equal(name, "ibv_reg_dmabuf_mr") && libc_dlvsym(handle, name, version))
        return (void *)reg_dmabuf_mr;
    return libc_dlvsym(handle, name, version);
}
