/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached gets of lists of segments, for cache_segments.c and cache_segments_device.c: on the
 * counting fabric, which takes one range a registration, so that such a region is a composite.
 */
#ifndef TESTS_CACHE_SEGMENTS_H
#define TESTS_CACHE_SEGMENTS_H

#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <search.h>
#include <sys/mman.h>

#define LEN  4096
#define MOST 20

static char memory[16][LEN] __attribute__((aligned(LEN)));

/* A list, and the attributes that name it. */
struct list {
    struct hmreg_segment segments[MOST];
    struct hmreg_mr_attr attr;
};

static inline void add(struct list *list, const void *addr, size_t len)
{
    list->segments[list->attr.segment_count++] = (struct hmreg_segment){
        .kind = HMREG_SEGMENT_MEMORY, .u.memory = {(void *)(uintptr_t)addr, len}};
}

static inline void add_dmabuf(struct list *list, int fd, void *base, uint64_t offset, size_t len)
{
    list->segments[list->attr.segment_count++] = (struct hmreg_segment){
        .kind = HMREG_SEGMENT_DMABUF,
        .u.dmabuf = {.fd = fd, .base_addr = base, .offset = offset, .len = len}};
}

static inline void clear(struct list *list)
{
    list->attr = (struct hmreg_mr_attr){.size = sizeof(list->attr),
                                        .segments = list->segments,
                                        .access = HMREG_ACCESS_REMOTE,
                                        .policy = HMREG_POLICY_KEEP};
}

/* A list of two. */
static inline struct list *pair(struct list *list, const void *one, const void *other)
{
    clear(list);
    add(list, one, LEN);
    add(list, other, LEN);
    return list;
}

static inline struct hmreg_mr *get(const struct list *list)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get_attr(fixture.domain, &list->attr, 0, &mr));
    return mr;
}

static inline uint64_t piece_key(const struct hmreg_mr *mr, size_t index)
{
    struct hmreg_piece_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_piece(mr, index, &info));
    return info.key;
}

/* Gets, puts, and gives the number of the registration of the first segment. */
static inline uint64_t key_of(const struct list *list)
{
    struct hmreg_mr *mr = get(list);
    uint64_t key = piece_key(mr, 0);

    hmreg_mr_put(mr);
    return key;
}

static inline void assert_refused(const struct list *list, int code, const char *words)
{
    struct hmreg_mr *mr = NULL;

    assert_fails(hmreg_mr_get_attr(fixture.domain, &list->attr, 0, &mr), code, words);
    assert_null(mr);
    assert_int_equal(inside_variants(fixture.domain), 0);
    assert_int_equal(atomic_load(&counter.regions), 0);
}

static inline void open_limited(uint32_t flags, uint64_t max_bytes)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .max_bytes = max_bytes};

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

static inline void open_fixture(void)
{
    open_limited(0, 0);
}

/* With the monitor of this run. */
static inline void open_watched(void)
{
    vendors_reset();
    fixture_open(fixture_monitor(), NULL);
}

static inline int dmabuf_new(size_t pages)
{
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(pages * LEN)), 0);
    return fd;
}

static inline unsigned registrations(void)
{
    return atomic_load(&counter.regs);
}

/* Pages 1 and 5 of seven. */
static inline struct list *watched_pair(struct list *list, char *pages)
{
    return pair(list, pages + 5 * fixture_page(), pages + fixture_page());
}

#endif
