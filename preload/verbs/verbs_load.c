/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Loads libhmreg-preload-verbs.so at the first call, from the folder of the library that this file
 * is part of. The dynamic linker ignores LD_PRELOAD in a set-user-ID process, so the environment
 * cannot choose that folder there.
 */
#include "preload/untraced.h"
#include "preload/verbs/verbs_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic(const struct verbs_calls *) found;

/* The path of libhmreg-preload-verbs.so, beside this library. False: too long. */
static int path_of_work(char *path, size_t room)
{
    const char *slash;
    Dl_info self;
    int length;

    if (!dladdr((const void *)&verbs_real, &self))
        return 0;
    slash = strrchr(self.dli_fname, '/');
    length = snprintf(path, room, "%.*s%s", slash ? (int)(slash - self.dli_fname) + 1 : 0,
                      self.dli_fname, VERBS_WORK_LIBRARY);
    return length > 0 && (size_t)length < room;
}

static const struct verbs_calls *load(void)
{
    const struct verbs_calls *calls = NULL;
    hmreg_preload_verbs_call *get;
    char path[4096];
    bool known = path_of_work(path, sizeof(path));
    void *library;

    library = known ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library && hmreg_preload_untraced)
        hmreg_preload_untraced(RECORD_UNTRACED_LIBRARY, known && access(path, R_OK) ? errno : 0);
    if (library) {
        get = (hmreg_preload_verbs_call *)dlsym(library, VERBS_WORK_SYMBOL);
        calls = get ? get(&verbs_real) : NULL;
    }
    return calls ? calls : &verbs_real;
}

const struct verbs_calls *verbs_calls(void)
{
    const struct verbs_calls *calls = atomic_load_explicit(&found, memory_order_acquire);
    int error = errno;

    if (calls)
        return calls;
    calls = load();
    atomic_store_explicit(&found, calls, memory_order_release);
    errno = error;
    return calls;
}
