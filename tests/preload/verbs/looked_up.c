/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See calls.h: libibverbs is loaded, by the name that VERBS_LIBRARY has or else its own, and its
 * functions are looked up; with VERBS_VERSIONED by their versions.
 */
#include "tests/preload/verbs/calls.h"
#include "tests/support/test.h"

#include <dlfcn.h>

struct calls ib;

static void *library;

static void *find(const char *name, const char *version)
{
    void *found = getenv("VERBS_VERSIONED") ? dlvsym(library, name, version) : dlsym(library, name);

    if (!found)
        fail_msg("%s", dlerror());
    return found;
}

#define FIND(field, version) ib.field = find("ibv_" #field, version)

void calls_find(void)
{
    const char *name = getenv("VERBS_LIBRARY");

    library = dlopen(name ? name : "libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    FIND(get_device_list, "IBVERBS_1.1");
    FIND(free_device_list, "IBVERBS_1.1");
    FIND(open_device, "IBVERBS_1.1");
    FIND(close_device, "IBVERBS_1.1");
    FIND(alloc_pd, "IBVERBS_1.1");
    FIND(dealloc_pd, "IBVERBS_1.1");
    FIND(unimport_pd, "IBVERBS_1.10");
    FIND(reg_mr, "IBVERBS_1.1");
    FIND(reg_mr_iova, "IBVERBS_1.7");
    FIND(reg_mr_iova2, "IBVERBS_1.8");
    FIND(reg_buf_mr, "IBVERBS_1.17");
    FIND(reg_dmabuf_mr, "IBVERBS_1.12");
    FIND(rereg_mr, "IBVERBS_1.1");
    FIND(dereg_mr, "IBVERBS_1.1");
    FIND(fork_init, "IBVERBS_1.1");
    ib.fake = dlsym(library, FAKE_IBVERBS_SYMBOL);
}
