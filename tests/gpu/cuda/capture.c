/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Streams that are being captured to graphs: no call of hmreg breaks a capture, whichever thread
 * makes it and whichever captures. That other calls do shows how strict the driver is.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/support/queries.h"

#include <hmreg/loopback.h>

#define BYTES 100000

struct fixture {
    struct bench bench;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct cuda_stream *stream; /* it is being captured */
    uint64_t plain, mapped;
    size_t granule;
    unsigned result; /* of a call on another thread */
};

static struct fixture begin(unsigned mode)
{
    struct cuda_memory_prop prop = prop_on(0);
    struct hmreg_domain_config config = {
        .size = sizeof(config), .order = {HMREG_PATH_MAPPED}, .sync_memops = HMREG_CHOICE_ON};
    struct fixture fixture = {.result = 0};

    fixture.bench = bench_begin();
    if (!cu.capture_begin || !cu.capture_mode)
        test_skip("this driver captures no streams");
    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, &config, &fixture.domain));
    fixture.plain = cu_alloc(BYTES);
    fixture.granule = cu_granule();
    fixture.mapped = cu_reserve(fixture.granule);
    cu_map(fixture.mapped, fixture.granule, &prop);
    CU(cu.stream_create(&fixture.stream, 0));
    CU(cu.capture_begin(fixture.stream, mode));
    return fixture;
}

/* What is captured is whole, if it is to be. */
static void end(struct fixture *fixture, unsigned result)
{
    struct cuda_graph *graph = NULL;

    assert_int_equal(cu.capture_end(fixture->stream, &graph), result);
    if (!result)
        CU(cu.graph_destroy(graph));
    CU(cu.stream_destroy(fixture->stream));
    CU(cu.unmap(fixture->mapped, fixture->granule));
    CU(cu.unreserve(fixture->mapped, fixture->granule));
    CU(cu.free(fixture->plain));
    assert_ok(hmreg_domain_close(fixture->domain));
    assert_ok(hmreg_close(fixture->lib));
    bench_end(&fixture->bench);
}

/* ---- hmreg's calls ----------------------------------------------------------------------- */

static void get_twice(const struct fixture *fixture, uint64_t addr, size_t len)
{
    for (int i = 0; i < 2 && cu.fake; i++) { /* others cannot be mapped for loopback */
        struct hmreg_mr *mr = NULL;

        assert_ok(hmreg_mr_get(fixture->domain, as_pointer(addr), len, HMREG_ACCESS_REMOTE, &mr));
        hmreg_mr_put(mr);
    }
}

static void allocate_and_free(const struct fixture *fixture, enum hmreg_mem_kind kind)
{
    void *memory = NULL;

    assert_ok(hmreg_mem_alloc(fixture->lib, HMREG_IFACE_CUDA, 0, kind, BYTES, &memory));
    assert_ok(hmreg_mem_free(fixture->lib, memory));
}

static void *make_all_calls(void *arg)
{
    const struct fixture *fixture = arg;
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg_dmabuf dmabuf;
    char bytes[64] = "";

    assert_ok(hmreg_query(fixture->lib, as_pointer(fixture->plain), BYTES, &info));
    assert_ok(hmreg_export_dmabuf(fixture->lib, as_pointer(fixture->plain), BYTES, 0, &dmabuf));
    close(dmabuf.fd);
    get_twice(fixture, fixture->plain, BYTES);
    get_twice(fixture, fixture->mapped, fixture->granule);
    assert_ok(hmreg_copy(fixture->lib, as_pointer(fixture->plain), bytes, sizeof(bytes)));
    assert_ok(hmreg_copy(fixture->lib, bytes, as_pointer(fixture->mapped), sizeof(bytes)));
    allocate_and_free(fixture, HMREG_MEM_DEVICE);
    allocate_and_free(fixture, HMREG_MEM_MANAGED);
    allocate_and_free(fixture, HMREG_MEM_HOST_PINNED);
    return NULL;
}

TEST(call__another_thread_captures__the_graph_is_whole)
{
    struct fixture fixture = begin(CUDA_CAPTURE_GLOBAL);

    test_on_a_thread(make_all_calls, &fixture);
    end(&fixture, CUDA_OK);
}

TEST(call__its_own_thread_captures__the_graph_is_whole)
{
    for (unsigned mode = CUDA_CAPTURE_GLOBAL; mode <= CUDA_CAPTURE_RELAXED; mode++) {
        struct fixture fixture = begin(mode);
        unsigned own = CUDA_CAPTURE_THREAD_LOCAL, after = CUDA_CAPTURE_GLOBAL;

        CU(cu.capture_mode(&own));
        make_all_calls(&fixture);
        CU(cu.capture_mode(&after));
        assert_int_equal(after, CUDA_CAPTURE_THREAD_LOCAL); /* as it was */
        end(&fixture, CUDA_OK);
    }
}

/* A driver of before 10.1, which knows no modes. */
TEST(call__no_mode_can_be_set__works)
{
    struct fixture fixture;

    driver_need_fake();
    fixture = begin(CUDA_CAPTURE_RELAXED);
    cu_fail("cuThreadExchangeStreamCaptureMode", CUDA_INVALID_VALUE, 0, -1);
    assert_ok(hmreg_copy(fixture.lib, as_pointer(fixture.plain), "bytes", 6));
    cu.fake->reset();
    end(&fixture, CUDA_OK);
}

/* ---- other calls -------------------------------------------------------------------------- */

static void *allocate(void *arg)
{
    struct fixture *fixture = arg;
    unsigned long long addr = 0;

    CU(cu.context_push(fixture->bench.context));
    fixture->result = cu.alloc(&addr, BYTES);
    if (!fixture->result)
        CU(cu.free(addr));
    CU(cu.context_pop(&fixture->bench.context));
    return NULL;
}

static void *ask_an_event(void *arg)
{
    struct fixture *fixture = arg;
    struct cuda_event *event = NULL;

    CU(cu.context_set(fixture->bench.context));
    if (!cu.event_create(&event, 0))
        fixture->result = cu.event_query(event);
    else
        fixture->result = CUDA_CAPTURE_UNSUPPORTED;
    return NULL;
}

TEST(event__another_thread_captures__breaks_it_in_mode_global)
{
    struct fixture fixture = begin(CUDA_CAPTURE_GLOBAL);

    test_on_a_thread(ask_an_event, &fixture);
    assert_int_equal(fixture.result, CUDA_CAPTURE_UNSUPPORTED);
    end(&fixture, CUDA_CAPTURE_INVALIDATED);
    fixture = begin(CUDA_CAPTURE_THREAD_LOCAL);
    test_on_a_thread(ask_an_event, &fixture);
    assert_int_equal(fixture.result, CUDA_OK);
    end(&fixture, CUDA_OK);
}

TEST(alloc__another_thread_captures__breaks_it_in_mode_global)
{
    struct fixture fixture = begin(CUDA_CAPTURE_GLOBAL);

    test_on_a_thread(allocate, &fixture);
    assert_int_equal(fixture.result, CUDA_CAPTURE_UNSUPPORTED);
    end(&fixture, CUDA_CAPTURE_INVALIDATED);
    fixture = begin(CUDA_CAPTURE_THREAD_LOCAL);
    test_on_a_thread(allocate, &fixture);
    assert_int_equal(fixture.result, CUDA_OK);
    end(&fixture, CUDA_OK);
}

/* Whatever the modes. */
TEST(copy__in_the_legacy_stream__breaks_a_capture)
{
    struct fixture fixture = begin(CUDA_CAPTURE_RELAXED);
    unsigned status = 0;
    char byte = 0;

    assert_int_equal(cu.capture_status(NULL, &status), CUDA_CAPTURE_IMPLICIT);
    CU(cu.capture_status(fixture.stream, &status));
    assert_int_equal(status, 1);
    assert_int_equal(cu.copy_to_device(fixture.plain, &byte, 1), CUDA_CAPTURE_IMPLICIT);
    CU(cu.capture_status(fixture.stream, &status));
    assert_int_equal(status, 2);
    end(&fixture, CUDA_CAPTURE_INVALIDATED);
}

/* Allocations of a captured stream are nodes: there is memory at the launch only. */
TEST(alloc_async__captured__memory_at_the_launch)
{
    struct cuda_graph_exec *exec = NULL;
    struct cuda_graph *graph = NULL;
    unsigned long long addr = 0;
    struct fixture fixture;
    unsigned type = 0;

    driver_need_fake();
    fixture = begin(CUDA_CAPTURE_GLOBAL);
    CU(cu.alloc_async(&addr, BYTES, fixture.stream));
    assert_int_equal(cu.pointer_attribute(&type, CUDA_PTR_MEMORY_TYPE, addr), CUDA_INVALID_VALUE);
    assert_int_equal(cu.free_async(fixture.plain, fixture.stream), CUDA_INVALID_VALUE);
    CU(cu.capture_end(fixture.stream, &graph));
    CU(cu.graph_instantiate(&exec, graph, 0));
    CU(cu.graph_launch(exec, fixture.stream));
    CU(cu.pointer_attribute(&type, CUDA_PTR_MEMORY_TYPE, addr));
    CU(cu.free_async(addr, fixture.stream));
    CU(cu.graph_exec_destroy(exec));
    CU(cu.graph_destroy(graph));
    CU(cu.capture_begin(fixture.stream, CUDA_CAPTURE_GLOBAL));
    end(&fixture, CUDA_OK);
}

/* For reports from hardware: nothing documents these ids. */
TEST(launch__again__prints_what_the_driver_says_of_its_memory)
{
    struct fixture fixture = begin(CUDA_CAPTURE_GLOBAL);
    struct cuda_graph_exec *exec = NULL;
    struct cuda_graph *graph = NULL;
    unsigned long long addr = 0;

    if (!cu.graph_memory)
        test_skip("this driver has no memory of graphs");
    CU(cu.alloc_async(&addr, BYTES, fixture.stream));
    CU(cu.capture_end(fixture.stream, &graph));
    CU(cu.graph_instantiate(&exec, graph, 0));
    for (unsigned i = 1; i <= 3; i++) {
        unsigned long long buffer = 0, block = 0, pool = 0, reserved = 0;

        CU(cu.graph_launch(exec, fixture.stream));
        CU(cu.stream_wait(fixture.stream));
        CU(cu.pointer_attribute(&buffer, CUDA_PTR_BUFFER_ID, addr));
        (void)cu.pointer_attribute(&block, CUDA_PTR_MEMORY_BLOCK_ID, addr);
        (void)cu.pointer_attribute(&pool, CUDA_PTR_MEMPOOL, addr);
        CU(cu.graph_memory(0, CUDA_GRAPH_MEM_RESERVED, &reserved));
        printf("launch %u: buffer id %llu, block id %llu, pool %#llx, reserved %llu\n", i, buffer,
               block, pool, reserved);
        assert_true(reserved > 0); /* hmreg trusts this alone */
        CU(cu.free_async(addr, fixture.stream));
        CU(cu.stream_wait(fixture.stream));
    }
    CU(cu.graph_exec_destroy(exec));
    CU(cu.graph_destroy(graph));
    CU(cu.capture_begin(fixture.stream, CUDA_CAPTURE_GLOBAL));
    end(&fixture, CUDA_OK);
}

TEST_MAIN()
