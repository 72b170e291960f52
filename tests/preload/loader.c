/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A program that does not link libibverbs. It loads a module that does: loader MODULE SCENARIO; or
 * libibverbs, whose functions it looks up: loader libibverbs.so.1. */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#undef ibv_reg_mr

#define FIND(name) name##_type name = (name##_type)dlsym(library, "ibv_" #name)

typedef struct ibv_device **(*get_device_list_type)(int *);
typedef struct ibv_context *(*open_device_type)(struct ibv_device *);
typedef struct ibv_pd *(*alloc_pd_type)(struct ibv_context *);
typedef struct ibv_mr *(*reg_mr_type)(struct ibv_pd *, void *, size_t, int);
typedef int (*dereg_mr_type)(struct ibv_mr *);

static int register_twice(void *library)
{
    static char memory[4096];
    FIND(get_device_list);
    FIND(open_device);
    FIND(alloc_pd);
    FIND(reg_mr);
    FIND(dereg_mr);
    struct ibv_pd *pd = alloc_pd(open_device(get_device_list(NULL)[0]));

    for (int i = 0; i < 2; i++) {
        struct ibv_mr *mr = reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);

        if (!mr || dereg_mr(mr))
            return 95;
    }
    return 0;
}

int main(int argc, char **argv)
{
    void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*run)(char **) = module ? (int (*)(char **))dlsym(module, "scenario") : NULL;

    if (run)
        return run(argv + 1);
    if (module && !strcmp(argv[1], "libibverbs.so.1"))
        return register_twice(module);
    fprintf(stderr, "loader: %s\n", dlerror());
    return 96;
}
