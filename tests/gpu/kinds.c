/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See kinds.h.
 */
#include "tests/gpu/kinds.h"

#include "tests/support/queries.h"

#include <hmreg/loopback.h>
#include <sys/mman.h>

bool kind_is_real;

static unsigned char byte_at(unsigned seed, size_t i)
{
    return (unsigned char)(i * 131 + i / 257 + seed * 29 + 7);
}

static struct hmreg *opened;

static void close_opened(void)
{
    assert_ok(hmreg_close(opened));
    opened = NULL;
}

struct hmreg *kind_open(enum hmreg_iface iface)
{
    struct hmreg_config config = {.size = sizeof(config), .ifaces = HMREG_IFACE_BIT(iface)};

    close_opened();
    test_after(close_opened);
    assert_ok(hmreg_open(&config, &opened));
    return opened;
}

static struct hmreg_domain *open_domain(struct hmreg *lib)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {HMREG_PATH_MAPPED}};
    struct hmreg_domain *domain = NULL;

    if (kind_is_real)
        config.order[0] = HMREG_PATH_PEERMEM;

    assert_ok(hmreg_domain_open_loopback(lib, NULL, &config, &domain));
    return domain;
}

/* ---- query ------------------------------------------------------------------------------ */

static void check_query(struct hmreg *lib, const struct kind *kind)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};

    assert_ok(hmreg_query(lib, kind->addr, kind->len, &info));
    assert_int_equal(info.iface, kind->iface);
    assert_int_equal(info.kind, kind->kind);
    assert_int_equal(info.device, kind->device);
    assert_int_equal(info.segments, kind->segments);
    if (!kind_is_real) /* driver 580 promises nothing of imported memory, and exports it */
        assert_int_equal(!!(info.flags & HMREG_MEM_INFO_EXPORTABLE), kind->exportable);
    if (kind->iface == HMREG_IFACE_SYSTEM) /* which the monitor watches instead */
        assert_int_equal(info.identity, 0);
    else
        assert_int_equal(!info.identity, kind->uncached);
    assert_true(info.alloc_base <= (uintptr_t)kind->addr);
    assert_true(info.alloc_base + info.alloc_len >= (uintptr_t)kind->addr + kind->len);
}

/* ---- export ----------------------------------------------------------------------------- */

/* Writes to the memory by its runtime. */
static void fill(struct hmreg *lib, const struct kind *kind, unsigned seed)
{
    unsigned char *bytes = malloc(kind->len);

    assert_non_null(bytes);
    for (size_t i = 0; i < kind->len; i++)
        bytes[i] = byte_at(seed, i);
    assert_ok(hmreg_copy(lib, kind->addr, bytes, kind->len));
    free(bytes);
}

static void compare(const unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != byte_at(seed, i))
            fail_msg("byte %zu is %#x, not %#x", i, bytes[i], byte_at(seed, i));
}

static void check_descriptor(const struct hmreg_dmabuf *dmabuf, unsigned seed)
{
    size_t skip = dmabuf->offset % (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *view = mmap(NULL, skip + dmabuf->length, PROT_READ, MAP_SHARED, dmabuf->fd,
                               (off_t)(dmabuf->offset - skip));

    if (view == MAP_FAILED && kind_is_real)
        return;
    assert_ptr_not_equal(view, MAP_FAILED);
    compare(view + skip, dmabuf->length, seed);
    munmap(view, skip + dmabuf->length);
}

static void check_export(struct hmreg *lib, const struct kind *kind)
{
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    bool refused = kind->export_code;

    if (refused && kind_is_real) { /* a driver may export more than the simulated one */
        refused = hmreg_export_dmabuf(lib, kind->addr, kind->len, 0, &dmabuf) != 0;
        if (!refused)
            close(dmabuf.fd);
    }
    if (refused) {
        assert_fails(hmreg_export_dmabuf(lib, kind->addr, kind->len, 0, &dmabuf), kind->export_code,
                     kind->export_says);
        assert_int_equal(dmabuf.fd, -1);
        return;
    }
    fill(lib, kind, 1);
    assert_ok(hmreg_export_dmabuf(lib, kind->addr, kind->len, 0, &dmabuf));
    assert_int_equal(dmabuf.length, kind->len);
    check_descriptor(&dmabuf, 1);
    close(dmabuf.fd);
}

/* ---- registration ----------------------------------------------------------------------- */

/* Writes one piece of a region, as a peer does. */
static void write_piece(struct hmreg_remote *remote, uint64_t offset, size_t len, unsigned seed)
{
    unsigned char *bytes = malloc(len);
    uint64_t addr, key;

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_at(seed, offset + i);
    assert_ok(hmreg_remote_addr(remote, offset, len, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, bytes, len, NULL, addr, key));
    free(bytes);
}

/* A peer writes the region by its one token, and every byte arrives in the memory. */
static void check_peer(struct hmreg *lib, struct hmreg_domain *domain, const struct kind *kind,
                       const struct hmreg_mr *mr, unsigned seed)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_remote *remote = NULL;
    unsigned char *got = malloc(kind->len);
    char token[8192];
    size_t size = sizeof(token), count = 0;
    uint64_t offset = 0;

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    while (hmreg_mr_piece(mr, count, &piece) == 0) {
        write_piece(remote, offset, piece.len, seed);
        offset += piece.len;
        count++;
    }
    hmreg_remote_close(remote);
    assert_int_equal(offset, kind->len);
    assert_int_equal(count, kind->pieces && !kind_is_real ? kind->pieces : 1);
    assert_ok(hmreg_copy(lib, got, kind->addr, kind->len));
    compare(got, kind->len, seed);
    free(got);
}

static void check_region(struct hmreg *lib, struct hmreg_domain *domain, const struct kind *kind)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;
    int rc;

    if (kind_is_real && kind->path == HMREG_PATH_NONE)
        return;
    rc = hmreg_mr_reg(domain, kind->addr, kind->len, HMREG_ACCESS_REMOTE, 0, 77, 0, &mr, NULL);
    if (kind->path == HMREG_PATH_NONE) {
        assert_fails(rc, -EOPNOTSUPP, kind->refusal);
        assert_null(mr);
        return;
    }
    assert_ok(rc);
    assert_ok(hmreg_mr_query(mr, &info));
    if (!kind_is_real)
        assert_int_equal(info.path, kind->path);
    assert_int_equal(info.iface, kind->iface);
    assert_int_equal(info.len, kind->len);
    if (kind->local_addr)
        assert_int_equal(info.local_addr, kind->local_addr);
    check_peer(lib, domain, kind, mr, 2);
    assert_ok(hmreg_mr_close(mr));
}

void kind_check(struct hmreg *lib, const struct kind *kind)
{
    struct hmreg_domain *domain = open_domain(lib);

    check_query(lib, kind);
    check_export(lib, kind);
    check_region(lib, domain, kind);
    assert_ok(hmreg_domain_close(domain));
}

/* ---- reuse ------------------------------------------------------------------------------ */

static void get_and_write(struct hmreg *lib, struct hmreg_domain *domain, const struct kind *kind,
                          unsigned seed)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(domain, kind->addr, kind->len, HMREG_ACCESS_REMOTE, &mr));
    check_peer(lib, domain, kind, mr, seed);
    hmreg_mr_put(mr);
}

static void check_stats(struct hmreg_domain *domain, const struct kind *kind, unsigned gets,
                        unsigned hits)
{
    bool uncached = kind->uncached || kind->unnoticed;

    assert_int_equal(test_stats_of(domain).hits, uncached ? 0 : hits);
    assert_int_equal(test_stats_of(domain).uncached, uncached ? gets : 0);
}

void kind_reuse(struct hmreg *lib, const struct kind *kind, void *(*renew)(void *arg), void *arg)
{
    struct hmreg_domain *domain = open_domain(lib);
    struct kind now = *kind;

    kind_check(lib, &now);
    for (unsigned round = 0; round < 3; round++) {
        void *before = now.addr;

        get_and_write(lib, domain, &now, 10 + 2 * round);
        get_and_write(lib, domain, &now, 11 + 2 * round);
        check_stats(domain, &now, 2 * round + 2, round + 1);
        now.addr = renew(arg);
        if (!kind_is_real)
            assert_ptr_equal(now.addr, before);
        else if (now.addr != before)
            now.local_addr = 0;
    }
    assert_ok(hmreg_domain_close(domain));
    kind_check(lib, &now);
}
