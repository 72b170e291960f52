/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Behaviour of the CUDA driver on which the vendor's file relies. These tests run on the simulated
 * driver and on the real one: a difference is an error of the simulation.
 */
#include "tests/gpu/cuda/driver.h"

#include <sys/mman.h>
#include <sys/uio.h>

#define MIB 1048576ul

/* Runs in a process that never called cuInit, so it is the first. */
TEST(any_call__before_init__not_initialized)
{
    unsigned long long addr;
    int count = 0;
    unsigned type;

    driver_load();
    assert_int_equal(cu.device_count(&count), CUDA_NOT_INITIALIZED);
    assert_int_equal(cu.alloc(&addr, 10), CUDA_NOT_INITIALIZED);
    assert_int_equal(cu.pointer_attribute(&type, CUDA_PTR_MEMORY_TYPE, 4096), CUDA_NOT_INITIALIZED);
    assert_int_equal(cu.init(1), CUDA_INVALID_VALUE);
}

/* ---- pointer attributes ----------------------------------------------------------------- */

TEST(attribute__unknown_pointer__single_refuses_batch_says_little)
{
    struct bench bench = bench_begin();
    unsigned attributes[] = {CUDA_PTR_MEMORY_TYPE,  CUDA_PTR_BUFFER_ID,  CUDA_PTR_IS_MANAGED,
                             CUDA_PTR_HOST_POINTER, CUDA_PTR_RANGE_SIZE, CUDA_PTR_DEVICE_ORDINAL};
    unsigned type = 7, managed = 7;
    unsigned long long id = 7;
    void *host = NULL;
    size_t size = 7;
    int local = 0, ordinal = 7;
    void *values[] = {&type, &id, &managed, &host, &size, &ordinal};

    assert_int_equal(cu.pointer_attribute(&type, CUDA_PTR_MEMORY_TYPE, (uintptr_t)&local),
                     CUDA_INVALID_VALUE);
    CU(cu.pointer_attributes(6, attributes, values, (uintptr_t)&local));
    assert_int_equal(type, 0);
    assert_int_equal(id, 0);
    assert_int_equal(managed & 1, 0);
    assert_ptr_equal(host, &local);
    assert_int_equal(size, 7); /* left as it was */
    assert_int_equal(ordinal, -2);
}

/* In a batch driver 580 answers them, and older ones need not: the simulated one does not. */
TEST(attribute__block_id_and_mapping__asked_alone)
{
    static const unsigned singles[] = {CUDA_PTR_MAPPING_SIZE, CUDA_PTR_MAPPING_BASE,
                                       CUDA_PTR_MEMORY_BLOCK_ID};
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);

    for (int i = 0; i < 3; i++) {
        unsigned attribute = singles[i];
        unsigned long long value = 0;
        void *values[] = {&value};

        if (cu.fake)
            assert_int_equal(cu.pointer_attributes(1, &attribute, values, addr),
                             CUDA_INVALID_VALUE);
        CU(cu.pointer_attribute(&value, attribute, addr));
    }
    CU(cu.free(addr));
}

struct asker {
    unsigned long long addr;
    unsigned device_pointer, type, range;
};

static void *ask_without_context(void *arg)
{
    struct asker *asker = arg;
    unsigned long long value = 0;
    unsigned type = 0;
    size_t size = 0;

    asker->device_pointer = cu.pointer_attribute(&value, CUDA_PTR_DEVICE_POINTER, asker->addr);
    asker->type = cu.pointer_attribute(&type, CUDA_PTR_MEMORY_TYPE, asker->addr);
    asker->range = cu.address_range(&value, &size, asker->addr);
    return NULL;
}

TEST(thread_without_context__attributes_yes_address_range_no)
{
    struct bench bench = bench_begin();
    struct asker asker = {.addr = cu_alloc(MIB)};

    test_on_a_thread(ask_without_context, &asker);
    assert_int_equal(asker.device_pointer, CUDA_INVALID_CONTEXT);
    assert_int_equal(asker.type, CUDA_OK);
    assert_int_equal(asker.range, CUDA_INVALID_CONTEXT);
    CU(cu.free(asker.addr));
}

/* Of virtual memory the range attributes describe the reservation, the address range a piece. */
TEST(range_attributes__virtual_memory__reservation_and_piece)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule(), size = 0;
    unsigned long long addr = cu_reserve(4 * granule), base = 0;
    struct cuda_context *context = NULL;
    unsigned attribute = CUDA_PTR_CONTEXT;
    void *values[] = {&context};

    cu_map(addr + granule, granule, &prop);
    cu_map(addr + 2 * granule, granule, &prop);
    CU(cu.pointer_attribute(&base, CUDA_PTR_RANGE_START, addr + granule));
    CU(cu.pointer_attribute(&size, CUDA_PTR_RANGE_SIZE, addr + granule));
    assert_int_equal(base, addr);
    assert_int_equal(size, 4 * granule);
    CU(cu.address_range(&base, &size, addr + granule + 5));
    assert_int_equal(base, addr + granule);
    assert_int_equal(size, granule);
    CU(cu.pointer_attribute(&base, CUDA_PTR_MAPPING_BASE, addr + 2 * granule + 5));
    CU(cu.pointer_attribute(&size, CUDA_PTR_MAPPING_SIZE, addr + 2 * granule + 5));
    assert_int_equal(base, addr + 2 * granule);
    assert_int_equal(size, granule);
    CU(cu.pointer_attributes(1, &attribute, values, addr + granule));
    assert_null(context);
    CU(cu.unmap(addr + granule, 2 * granule));
    CU(cu.unreserve(addr, 4 * granule));
}

TEST(attribute__pool_memory__no_context_but_a_pool)
{
    struct bench bench = bench_begin();
    struct cuda_context *context = (struct cuda_context *)7;
    struct cuda_pool *pool = NULL, *expected = NULL;
    unsigned attribute = CUDA_PTR_CONTEXT;
    void *values[] = {&context};
    unsigned long long addr = 0;

    CU(cu.alloc_async(&addr, MIB, NULL));
    CU(cu.default_pool(&expected, 0));
    CU(cu.pointer_attributes(1, &attribute, values, addr));
    CU(cu.pointer_attribute(&pool, CUDA_PTR_MEMPOOL, addr));
    assert_null(context);
    assert_ptr_equal(pool, expected);
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
}

TEST(mapped_attribute__hole__known_but_not_mapped)
{
    struct bench bench = bench_begin();
    size_t granule = cu_granule(), size = 0;
    unsigned long long addr = cu_reserve(granule);
    unsigned attributes[] = {CUDA_PTR_MAPPED, CUDA_PTR_RANGE_SIZE};
    unsigned mapped = 7;
    void *values[] = {&mapped, &size};

    CU(cu.pointer_attributes(2, attributes, values, addr));
    assert_int_equal(mapped & 1, 0);
    assert_int_equal(size, granule);
    CU(cu.unreserve(addr, granule));
}

/* ---- contexts --------------------------------------------------------------------------- */

TEST(alloc__without_context__invalid_context)
{
    struct bench bench = bench_begin();
    struct cuda_context *popped = NULL;
    unsigned long long addr = 0;

    CU(cu.context_pop(&popped));
    assert_int_equal(cu.alloc(&addr, 10), CUDA_INVALID_CONTEXT);
    assert_int_equal(cu.copy(4096, 8192, 1), CUDA_INVALID_CONTEXT);
    assert_int_equal(cu.context_pop(&popped), CUDA_INVALID_CONTEXT);
    CU(cu.context_push(bench.context));
}

/* Destroying a context frees its memory, in each way to destroy it. */
TEST(context__destroyed__its_memory_is_gone)
{
    struct bench bench = bench_begin();
    struct cuda_context *created = NULL;
    unsigned long long addr;
    unsigned type;

    CU(cu.context_create(&created, 0, 0));
    addr = cu_alloc(MIB);
    CU(cu.context_destroy(created));
    assert_int_equal(cu.pointer_attribute(&type, CUDA_PTR_MEMORY_TYPE, addr), CUDA_INVALID_VALUE);
}

TEST(primary_context__retained_twice__ends_with_the_second_release)
{
    struct cuda_context *first = NULL, *second = NULL;
    struct bench bench;
    unsigned flags = 0;
    int active = 0;

    driver_need_devices(2);
    bench = bench_begin();
    CU(cu.primary_retain(&first, 1));
    CU(cu.primary_retain(&second, 1));
    assert_ptr_equal(first, second);
    CU(cu.primary_release(1));
    CU(cu.primary_state(1, &flags, &active));
    assert_true(active);
    CU(cu.primary_release(1));
    CU(cu.primary_state(1, &flags, &active));
    assert_false(active);
    assert_int_equal(cu.primary_release(1), CUDA_INVALID_CONTEXT);
}

TEST(any_call__in_a_child__not_initialized)
{
    struct bench bench = bench_begin();
    int count = 0;

    test_in_child(cu.init(0) == CUDA_NOT_INITIALIZED && cu.device_count(&count) ? 0 : 1);
}

/* ---- the export ------------------------------------------------------------------------- */

static unsigned handle_for(uint64_t addr, size_t size, unsigned type, uint64_t flags)
{
    int fd = -1;
    unsigned result = cu.range_handle(&fd, addr, size, type, flags);

    if (!result)
        close(fd);
    return result;
}

TEST(export__not_whole_pages__invalid_value)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    assert_int_equal(handle_for(addr + 1, page, CUDA_RANGE_DMABUF_FD, 0), CUDA_INVALID_VALUE);
    assert_int_equal(handle_for(addr, page + 1, CUDA_RANGE_DMABUF_FD, 0), CUDA_INVALID_VALUE);
    assert_int_equal(handle_for(addr, 0, CUDA_RANGE_DMABUF_FD, 0), CUDA_INVALID_VALUE);
    assert_int_equal(handle_for(addr, page, 99, 0), CUDA_INVALID_VALUE);
    assert_int_equal(handle_for(addr, page, CUDA_RANGE_DMABUF_FD, 1 << 20), CUDA_INVALID_VALUE);
    assert_int_equal(handle_for(addr, 64 * MIB, CUDA_RANGE_DMABUF_FD, 0), CUDA_INVALID_VALUE);
    CU(cu.free(addr));
    assert_true(handle_for(addr, page, CUDA_RANGE_DMABUF_FD, 0) != CUDA_OK);
}

/* Of a pool, driver 580 makes a descriptor; the simulated one refuses, as older ones do. */
TEST(export__managed_and_pool_memory__refused)
{
    struct bench bench = bench_begin();
    unsigned long long managed = 0, pool = 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    CU(cu.alloc_managed(&managed, MIB, CUDA_ATTACH_GLOBAL));
    CU(cu.alloc_async(&pool, MIB, NULL));
    CU(cu.stream_wait(NULL));
    assert_true(handle_for(managed, page, CUDA_RANGE_DMABUF_FD, 0) != CUDA_OK);
    if (cu.fake)
        assert_true(handle_for(pool, page, CUDA_RANGE_DMABUF_FD, 0) != CUDA_OK);
    CU(cu.free(managed));
    CU(cu.free_async(pool, NULL));
    CU(cu.stream_wait(NULL));
}

TEST(export__over_a_hole__refused)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(2 * granule);

    cu_map(addr, granule, &prop);
    assert_true(handle_for(addr, 2 * granule, CUDA_RANGE_DMABUF_FD, 0) != CUDA_OK);
    assert_true(handle_for(addr + granule, granule, CUDA_RANGE_DMABUF_FD, 0) != CUDA_OK);
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, 2 * granule));
}

/* ---- virtual memory --------------------------------------------------------------------- */

TEST(virtual_memory__rules)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0), found;
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(2 * granule), handle = 0, again = 0;

    assert_int_equal(cu.create(&handle, granule + 1, &prop, 0), CUDA_INVALID_VALUE);
    CU(cu.create(&handle, granule, &prop, 0));
    assert_int_equal(cu.map(addr + 1, granule, 0, handle, 0), CUDA_INVALID_VALUE);
    CU(cu.map(addr, granule, 0, handle, 0));
    assert_int_equal(cu.handle_retain(&again, as_pointer(addr + granule)), CUDA_INVALID_VALUE);
    CU(cu.handle_retain(&again, as_pointer(addr + 5)));
    assert_int_equal(again, handle);
    CU(cu.handle_prop(&found, again));
    assert_int_equal(found.location.type, CUDA_LOCATION_DEVICE);
    assert_int_equal(found.gpudirect, 1);
    CU(cu.handle_release(again));
    CU(cu.handle_release(handle));
    CU(cu.unmap(addr, granule));
    assert_int_equal(cu.handle_retain(&again, as_pointer(addr)), CUDA_INVALID_VALUE);
    CU(cu.unreserve(addr, 2 * granule));
}

TEST(virtual_memory__no_access_set__not_copied)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(granule), handle = 0;
    char byte = 1;

    CU(cu.create(&handle, granule, &prop, 0));
    CU(cu.map(addr, granule, 0, handle, 0));
    CU(cu.handle_release(handle));
    assert_true(cu.copy_to_host(&byte, addr, 1) != CUDA_OK);
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
}

/* ---- host memory ------------------------------------------------------------------------ */

TEST(registered_memory__host_pointer_from_either_address)
{
    struct bench bench = bench_begin();
    char *host = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long long device = 0;
    void *found = NULL;

    CU(cu.host_register(host, MIB, 0));
    assert_int_equal(cu.host_register(host, MIB, 0), CUDA_ALREADY_REGISTERED);
    CU(cu.host_device_pointer(&device, host, 0));
    CU(cu.pointer_attribute(&found, CUDA_PTR_HOST_POINTER, device + 9));
    assert_ptr_equal(found, host + 9);
    CU(cu.pointer_attribute(&found, CUDA_PTR_HOST_POINTER, (uintptr_t)host + 9));
    assert_ptr_equal(found, host + 9);
    CU(cu.host_unregister(host));
    assert_int_equal(cu.host_unregister(host), CUDA_NOT_REGISTERED);
    munmap(host, MIB);
}

/* ---- the simulation --------------------------------------------------------------------- */

/* As for a GPU's BAR, the kernel cannot pin the pages: neither by the device's address nor through
 * a mapping of the descriptor. */
TEST(device_memory__kernel_reads__efault)
{
    struct bench bench;
    unsigned long long addr;
    int fd = -1;
    char byte;
    struct iovec local = {&byte, 1}, remote;

    driver_need_fake();
    if (!cu.fake->strict())
        test_skip("this kernel has no memfd_secret(2): the simulation is kinder than a GPU");
    bench = bench_begin();
    addr = cu_alloc(MIB);
    CU(cu.range_handle(&fd, addr, MIB, CUDA_RANGE_DMABUF_FD, 0));
    remote = (struct iovec){as_pointer(addr), 1};
    assert_int_equal(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), -1);
    remote.iov_base = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(remote.iov_base != MAP_FAILED);
    byte = *(volatile char *)remote.iov_base;
    assert_int_equal(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), -1);
    munmap(remote.iov_base, MIB);
    close(fd);
    CU(cu.free(addr));
}

TEST(error_name__known_and_unknown)
{
    struct bench bench = bench_begin();
    const char *name = "before";

    CU(cu.error_name(CUDA_INVALID_CONTEXT, &name));
    assert_string_equal(name, "CUDA_ERROR_INVALID_CONTEXT");
    assert_int_equal(cu.error_name(123456, &name), CUDA_INVALID_VALUE);
    assert_null(name);
    CU(cu.error_string(CUDA_NOT_FOUND, &name));
    assert_non_null(name);
}

/* ---- streams ----------------------------------------------------------------------------- */

TEST(stream__copies__there_after_waiting)
{
    struct bench bench = bench_begin();
    unsigned long long one = cu_alloc(MIB), other = cu_alloc(MIB);
    struct cuda_stream *stream = NULL;
    unsigned char *pinned = NULL, last[16] = {0}, sent[16];
    unsigned result;

    CU(cu.stream_create(&stream, 1));
    CU(cu.alloc_host((void **)&pinned, MIB, 0));
    for (size_t i = 0; i < MIB; i++)
        pinned[i] = pattern(i);
    CU(cu.copy_to_device_async(one, pinned, MIB, stream));
    CU(cu.copy_on_device_async(other, one, MIB, stream));
    CU(cu.stream_wait(stream));
    memset(pinned, 0, MIB);
    CU(cu.copy_to_host_async(pinned, other, MIB, stream));
    while ((result = cu.stream_query(stream)))
        assert_int_equal(result, CUDA_NOT_READY);
    for (size_t i = 0; i < MIB; i++)
        assert_int_equal(pinned[i], pattern(i));
    for (size_t i = 0; i < 16; i++)
        sent[i] = pattern(i + 5);
    CU(cu.copy_async(one + 7, (uintptr_t)sent, 16, stream));
    memset(sent, 0, 16); /* pageable memory was staged */
    CU(cu.stream_wait(stream));
    CU(cu.copy_async((uintptr_t)last, one + 7, 16, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.context_wait());
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(last[i], pattern(i + 5));
    CU(cu.stream_destroy(stream));
    CU(cu.free_host(pinned));
    CU(cu.free(one));
    CU(cu.free(other));
}

TEST(stream__wrong_arguments__refused)
{
    struct bench bench = bench_begin();
    struct cuda_stream *stream = NULL;

    assert_int_equal(cu.stream_create(NULL, 0), CUDA_INVALID_VALUE);
    assert_int_equal(cu.stream_create(&stream, 8), CUDA_INVALID_VALUE);
    assert_null(stream);
    CU(cu.stream_create(&stream, 0));
    CU(cu.stream_destroy(stream));
    if (cu.fake) { /* undefined in a real driver */
        assert_int_equal(cu.stream_destroy(stream), CUDA_INVALID_HANDLE);
        assert_int_equal(cu.stream_wait(stream), CUDA_INVALID_HANDLE);
        assert_int_equal(cu.stream_query(stream), CUDA_INVALID_HANDLE);
        assert_int_equal(cu.copy_async(0, 0, 1, stream), CUDA_INVALID_HANDLE);
    }
}

TEST(stream__priority__nearest_of_the_range)
{
    struct bench bench = bench_begin();
    struct cuda_stream *stream = NULL;
    int least = -99, greatest = 99, priority = 99;
    unsigned flags = 99;

    CU(cu.priorities(&least, &greatest));
    assert_true(greatest <= least);
    CU(cu.stream_create_first(&stream, CUDA_STREAM_NON_BLOCKING, greatest - 100));
    CU(cu.stream_priority(stream, &priority));
    assert_int_equal(priority, greatest);
    CU(cu.stream_flags(stream, &flags));
    assert_int_equal(flags, CUDA_STREAM_NON_BLOCKING);
    assert_int_equal(cu.stream_priority(stream, NULL), CUDA_INVALID_VALUE);
    CU(cu.stream_destroy(stream));
}

/* ---- events ----------------------------------------------------------------------------- */

static void check_ready_once_done(struct cuda_event *event)
{
    unsigned result = cu.event_query(event);

    if (cu.fake) /* a real device may be done by now */
        assert_int_equal(result, CUDA_NOT_READY);
    while (result) {
        assert_int_equal(result, CUDA_NOT_READY);
        result = cu.event_query(event);
    }
}

TEST(event__of_a_copy__ready_when_it_is_done)
{
    struct bench bench = bench_begin();
    unsigned long long one = cu_alloc(MIB), other = cu_alloc(MIB);
    struct cuda_stream *stream = NULL, *second = NULL;
    struct cuda_event *event = NULL, *after = NULL;

    CU(cu.stream_create(&stream, 1));
    CU(cu.stream_create(&second, 1));
    CU(cu.event_create(&event, CUDA_EVENT_DISABLE_TIMING));
    CU(cu.event_create(&after, CUDA_EVENT_DISABLE_TIMING));
    CU(cu.event_query(event)); /* never recorded */
    CU(cu.event_wait(event));
    CU(cu.set_async(one, 7, MIB, stream));
    CU(cu.copy_on_device_async(other, one, MIB, stream));
    CU(cu.event_record(event, stream));
    CU(cu.event_record(after, second)); /* which waits for nothing */
    CU(cu.event_wait(after));
    CU(cu.event_query(after));
    check_ready_once_done(event);
    CU(cu.copy_on_device_async(other, one, MIB, stream));
    CU(cu.event_record(event, stream));
    CU(cu.stream_after(second, event, 0));
    CU(cu.event_record(after, second));
    check_ready_once_done(after);
    CU(cu.event_query(event));
    CU(cu.copy_on_device_async(other, one, MIB, stream));
    CU(cu.event_record(event, stream));
    CU(cu.event_wait(event));
    CU(cu.event_query(event));
    CU(cu.event_destroy(event));
    CU(cu.event_destroy(after));
    CU(cu.stream_destroy(stream));
    CU(cu.stream_destroy(second));
    CU(cu.free(one));
    CU(cu.free(other));
}

TEST(event__wrong_arguments__refused)
{
    struct bench bench = bench_begin();
    struct cuda_stream *stream = NULL, *others = NULL;
    struct cuda_event *event = NULL;
    struct cuda_context *other = NULL;

    assert_int_equal(cu.event_create(NULL, 0), CUDA_INVALID_VALUE);
    assert_int_equal(cu.event_create(&event, 8), CUDA_INVALID_VALUE);
    assert_int_equal(cu.event_create(&event, CUDA_EVENT_INTERPROCESS), CUDA_INVALID_VALUE);
    assert_null(event);
    CU(cu.stream_create(&stream, 0));
    CU(cu.event_create(&event, 0));
    assert_int_equal(cu.stream_after(stream, event, 2), CUDA_INVALID_VALUE);
    CU(cu.stream_after(stream, event, 0)); /* never recorded: nothing to wait for */
    CU(cu.context_create(&other, 0, 0));
    CU(cu.stream_create(&others, 0));
    assert_int_equal(cu.event_record(event, others), CUDA_INVALID_HANDLE);
    CU(cu.stream_after(others, event, 0));
    CU(cu.stream_destroy(others));
    CU(cu.context_destroy(other));
    CU(cu.event_destroy(event));
    CU(cu.stream_destroy(stream));
    if (cu.fake) { /* undefined in a real driver */
        assert_int_equal(cu.event_destroy(event), CUDA_INVALID_HANDLE);
        assert_int_equal(cu.event_query(event), CUDA_INVALID_HANDLE);
        assert_int_equal(cu.event_wait(event), CUDA_INVALID_HANDLE);
        assert_int_equal(cu.event_record(event, NULL), CUDA_INVALID_HANDLE);
    }
}

TEST(event__time_between_two__of_recorded_ones)
{
    struct bench bench = bench_begin();
    struct cuda_event *start = NULL, *end = NULL, *untimed = NULL;
    float ms = -1;

    CU(cu.event_create(&start, 0));
    CU(cu.event_create(&end, 0));
    CU(cu.event_create(&untimed, CUDA_EVENT_DISABLE_TIMING));
    assert_int_equal(cu.event_time(&ms, start, end), CUDA_INVALID_HANDLE);
    CU(cu.event_record(start, NULL));
    CU(cu.event_record(end, NULL));
    CU(cu.event_record(untimed, NULL));
    CU(cu.context_wait());
    assert_int_equal(cu.event_time(&ms, start, untimed), CUDA_INVALID_HANDLE);
    assert_true(ms == -1);
    CU(cu.event_time(&ms, start, end));
    assert_true(ms >= 0);
    CU(cu.event_destroy(start));
    CU(cu.event_destroy(end));
    CU(cu.event_destroy(untimed));
}

TEST(sync_memops__set__reported)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    unsigned on = 1, now = 7;
    int local = 0;

    CU(cu.set_pointer_attribute(&on, CUDA_PTR_SYNC_MEMOPS, addr));
    CU(cu.pointer_attribute(&now, CUDA_PTR_SYNC_MEMOPS, addr + 100));
    assert_int_equal(now & 1, 1);
    assert_int_equal(cu.set_pointer_attribute(&on, CUDA_PTR_BUFFER_ID, addr), CUDA_INVALID_VALUE);
    assert_int_equal(cu.set_pointer_attribute(&on, CUDA_PTR_SYNC_MEMOPS, (uintptr_t)&local),
                     CUDA_INVALID_VALUE);
    CU(cu.free(addr));
}

TEST(memory_info__after_an_allocation__less_available)
{
    struct bench bench = bench_begin();
    size_t before = 0, after = 0, total = 0, same = 0;
    unsigned long long addr;

    CU(cu.memory_info(&before, &total));
    addr = cu_alloc(64 * MIB);
    CU(cu.memory_info(&after, &same));
    assert_int_equal(same, total);
    assert_true(before <= total);
    assert_true(after <= before);
    if (cu.fake)
        assert_true(before - after == 64 * MIB);
    CU(cu.free(addr));
}

TEST_MAIN()
