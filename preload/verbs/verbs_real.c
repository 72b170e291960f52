/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The functions that the program would bind to without this library: libibverbs' own, by their
 * version, or another interposing library's. RTLD_NEXT does not find a libibverbs that the program
 * loaded with dlopen(3); that one is looked up by name.
 */
#include "preload/verbs/verbs_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static _Atomic(void *) library;

static void *loaded(void)
{
    void *from = atomic_load(&library);

    if (!from) {
        from = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
        atomic_store(&library, from);
    }
    return from;
}

/* Does the name of the function's library begin with library_name? */
static bool is_of(void *function, const char *library_name)
{
    Dl_info info;
    const char *slash;

    if (!dladdr(function, &info))
        return false;
    slash = strrchr(info.dli_fname, '/');
    return !strncmp(slash ? slash + 1 : info.dli_fname, library_name, strlen(library_name));
}

/* Another library's dlvsym() may answer with the first definition of a name: ours. */
static void *skip_own_function(void *found)
{
    return found && is_of(found, "libhmreg-") ? NULL : found;
}

/* dlvsym() skips a definition without a version, but programs bind to it: so dlsym() first. */
static void *next_definition(const char *name, const char *version)
{
    void *any = skip_own_function(dlsym(RTLD_NEXT, name));

    return any && !is_of(any, "libibverbs.so")
               ? any
               : skip_own_function(dlvsym(RTLD_NEXT, name, version));
}

static void *find(_Atomic(void *) *cached, const char *name, const char *version)
{
    void *found = atomic_load_explicit(cached, memory_order_acquire), *from;
    int error = errno;

    if (found)
        return found;
    found = next_definition(name, version);
    from = found ? NULL : loaded();
    found = from ? skip_own_function(dlvsym(from, name, version)) : found;
    atomic_store_explicit(cached, found, memory_order_release);
    errno = found ? error : EOPNOTSUPP;
    return found;
}

/* Declares `call` in a function: libibverbs' function of this name and type; NULL with errno if it
 * has none. */
#define REAL(type, name, version)                                                                  \
    static _Atomic(void *) cached;                                                                 \
    type *call = (type *)find(&cached, name, version)

typedef struct ibv_mr *reg_type(struct ibv_pd *, void *, size_t, int);
typedef struct ibv_mr *iova_type(struct ibv_pd *, void *, size_t, uint64_t, int);
typedef struct ibv_mr *iova2_type(struct ibv_pd *, void *, size_t, uint64_t, unsigned);
typedef struct ibv_mr *ex_type(struct ibv_pd *, struct ibv_mr_init_attr *);
typedef struct ibv_mr *buf_type(struct ibv_pd *, struct ibv_buf *, void *, size_t, int);
typedef struct ibv_mr *dmabuf_type(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
typedef int rereg_type(struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int);
typedef int dereg_type(struct ibv_mr *);
typedef int pd_type(struct ibv_pd *);
typedef void unimport_type(struct ibv_pd *);
typedef int device_type(struct ibv_context *);

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access,
                             const void *caller)
{
    REAL(reg_type, "ibv_reg_mr", "IBVERBS_1.1");

    return call ? call(pd, addr, length, access) : NULL;
}

static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                  int access, const void *caller)
{
    REAL(iova_type, "ibv_reg_mr_iova", "IBVERBS_1.7");

    return call ? call(pd, addr, length, iova, access) : NULL;
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                   unsigned access, const void *caller)
{
    REAL(iova2_type, "ibv_reg_mr_iova2", "IBVERBS_1.8");

    return call ? call(pd, addr, length, iova, access) : NULL;
}

static struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr,
                                const void *caller)
{
    REAL(ex_type, "ibv_reg_mr_ex", "IBVERBS_1.15");

    return call ? call(pd, attr) : NULL;
}

static struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                                 int access, const void *caller)
{
    REAL(buf_type, "ibv_reg_buf_mr", "IBVERBS_1.17");

    return call ? call(pd, buf, addr, length, access) : NULL;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access, const void *caller)
{
    REAL(dmabuf_type, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");

    return call ? call(pd, offset, length, iova, fd, access) : NULL;
}

static int rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                    int access, const void *caller)
{
    REAL(rereg_type, "ibv_rereg_mr", "IBVERBS_1.1");

    return call ? call(mr, flags, pd, addr, length, access) : IBV_REREG_MR_ERR_INPUT;
}

static int dereg_mr(struct ibv_mr *mr, const void *caller)
{
    REAL(dereg_type, "ibv_dereg_mr", "IBVERBS_1.1");

    return call ? call(mr) : EOPNOTSUPP;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    REAL(pd_type, "ibv_dealloc_pd", "IBVERBS_1.1");

    return call ? call(pd) : EOPNOTSUPP;
}

static void unimport_pd(struct ibv_pd *pd)
{
    REAL(unimport_type, "ibv_unimport_pd", "IBVERBS_1.10");

    if (call)
        call(pd);
}

static int close_device(struct ibv_context *context)
{
    REAL(device_type, "ibv_close_device", "IBVERBS_1.1");

    return call ? call(context) : -1;
}

const struct verbs_calls verbs_real = {
    .reg_mr = reg_mr,
    .reg_mr_iova = reg_mr_iova,
    .reg_mr_iova2 = reg_mr_iova2,
    .reg_mr_ex = reg_mr_ex,
    .reg_buf_mr = reg_buf_mr,
    .reg_dmabuf_mr = reg_dmabuf_mr,
    .rereg_mr = rereg_mr,
    .dereg_mr = dereg_mr,
    .dealloc_pd = dealloc_pd,
    .unimport_pd = unimport_pd,
    .close_device = close_device,
};
