/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See reuse.h.
 */
#include "tests/gpu/reuse.h"

#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <stdbool.h>
#include <string.h>

#define SLOTS    6
#define REMEMBER 64
#define TEXT     24

struct bed {
    const struct reuse *reuse;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory[SLOTS];
    size_t len[SLOTS];
    char *before[REMEMBER]; /* addresses of the last allocations */
    unsigned allocated, reused;
    uint64_t random;
};

static unsigned draw(struct bed *bed, unsigned limit)
{
    bed->random ^= bed->random << 13;
    bed->random ^= bed->random >> 7;
    bed->random ^= bed->random << 17;
    return (unsigned)(bed->random >> 32) % limit;
}

/* By a mapping of the descriptor, which stays the old memory's whatever the address becomes. */
static void open_bed(struct bed *bed, const struct reuse *reuse)
{
    struct hmreg_config config = {.size = sizeof(config), .ifaces = HMREG_IFACE_BIT(reuse->iface)};
    struct hmreg_domain_config mapped = {.size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}};

    *bed = (struct bed){.reuse = reuse, .random = 88172645463325252u};
    assert_ok(hmreg_open(&config, &bed->lib));
    assert_ok(hmreg_domain_open_loopback(bed->lib, NULL, &mapped, &bed->domain));
}

static struct hmreg_stats close_bed(struct bed *bed)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    for (unsigned i = 0; i < SLOTS; i++)
        if (bed->memory[i])
            bed->reuse->free(bed->memory[i]);
    assert_ok(hmreg_domain_stats(bed->domain, &stats));
    assert_ok(hmreg_domain_close(bed->domain));
    assert_ok(hmreg_close(bed->lib));
    return stats;
}

/* Writes through the region as a peer does, and looks for the bytes by the vendor's own copy. */
static void write_and_look(struct bed *bed, struct hmreg_mr *mr, char *memory, size_t offset)
{
    char token[4096], out[TEXT], in[TEXT] = "";
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr_info info = {.size = sizeof(info)};
    size_t size = sizeof(token);
    uint64_t addr, key;

    snprintf(out, sizeof(out), "allocation %u", bed->allocated);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(bed->domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, (uintptr_t)memory + offset - info.addr, TEXT, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, out, TEXT, NULL, addr, key));
    hmreg_remote_close(remote);
    assert_ok(hmreg_copy(bed->lib, in, memory + offset, TEXT));
    assert_string_equal(in, out);
}

static struct hmreg_mr *get_region(struct bed *bed, unsigned slot)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(
        hmreg_mr_get(bed->domain, bed->memory[slot], bed->len[slot], HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

static bool was_there_before(const struct bed *bed, const char *memory)
{
    for (unsigned i = 0; i < REMEMBER; i++)
        if (bed->before[i] == memory)
            return true;
    return false;
}

static void allocate(struct bed *bed, unsigned slot, size_t len)
{
    char *memory = bed->reuse->alloc((int)slot % 2, len);

    bed->reused += was_there_before(bed, memory);
    bed->before[bed->allocated++ % REMEMBER] = memory;
    bed->memory[slot] = memory;
    bed->len[slot] = len;
}

static void renew(struct bed *bed, unsigned slot)
{
    static const size_t lengths[] = {100, 4096, 65536, 200000};

    if (bed->memory[slot])
        bed->reuse->free(bed->memory[slot]);
    allocate(bed, slot, lengths[draw(bed, 4)]);
}

void reuse_addresses(const struct reuse *reuse, unsigned times)
{
    struct hmreg_stats stats;
    struct bed bed;

    open_bed(&bed, reuse);
    while (bed.allocated < times) {
        unsigned slot = draw(&bed, SLOTS);

        renew(&bed, slot);
        for (unsigned i = 0; i < 2; i++) { /* a miss, and a hit */
            struct hmreg_mr *mr = get_region(&bed, slot);

            write_and_look(&bed, mr, bed.memory[slot], draw(&bed, (unsigned)bed.len[slot] - TEXT));
            hmreg_mr_put(mr);
        }
    }
    stats = close_bed(&bed);
    assert_true(bed.reused >= times / 2);
    assert_int_equal(stats.hits, times);
    assert_int_equal(stats.misses, times);
}

void reuse_held(const struct reuse *reuse, unsigned times)
{
    struct hmreg_stats stats;
    struct bed bed;

    open_bed(&bed, reuse);
    for (unsigned i = 0; i < times; i++) {
        struct hmreg_mr *old, *anew;
        size_t len = 65536;

        allocate(&bed, 0, len);
        old = get_region(&bed, 0);
        reuse->free(bed.memory[0]);
        allocate(&bed, 0, len);
        anew = get_region(&bed, 0);
        assert_ptr_not_equal(anew, old);
        write_and_look(&bed, anew, bed.memory[0], 77);
        hmreg_mr_put(old);
        write_and_look(&bed, anew, bed.memory[0], 78);
        hmreg_mr_put(anew);
        reuse->free(bed.memory[0]);
        bed.memory[0] = NULL;
    }
    stats = close_bed(&bed);
    assert_true(bed.reused >= times);
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.zombies, 0);
}
