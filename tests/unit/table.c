/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Key tables on domains and groups of a provider whose keys are raw and which keeps an object for
 * each peer: what the entries say, what a failure leaves, and what readers see meanwhile.
 */
#define FAILING_MALLOC
#include "tests/unit/peer_provider.h"

#include <hmreg/table.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define RAILS 3
#define PEERS 4

static struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];

/* ---- tokens ----------------------------------------------------------------------------- */

static uint64_t base_of(size_t peer, size_t rail)
{
    return 0x123456789000 + peer * 0x10000 + rail * 0x1000;
}

static uint64_t key_of(size_t peer, size_t rail)
{
    return 1000 * (peer + 1) + rail;
}

/* A group's token; without one rail of it, or with all. From rail `raw` on keys are raw. */
static size_t make_rails(uint8_t *out, size_t peer, size_t without, size_t raw)
{
    uint8_t token[RAILS][128], *at;
    size_t sizes[RAILS], size;

    for (size_t i = 0; i < RAILS; i++)
        sizes[i] =
            i == without ? 0 : make_token(token[i], base_of(peer, i), key_of(peer, i), 1, i >= raw);
    size = token_rails_size(sizes, RAILS);
    at = token_rails_begin(out, sizes, RAILS);
    for (size_t i = 0; i < RAILS; at += sizes[i++])
        memcpy(at, token[i], sizes[i]);
    return size;
}

static size_t make_changed(uint8_t *token, size_t at, uint64_t value)
{
    size_t size = make_token(token, base_of(1, 0), key_of(1, 0), 1, false);

    change_token(token, at, value);
    return size;
}

static size_t gather(uint8_t *out, size_t peers, size_t raw)
{
    size_t size = 0;

    for (size_t i = 0; i < peers; i++)
        size += make_rails(out + size, i, RAILS, raw);
    return size;
}

static void assert_entry(const struct hmreg_table_entry *entry, size_t peer, size_t rail)
{
    struct hmreg_table_entry out;

    assert_int_equal(hmreg_table_load(entry, &out), 0);
    assert_true(out.base == base_of(peer, rail));
    assert_true(out.key == key_of(peer, rail));
    assert_int_equal(out.flags, HMREG_TABLE_ENTRY_FILLED | HMREG_TABLE_ENTRY_WRITE);
}

static void assert_none(const struct hmreg_table_entry *entry)
{
    struct hmreg_table_entry out;

    assert_int_equal(hmreg_table_load(entry, &out), -ENOENT);
    assert_true(out.base == 0 && out.key == HMREG_KEY_NOTAVAIL && out.flags == 0);
}

/* ---- what entries say ------------------------------------------------------------------- */

TEST(table__tokens_of_a_group__an_entry_for_each_rail)
{
    struct hmreg_table_entry entries[PEERS * RAILS];
    uint8_t all[PEERS * 512];
    struct hmreg_table *table = NULL;
    size_t size = gather(all, PEERS - 1, RAILS);

    open_fixture(RAILS, 0);
    assert_ok(hmreg_table_open(fixture.group, entries, PEERS, 0, &table));
    for (size_t i = 0; i < PEERS * RAILS; i++)
        assert_none(&entries[i]);
    assert_ok(hmreg_table_write(table, 1, PEERS - 1, all, size, 0));
    for (size_t i = 0; i < PEERS * RAILS; i++)
        if (i < RAILS)
            assert_none(&entries[i]);
        else
            assert_entry(&entries[i], i / RAILS - 1, i % RAILS);
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "1 key tables");
    assert_ok(hmreg_table_write(table, 2, 1, NULL, 0, 0));
    assert_none(&entries[2 * RAILS + 1]);
    assert_entry(&entries[3 * RAILS], 2, 0);
    hmreg_table_close(table);
    hmreg_table_close(NULL);
}

TEST(table__stride__tokens_of_several_lengths)
{
    struct hmreg_table_entry entries[2 * RAILS];
    uint8_t all[2 * 512] = {0};
    struct hmreg_table *table = NULL;

    open_fixture(RAILS, 0);
    make_rails(all, 0, 1, RAILS);
    make_token(all + 512, base_of(1, 0), key_of(1, 0), 1, false); /* of no group: rail 0 */
    assert_ok(hmreg_table_open(fixture.group, entries, 2, 0, &table));
    assert_ok(hmreg_table_write(table, 0, 2, all, sizeof(all), 512));
    assert_entry(&entries[0], 0, 0);
    assert_none(&entries[1]);
    assert_entry(&entries[2], 0, 2);
    assert_entry(&entries[3], 1, 0);
    assert_none(&entries[4]);
    assert_fails(hmreg_table_write(table, 0, 2, all, 512 + 60, 512), -EBADMSG, "tokens[1]: ");
    assert_fails(hmreg_table_write(table, 0, 2, all, 512, 512), -EBADMSG, "tokens[1]: ");
    assert_fails(hmreg_table_write(table, 0, 2, all, sizeof(all), SIZE_MAX), -EBADMSG,
                 "tokens[1]: ");
    hmreg_table_close(table);
}

TEST(table__tokens_of_other_rights__each_has_its_own)
{
    struct hmreg_table_entry entries[3];
    uint8_t all[3 * 128];
    struct hmreg_table *table = NULL;
    size_t size = make_token(all, base_of(0, 0), key_of(0, 0), 1, false);

    open_fixture(1, 0);
    size += make_changed(all + size, 24, HMREG_REMOTE_READ);
    size += make_token(all + size, base_of(2, 0), key_of(2, 0), 1, false);
    assert_ok(hmreg_table_open(fixture.members[0], entries, 3, 0, &table));
    assert_ok(hmreg_table_write(table, 0, 3, all, size, 0));
    assert_entry(&entries[0], 0, 0);
    assert_int_equal(entries[1].flags, HMREG_TABLE_ENTRY_FILLED | HMREG_TABLE_ENTRY_READ);
    assert_entry(&entries[2], 2, 0);
    hmreg_table_close(table);
}

TEST(table__big_endian_and_short__as_a_nic_takes_them)
{
    struct hmreg_table_entry entry;
    struct hmreg_table_short narrow, out;
    uint8_t token[128];
    struct hmreg_table *table = NULL;
    size_t size = make_token(token, 0x1122334455667788, 0xaabbccdd, 1, false);

    open_fixture(1, 0);
    assert_ok(hmreg_table_open(fixture.members[0], &entry, 1, HMREG_TABLE_BIG_ENDIAN, &table));
    assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
    assert_memory_equal(&entry.base, "\x11\x22\x33\x44\x55\x66\x77\x88", 8);
    assert_memory_equal(&entry.key, "\0\0\0\0\xaa\xbb\xcc\xdd", 8);
    assert_int_equal(entry.sequence, 2);
    hmreg_table_close(table);
    for (unsigned big = 0; big < 2; big++) {
        assert_ok(hmreg_table_open(fixture.members[0], &narrow, 1,
                                   HMREG_TABLE_SHORT | (big ? HMREG_TABLE_BIG_ENDIAN : 0), &table));
        assert_int_equal(hmreg_table_load_short(&narrow, &out), -ENOENT);
        assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
        assert_int_equal(hmreg_table_load_short(&narrow, &out), 0);
        assert_true(out.base == (big ? htobe64(0x1122334455667788) : 0x1122334455667788));
        assert_true(out.key == (big ? htobe32(0xaabbccdd) : 0xaabbccdd));
        hmreg_table_close(table);
    }
}

/* ---- refused ---------------------------------------------------------------------------- */

TEST(table__wrong_arguments__refused)
{
    struct hmreg_table_entry entry = {1, 2, 3, 4};
    struct hmreg_table *table = NULL;
    uint8_t token[128];
    char *memory = (char *)&entry;
    void *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t size = make_token(token, 1, 1, 1, false);

    open_fixture(1, 0);
    assert_fails(hmreg_table_open(NULL, memory, 1, 0, &table), -EINVAL, "domain is NULL");
    assert_fails(hmreg_table_open(fixture.group, NULL, 1, 0, &table), -EINVAL, "memory is NULL");
    assert_fails(hmreg_table_open(fixture.group, memory, 1, 0, NULL), -EINVAL, "out is NULL");
    assert_fails(hmreg_table_open(fixture.group, memory + 4, 1, 0, &table), -EINVAL, "aligned");
    assert_fails(hmreg_table_open(fixture.group, memory, 0, 0, &table), -EINVAL, "tokens is 0");
    assert_fails(hmreg_table_open(fixture.group, memory, SIZE_MAX / 8, 0, &table), -EINVAL,
                 "tokens is");
    assert_fails(hmreg_table_open(fixture.group, memory, 1, 4, &table), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_table_open(fixture.group, read_only, 1, 0, &table), -EFAULT, "writing");
    munmap(read_only, 4096);
    assert_fails(hmreg_table_open(fixture.group, read_only, 1, 0, &table), -EFAULT, "mapped");
    assert_null(table);
    assert_true(entry.base == 1 && entry.sequence == 3);
    assert_ok(hmreg_table_open(fixture.group, memory, 1, 0, &table));
    assert_fails(hmreg_table_write(NULL, 0, 1, token, size, 0), -EINVAL, "table is NULL");
    assert_fails(hmreg_table_write(table, 0, 0, token, size, 0), -EINVAL, "count is 0");
    assert_fails(hmreg_table_write(table, 0, 1, NULL, size, 0), -EINVAL,
                 "tokens is NULL, and size is");
    assert_fails(hmreg_table_write(table, 1, 1, token, size, 0), -ERANGE, "has 1 tokens");
    assert_fails(hmreg_table_write(table, 0, 2, token, size, 0), -ERANGE, "has 1 tokens");
    assert_fails(hmreg_table_write(table, SIZE_MAX, 2, token, size, 0), -ERANGE, "has 1 tokens");
    assert_fails(hmreg_table_write(NULL, 0, 1, NULL, 0, 0), -EINVAL, "table is NULL");
    assert_fails(hmreg_table_write(table, 0, SIZE_MAX, NULL, 0, 0), -ERANGE, "has 1 tokens");
    assert_none(&entry);
    hmreg_table_close(table);
}

static struct hmreg_table *table_of_one;
static uint8_t bad[1024];

static void assert_refused(struct hmreg_domain *domain, size_t size, int code, const char *words)
{
    struct hmreg_table_short entries[2 * RAILS], before[2 * RAILS];
    uint8_t all[1024];
    struct hmreg_table *table = NULL;
    size_t good = make_token(all, 8, 9, 1, false);

    assert_ok(hmreg_table_open(domain, entries, 2, HMREG_TABLE_SHORT, &table));
    assert_ok(hmreg_table_write(table, 1, 1, all, good, 0));
    memcpy(before, entries, sizeof(before));
    memcpy(all + good, bad, size);
    assert_fails(hmreg_table_write(table, 0, 2, all, good + size, 0), code, words);
    assert_memory_equal(before, entries, sizeof(before));
    hmreg_table_close(table);
}

TEST(write__one_bad_token__no_entry_changes)
{
    size_t size;

    open_fixture(RAILS, 0);
    size = make_token(bad, 1, 1, 1, false);
    for (size_t cut = 0; cut < size; cut++)
        assert_refused(fixture.members[0], cut, -EBADMSG, "tokens[1]: token: ");
    bad[24] ^= 1; /* alike in all but the rights, and then in all but the provider */
    assert_refused(fixture.members[0], size, -EBADMSG, "access rights");
    bad[24] ^= 1;
    bad[32] ^= 1;
    assert_refused(fixture.members[0], size, -EXDEV, "domain made it");
    size = make_changed(bad, 48, 0); /* the segment's length */
    assert_refused(fixture.members[0], size, -EBADMSG, "empty, or wraps");
    size = make_changed(bad, 40, UINT64_MAX - 4094); /* its base */
    assert_refused(fixture.members[0], size, -EBADMSG, "empty, or wraps");
    size = make_token(bad, 1, HMREG_VERBS_KEY_NOTAVAIL, 1, false);
    assert_refused(fixture.members[0], size, -EOVERFLOW,
                   "tokens[1]: the key has more than 32 bits");
    size = make_token(bad, 1, 1, 2, false);
    assert_refused(fixture.members[0], size, -EXDEV, "2 segments");
    assert_refused(fixture.group, size, -EXDEV, "tokens[1]: the region has 2 segments");
    size = make_token(bad, 1, 1, 1, true);
    assert_refused(fixture.members[0], size, -EXDEV, "raw keys");
    size = make_rails(bad, 0, RAILS, RAILS);
    assert_refused(fixture.members[0], size, -EXDEV, "its region is a group's");
    for (size_t cut = 0; cut < size; cut++)
        assert_refused(fixture.group, cut, -EBADMSG, "tokens[1]: token: ");
    bad[12] ^= 1; /* the length of its extension */
    assert_refused(fixture.group, size, -EBADMSG, "differs from its rails' lengths");
    bad[4] = 9;
    assert_refused(fixture.group, size, -EPROTONOSUPPORT, "format 9");
}

TEST(write__rails_that_cannot_be_opened__not_filled_where_rails_may_lack)
{
    struct hmreg_table_entry entries[RAILS];
    uint8_t token[512];
    struct hmreg_table *table = NULL;
    size_t size = make_rails(token, 0, 1, RAILS);

    token[16 + 4 * RAILS + 32] = 'X'; /* the provider of the first rail's token */
    for (uint32_t flags = 0; flags <= HMREG_GROUP_PARTIAL; flags += HMREG_GROUP_PARTIAL) {
        open_fixture(RAILS, flags);
        assert_ok(hmreg_table_open(fixture.group, entries, 1, 0, &table));
        if (!flags) {
            assert_fails(hmreg_table_write(table, 0, 1, token, size, 0), -EXDEV,
                         "tokens[0]: rails[0]: token: a ");
        } else {
            assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
            assert_none(&entries[0]);
            assert_none(&entries[1]);
            assert_entry(&entries[2], 0, 2);
        }
        hmreg_table_close(table);
        test_finish();
    }
    open_fixture(RAILS, 0);
    token_rails_begin(token, (size_t[]){64, 72}, 2); /* the second one ends before its place does */
    make_token(token + 24, 1, 1, 1, false);
    make_token(token + 24 + 64, 1, 1, 1, false);
    assert_ok(hmreg_table_open(fixture.group, entries, 1, 0, &table));
    assert_fails(hmreg_table_write(table, 0, 1, token, sizeof(token), 0), -EBADMSG, "rails[1]");
    hmreg_table_close(table);
    test_finish();
    open_fixture(1, 0);
    size = make_rails(token, 0, 0, RAILS);
    assert_ok(hmreg_table_open(fixture.group, entries, 1, 0, &table));
    assert_fails(hmreg_table_write(table, 0, 1, token, size, 0), -ENOENT, "no rail of the table");
    hmreg_table_close(table);
}

/* ---- a table of a node ------------------------------------------------------------------ */

/* A process without a library: each time it is asked, it answers 1 if each rail's entry is that of
 * the next peer. */
static void read_elsewhere(int memory, int socket)
{
    const struct hmreg_table_entry *entries =
        mmap(NULL, RAILS * sizeof(*entries), PROT_READ, MAP_SHARED, memory, 0);
    char answer;

    for (size_t peer = 0; read(socket, &answer, 1) == 1; peer++) {
        struct hmreg_table_entry out;

        answer = 1;
        for (size_t i = 0; i < RAILS; i++)
            if (hmreg_table_load(&entries[i], &out) || out.key != key_of(peer, i) ||
                out.base != base_of(peer, i))
                answer = 0;
        if (write(socket, &answer, 1) != 1)
            break;
    }
    _exit(0);
}

TEST(write__shared_memory__another_process_reads_each_change)
{
    struct hmreg_table_entry *entries;
    int memory = memfd_create("table", MFD_CLOEXEC), sockets[2];
    struct hmreg_table *table = NULL;
    uint8_t token[512];
    char answer = 0;
    pid_t reader;

    assert_int_equal(ftruncate(memory, RAILS * sizeof(*entries)), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    reader = test_fork();
    if (reader == 0) {
        close(sockets[0]);
        read_elsewhere(memory, sockets[1]);
    }
    close(sockets[1]);
    entries = mmap(NULL, RAILS * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    assert_ptr_not_equal(entries, MAP_FAILED);
    open_fixture(RAILS, 0);
    assert_ok(hmreg_table_open(fixture.group, entries, 1, 0, &table));
    for (size_t peer = 0; peer < PEERS; peer++) {
        size_t size = make_rails(token, peer, RAILS, RAILS);

        assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
        assert_int_equal(write(sockets[0], &answer, 1), 1);
        assert_int_equal(read(sockets[0], &answer, 1), 1);
        assert_int_equal(answer, 1);
    }
    hmreg_table_close(table);
    test_finish();
    close(sockets[0]);
    assert_int_equal(waitpid(reader, NULL, 0), reader);
    munmap(entries, RAILS * sizeof(*entries));
    close(memory);
}

/* ---- what a table holds ----------------------------------------------------------------- */

TEST(write__raw_keys__mapped_until_the_change_after_the_one_that_replaced_them)
{
    struct hmreg_table_entry entries[2 * RAILS];
    uint8_t all[2 * 512];
    struct hmreg_table *table = NULL;
    size_t size = gather(all, 2, 0);

    open_raw(RAILS, 0);
    assert_ok(hmreg_table_open(fixture.group, entries, 2, 0, &table));
    assert_ok(hmreg_table_write(table, 0, 2, all, size, 0));
    assert_int_equal(script.keys, 6);
    assert_true(entries[RAILS].key == key_of(1, 0) + base_of(1, 0));
    assert_ok(hmreg_table_write(table, 0, 1, all, size / 2, 0));
    assert_int_equal(script.keys, 9);
    assert_ok(hmreg_table_write(table, 1, 1, NULL, 0, 0));
    assert_int_equal(script.keys, 6);
    script.map_code = -ENOSPC;
    assert_fails(hmreg_table_write(table, 0, 2, all, size, 0), -ENOSPC,
                 "tokens[0]: rails[0]: no key");
    script.map_code = 0;
    all[size / 2 + 12] ^= 1; /* the second token: what the first one took is given back */
    assert_fails(hmreg_table_write(table, 0, 2, all, size, 0), -EBADMSG, "tokens[1]");
    assert_int_equal(script.keys, 6);
    hmreg_table_close(table);
    assert_int_equal(script.keys, 0);
    assert_ok(hmreg_table_open(fixture.group, entries, 2, HMREG_TABLE_SHORT, &table));
    assert_fails(hmreg_table_write(table, 0, 1, all, size / 2, 0), -EOVERFLOW, "32 bits");
    assert_int_equal(script.keys, 0);
    hmreg_table_close(table);
}

TEST(write__raw_keys_of_the_last_rail_only__kept_and_given_back)
{
    struct hmreg_table_entry entries[2 * RAILS];
    uint8_t all[2 * 512];
    struct hmreg_table *table = NULL;
    size_t size = gather(all, 2, RAILS - 1);

    open_raw_of(RAILS, RAILS - 1, 0);
    assert_ok(hmreg_table_open(fixture.group, entries, 2, 0, &table));
    assert_ok(hmreg_table_write(table, 0, 2, all, size, 0));
    assert_int_equal(script.keys, 2);
    hmreg_table_close(table);
}

/* What each domain maps it unmaps, and it is open until then. */
TEST(write__raw_keys_of_a_replaced_member__given_back_by_the_old_one)
{
    struct hmreg_table_entry entries[RAILS], out;
    struct hmreg_group_member info = {.size = sizeof(info)};
    struct hmreg_domain *old, *new;
    struct hmreg_table *table = NULL;
    uint8_t token[512];
    size_t size = make_rails(token, 0, RAILS, 0);
    struct script_caps caps = raw_caps;

    open_raw(RAILS, 0);
    old = fixture.members[1];
    caps.number = 1;
    add_member(&caps, NULL);
    new = fixture.members[fixture.count - 1];
    assert_ok(hmreg_table_open(fixture.group, entries, 1, 0, &table));
    assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
    assert_ok(hmreg_group_withdraw(fixture.group, 1, "cable cut"));
    assert_ok(hmreg_table_write(table, 0, 1, token, size, 0)); /* without the rail */
    assert_none(&entries[1]);
    assert_int_equal(hmreg_table_load(&entries[2], &out), 0);
    assert_ok(hmreg_group_replace(fixture.group, 1, new));
    do
        assert_ok(hmreg_group_query(fixture.group, 1, &info));
    while (info.state == HMREG_MEMBER_REPLACING);
    assert_fails(hmreg_domain_close(old), -EBUSY, "1 mapped keys");
    assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
    assert_int_equal(hmreg_table_load(&entries[1], &out), 0);
    assert_int_equal(script.keys_of[1], 1);
    hmreg_table_close(table);
    assert_int_equal(script.keys_of[1], 0);
}

/* What a table must say: the peer of each entry, 0: not filled; and how many keys it has mapped. */
struct model {
    size_t peers[PEERS][RAILS];
    int replaced;
};

static int count_filled(size_t (*peers)[RAILS], size_t count)
{
    int filled = 0;

    for (size_t i = 0; i < count * RAILS; i++)
        filled += peers[i / RAILS][i % RAILS] != 0;
    return filled;
}

static void model_take(struct model *model, size_t first, size_t count, size_t (*peers)[RAILS])
{
    model->replaced = count_filled(model->peers + first, count);
    memcpy(model->peers + first, peers, count * sizeof(*peers));
}

static void assert_as_model(const struct hmreg_table_entry *entries, struct model *model)
{
    for (size_t i = 0; i < PEERS * RAILS; i++) {
        size_t peer = model->peers[i / RAILS][i % RAILS];

        if (!peer) {
            assert_none(&entries[i]);
            continue;
        }
        assert_true(entries[i].base == base_of(peer, i % RAILS));
        assert_true(entries[i].key == key_of(peer, i % RAILS) + base_of(peer, i % RAILS));
        assert_false(entries[i].sequence & 1);
    }
    assert_int_equal(script.keys, count_filled(model->peers, PEERS) + model->replaced);
}

/* Tokens of peers that are drawn, of which some lack a rail. */
static size_t draw_tokens(uint8_t *all, size_t count, size_t (*peers)[RAILS])
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++) {
        size_t peer = 1 + (size_t)random() % 100, without = (size_t)random() % (2 * RAILS);

        for (size_t rail = 0; rail < RAILS; rail++)
            peers[i][rail] = rail == without ? 0 : peer;
        size += make_rails(all + size, peer, without, 0);
    }
    return size;
}

TEST(random_changes__raw_keys__each_entry_and_key_as_the_model_says)
{
    struct hmreg_table_entry entries[PEERS * RAILS];
    struct model model = {.replaced = 0};
    struct hmreg_table *table = NULL;
    uint8_t all[PEERS * 512];

    srandom(1);
    open_raw(RAILS, 0);
    assert_ok(hmreg_table_open(fixture.group, entries, PEERS, 0, &table));
    for (unsigned long i = test_times(20000); i; i--) {
        size_t first = (size_t)random() % PEERS, count = 1 + (size_t)random() % (PEERS - first);
        size_t peers[PEERS][RAILS] = {{0}}, size;

        switch (random() % 4) {
        case 0:
            assert_ok(hmreg_table_write(table, first, count, NULL, 0, 0));
            model_take(&model, first, count, peers);
            break;
        case 1: /* the last ones are cut short: nothing changes */
            size = (size_t)random() % draw_tokens(all, count, peers);
            assert_true(hmreg_table_write(table, first, count, all, size, 0) < 0);
            break;
        default:
            size = draw_tokens(all, count, peers);
            assert_ok(hmreg_table_write(table, first, count, all, size, 0));
            model_take(&model, first, count, peers);
        }
        assert_as_model(entries, &model);
    }
    hmreg_table_close(table);
}

TEST(table__each_allocation_fails__enomem_and_nothing_is_left)
{
    struct hmreg_table_entry entries[RAILS];
    uint8_t token[512];
    struct hmreg_table *table;
    size_t size = make_rails(token, 0, RAILS, 0);
    unsigned failures = 0;

    open_raw(RAILS, 0);
    for (unsigned n = 1;; n++) {
        long before = blocks;
        int rc;

        table = NULL;
        allocations = 0;
        failing = n;
        rc = hmreg_table_open(fixture.group, entries, 1, 0, &table);
        rc = rc ? rc : hmreg_table_write(table, 0, 1, token, size, 0);
        failing = 0;
        hmreg_table_close(table);
        assert_int_equal(blocks, before);
        assert_int_equal(script.keys, 0);
        if (!rc)
            break;
        assert_int_equal(rc, -ENOMEM);
        failures++;
    }
    assert_in_range(failures, 3, 20);
}

/* ---- device memory ---------------------------------------------------------------------- */

/* What the device sees between the copies of a write. */
static struct hmreg_table_entry seen[16];
static const struct hmreg_table_entry *device_entry;
static unsigned seen_count;
static int nested;

static void look(const char *call, uint64_t addr, size_t len)
{
    if (seen_count < 16 && device_entry)
        seen[seen_count++] = *device_entry;
    if (table_of_one)
        nested = hmreg_table_write(table_of_one, 0, 1, NULL, 0, 0);
}

TEST(write__device_table__each_step_is_a_copy_of_its_own)
{
    struct hmreg_table_entry *entries, out;
    uint8_t token[512];
    struct hmreg_table *table = NULL;
    unsigned before, step = 0;
    size_t size = make_rails(token, 0, RAILS, RAILS);

    open_fixture(RAILS, 0);
    assert_ok(hmreg_table_open(fixture.group, fixture.script.memory[0], 1, 0, &table));
    entries = (struct hmreg_table_entry *)vendor_view(fixture.script.memory[0]);
    assert_none(&entries[0]);
    before = cuda->copies;
    device_entry = &entries[2];
    table_of_one = table;
    seen_count = 0;
    cuda->hook = look;
    assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
    cuda->hook = NULL;
    table_of_one = NULL;
    assert_int_equal(nested, -EBUSY);
    assert_int_equal(cuda->copies - before, 3);
    for (unsigned i = 0; i < seen_count; i++) {
        if (step == 0 && seen[i].sequence == 1)
            step++;
        if (step == 1 && seen[i].base)
            step++;
        assert_int_equal(seen[i].sequence, step > 0);
        assert_int_equal(hmreg_table_load(&seen[i], &out), step ? -EAGAIN : -ENOENT);
        assert_true(seen[i].base == (step == 2 ? base_of(0, 2) : 0));
    }
    assert_int_equal(step, 2);
    for (size_t i = 0; i < RAILS; i++)
        assert_entry(&entries[i], 0, i);
    hmreg_table_close(table);
}

TEST(write__device_fails__its_error_and_a_later_write_repairs)
{
    struct hmreg_table_entry *entries;
    uint8_t token[512];
    struct hmreg_table *table = NULL;
    size_t size = make_rails(token, 0, RAILS, 0);

    open_raw(RAILS, 0);
    cuda->copy_code = -EIO;
    assert_fails(hmreg_table_open(fixture.group, fixture.script.memory[1], 1, 0, &table), -EIO, "");
    assert_null(table);
    cuda->copy_code = 0;
    assert_ok(hmreg_table_open(fixture.group, fixture.script.memory[1], 1, 0, &table));
    entries = (struct hmreg_table_entry *)vendor_view(fixture.script.memory[1]);
    cuda->copy_code = -EIO;
    assert_fails(hmreg_table_write(table, 0, 1, token, size, 0), -EIO, "");
    assert_int_equal(script.keys, RAILS); /* an entry may have it */
    cuda->copy_code = 0;
    assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
    assert_int_equal(script.keys, 2 * RAILS);
    assert_true(entries[1].key == key_of(0, 1) + base_of(0, 1));
    assert_int_equal(entries[1].sequence, 4);
    hmreg_table_close(table);
}

/* A communicator of ten thousand peers on four rails. */
TEST(write__device_table_of_10000_peers__each_entry_is_right)
{
    enum { MANY = 10000, FOUR = 4 };
    size_t stride = 512, bytes = MANY * FOUR * sizeof(struct hmreg_table_entry);
    uint8_t *all = calloc(MANY, stride), *at;
    void *memory;
    struct hmreg_table_entry *entries;
    struct hmreg_table *table = NULL;

    open_fixture(FOUR, 0);
    for (size_t peer = 0; peer < MANY; peer++) {
        size_t sizes[FOUR] = {64, 64, 64, 64}, size = token_rails_size(sizes, FOUR);

        assert_in_range(size, 1, stride);
        at = token_rails_begin(all + peer * stride, sizes, FOUR);
        for (size_t i = 0; i < FOUR; i++)
            at += make_token(at, base_of(peer, i), key_of(peer, i), 1, false);
    }
    memory = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, bytes);
    assert_ok(hmreg_table_open(fixture.group, memory, MANY, 0, &table));
    assert_ok(hmreg_table_write(table, 0, MANY, all, MANY * stride, stride));
    entries = (struct hmreg_table_entry *)vendor_view(memory);
    for (size_t i = 0; i < MANY * FOUR; i++)
        assert_entry(&entries[i], i / FOUR, i % FOUR);
    hmreg_table_close(table);
    vendor_memory_free(memory);
    free(all);
}

/* ---- readers ---------------------------------------------------------------------------- */

struct reading {
    struct hmreg_table_entry *entry;
    struct hmreg_table_short *narrow;
    atomic_bool end;
    atomic_ulong whole, torn;
};

static void *read_wide(void *arg)
{
    struct reading *reading = arg;
    struct hmreg_table_entry out;

    while (!atomic_load(&reading->end))
        if (!hmreg_table_load(reading->entry, &out)) {
            atomic_fetch_add(&reading->torn, out.base != 3 * out.key);
            atomic_fetch_add(&reading->whole, 1);
        }
    return NULL;
}

static void *read_narrow(void *arg)
{
    struct reading *reading = arg;
    struct hmreg_table_short out;

    while (!atomic_load(&reading->end))
        if (!hmreg_table_load_short(reading->narrow, &out)) {
            atomic_fetch_add(&reading->torn, out.base != 3 * out.key);
            atomic_fetch_add(&reading->whole, 1);
        }
    return NULL;
}

TEST(write__beside_readers__they_see_whole_entries_only)
{
    struct hmreg_table_entry entry;
    struct hmreg_table_short narrow;
    struct reading reading = {.entry = &entry, .narrow = &narrow};
    struct hmreg_table *tables[2] = {NULL, NULL};
    pthread_t readers[2];
    uint8_t token[128];
    uint64_t key = 1;

    open_fixture(1, 0);
    assert_ok(hmreg_table_open(fixture.members[0], &entry, 1, 0, &tables[0]));
    assert_ok(hmreg_table_open(fixture.members[0], &narrow, 1, HMREG_TABLE_SHORT, &tables[1]));
    assert_int_equal(pthread_create(&readers[0], NULL, read_wide, &reading), 0);
    assert_int_equal(pthread_create(&readers[1], NULL, read_narrow, &reading), 0);
    for (; key < 5000 || atomic_load(&reading.whole) < 5000; key = key % 1000000 + 1)
        for (int i = 0; i < 2; i++)
            assert_ok(hmreg_table_write(tables[i], 0, 1, token,
                                        make_token(token, 3 * key, key, 1, false), 0));
    atomic_store(&reading.end, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(readers[i], NULL), 0);
        hmreg_table_close(tables[i]);
    }
    assert_int_equal(atomic_load(&reading.torn), 0);
}

TEST_MAIN()
