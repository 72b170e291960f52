/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See app.h.
 */
#include "tests/gpu/rocr/app.h"

#include <dlfcn.h>

struct app app;

static hsa_status_t meet_agent(hsa_agent_t agent, void *data)
{
    hsa_device_type_t type;
    hsa_status_t status = app.hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);

    if (type == HSA_DEVICE_TYPE_CPU)
        app.cpu = agent;
    else
        app.gpus[app.gpu_count++] = agent;
    return status;
}

static void load(void)
{
    void *handle = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct fake_control *(*control)(void);

    assert_non_null(handle);
#define APP_LOAD(call) app.call = (__typeof__(app.call))dlsym(handle, #call);
    APP_CALLS(APP_LOAD)
    control = (__typeof__(control))dlsym(handle, "hmreg_fake_control");
    assert_non_null(control);
    app.fake = control();
    app.on_register = dlsym(handle, "hmreg_fake_hsa_on_register");
    assert_non_null(app.on_register);
    dlclose(handle);
}

void app_start(void)
{
    if (!app.hsa_init)
        load();
    app.fake->reset();
    app.gpu_count = 0;
    assert_int_equal(app.hsa_init(), HSA_STATUS_SUCCESS);
    assert_int_equal(app.hsa_iterate_agents(meet_agent, NULL), HSA_STATUS_SUCCESS);
}

static struct hmem *opened;

void app_closed(void)
{
    opened = NULL;
}

void app_stop(void)
{
    app_closed();
    app.fake->reset();
    assert_int_equal(app.fake->allocations(), 0);
    assert_int_equal(app.hsa_shut_down(), HSA_STATUS_SUCCESS);
    assert_int_equal(app.hsa_shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
}

void app_fail(const char *call, hsa_status_t status, int skip, int times)
{
    (app.fake->fail)(call, status, skip, times); /* cmocka has a macro of this name */
}

static void close_opened(void)
{
    if (opened)
        app_close(opened);
}

struct hmem *app_open(void)
{
    struct hmem *rocr = NULL;

    app_start();
    test_after(close_opened);
    assert_ok(hmem_rocr_ops.open(&rocr));
    assert_non_null(rocr);
    opened = rocr;
    return rocr;
}

void app_close(struct hmem *rocr)
{
    hmem_rocr_ops.close(rocr);
    app_stop();
}

/* ---- memory ----------------------------------------------------------------------------- */

struct search {
    uint32_t flag;
    hsa_amd_memory_pool_t found;
};

static hsa_status_t consider(hsa_amd_memory_pool_t pool, void *data)
{
    struct search *search = data;
    hsa_amd_segment_t segment;
    uint32_t flags = 0;

    app.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    if (segment != HSA_AMD_SEGMENT_GLOBAL)
        return HSA_STATUS_SUCCESS;
    app.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    if (flags == search->flag || (flags & search->flag && !search->found.handle))
        search->found = pool;
    return HSA_STATUS_SUCCESS;
}

hsa_amd_memory_pool_t app_pool(hsa_agent_t agent, uint32_t flag)
{
    struct search search = {.flag = flag};

    assert_int_equal(app.hsa_amd_agent_iterate_memory_pools(agent, consider, &search), 0);
    assert_int_not_equal(search.found.handle, 0);
    return search.found;
}

static void *alloc_from(hsa_agent_t agent, uint32_t flags, size_t len)
{
    void *made = NULL;

    assert_int_equal(app.hsa_amd_memory_pool_allocate(app_pool(agent, flags), len, 0, &made), 0);
    return made;
}

void *app_alloc(unsigned gpu, size_t len)
{
    return alloc_from(app.gpus[gpu], HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, len);
}

void *app_alloc_host(size_t len)
{
    return alloc_from(app.cpu, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, len);
}

void app_free(void *addr)
{
    assert_int_equal(app.hsa_amd_memory_pool_free(addr), HSA_STATUS_SUCCESS);
}

struct hmem_range app_resolve(struct hmem *rocr, const void *addr, size_t len)
{
    struct hmem_range range = {0};

    assert_ok(hmem_rocr_ops.resolve(rocr, at(addr), len, &range));
    return range;
}

void app_fill(void *device, size_t len, unsigned seed)
{
    unsigned char *bytes = malloc(len);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i, seed);
    assert_int_equal(app.hsa_memory_copy(device, bytes, len), HSA_STATUS_SUCCESS);
    free(bytes);
}

void app_check(const void *device, size_t len, unsigned seed)
{
    unsigned char *bytes = calloc(1, len);

    assert_non_null(bytes);
    assert_int_equal(app.hsa_memory_copy(bytes, device, len), HSA_STATUS_SUCCESS);
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern(i, seed))
            fail_msg("byte %zu is %#x, not %#x", i, bytes[i], pattern(i, seed));
    free(bytes);
}
