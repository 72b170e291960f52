/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See virtual.h.
 */
#include "tests/rdma/virtual.h"

#include "tests/support/test.h"

#include <dlfcn.h>

struct virtual_driver cu;

void virtual_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *entry;

    assert_non_null(library);
#define LOAD(member, name, parameters)                                                             \
    entry = dlsym(library, #name);                                                                 \
    memcpy(&cu.member, &entry, sizeof(entry));
    CUDA_ENTRIES(LOAD, LOAD)
    CUDA_TEST_ENTRIES(LOAD)
    assert_int_equal(cu.init(0), CUDA_OK);
    dlclose(library); /* the library under test has it open */
}

void virtual_map(unsigned long long addr, size_t len, int device)
{
    struct cuda_memory_prop prop = {
        .type = CUDA_MEMORY_PINNED, .location = {CUDA_LOCATION_DEVICE, device}, .gpudirect = 1};
    struct cuda_access access = {prop.location, CUDA_ACCESS_READWRITE};
    unsigned long long handle = 0;

    assert_int_equal(cu.create(&handle, len, &prop, 0), CUDA_OK);
    assert_int_equal(cu.map(addr, len, 0, handle, 0), CUDA_OK);
    assert_int_equal(cu.handle_release(handle), CUDA_OK);
    assert_int_equal(cu.set_access(addr, len, &access, 1), CUDA_OK);
}
