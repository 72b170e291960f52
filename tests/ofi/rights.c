/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * For how long a peer on a libfabric provider reaches a region after each kind of its end. */
#include "tests/support/rights.h"
#include "tests/support/fabric.h"

#include <rdma/fi_rma.h>
#include <sys/mman.h>

/* fabric_byte(seed, i) for a seed whose bytes begin with `byte`. */
static unsigned seed_for(char byte)
{
    unsigned seed = 0;

    while (fabric_byte(seed, 0) != (unsigned char)byte)
        seed++;
    return seed;
}

static void take(void *self, const struct hmreg_mr *mr)
{
    assert_ok(peer_take_region(self, mr));
}

static bool write_there(void *self, uint64_t addr, uint64_t key, char byte)
{
    (void)peer_intrude(self, addr, key, RIGHTS_BYTES, seed_for(byte));
    return false;
}

TEST(peer__after_each_end__reaches_as_long_as_promised)
{
    struct fabric fabric;
    struct rights_peer peer = {.take = take, .write = write_there, .self = &fabric};

    for (unsigned i = 0; i < rights_ends; i++) { /* a denial may end a connection */
        setenv("HMREG_CACHE_MAX_COUNT", "1", 1); /* so that the next region evicts the first */
        fabric_open_pair(&fabric, NULL);
        unsetenv("HMREG_CACHE_MAX_COUNT");
        rights_measure(fabric.lib, fabric.domain, fabric_name(), i, &peer);
        fabric_close(&fabric);
    }
}

/* ---- the owner's death ------------------------------------------------------------------ */

#define WRITES 3    /* after it */
#define ROUNDS 1000 /* of progress after each: only this process can move its bytes now */

struct writer {
    struct fabric fabric;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    char bytes[RIGHTS_BYTES];
};

static int write_bytes(struct writer *writer, char byte)
{
    uint64_t addr, key;

    memset(writer->bytes, byte, RIGHTS_BYTES);
    assert_ok(hmreg_remote_addr(writer->remote, 0, RIGHTS_BYTES, &addr, &key));
    return endpoint_write(&writer->fabric.endpoint, writer->bytes, RIGHTS_BYTES,
                          hmreg_mr_desc(writer->mr), addr, key);
}

/* The same, without waiting for an answer that may never come. */
static void write_unanswered(struct writer *writer, char byte)
{
    struct endpoint *e = &writer->fabric.endpoint;
    bool started = false;
    uint64_t addr, key;

    memset(writer->bytes, byte, RIGHTS_BYTES);
    assert_ok(hmreg_remote_addr(writer->remote, 0, RIGHTS_BYTES, &addr, &key));
    for (int i = 0; i < ROUNDS; i++) {
        if (!started)
            started = !fi_write(e->ep, writer->bytes, RIGHTS_BYTES, hmreg_mr_desc(writer->mr),
                                e->peer, addr, key, NULL);
        endpoint_progress(e);
    }
}

/* Its memory is a file's that this process maps too, and so outlives it. */
TEST(owner__killed__no_write_reaches_its_memory)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file = memfd_create("owner", MFD_CLOEXEC);
    struct writer writer = {.remote = NULL};
    unsigned writes = 0;
    char *memory;

    assert_true(file >= 0 && !ftruncate(file, (off_t)page));
    memory = mmap(NULL, page, PROT_READ, MAP_SHARED, file, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    fabric_open_pair(&writer.fabric, NULL);
    assert_ok(peer_offer_shared(&writer.fabric, file, page, 0, &writer.remote));
    assert_ok(hmreg_mr_reg(writer.fabric.domain, writer.bytes, RIGHTS_BYTES,
                           HMREG_READ | HMREG_WRITE, 0, 0, 0, &writer.mr, NULL));
    assert_ok(write_bytes(&writer, 'a'));
    assert_int_equal(peer_check(&writer.fabric, 0, page, 0), -EBADMSG); /* it has looked */
    assert_int_equal(memory[0], 'a');
    fabric_kill_peer(&writer.fabric);
    for (int i = 0; i < WRITES; i++) {
        write_unanswered(&writer, (char)('b' + i));
        writes += memory[0] != 'a';
    }
    rights_report(fabric_name(), "end of the owner's process", writes, 0);
    assert_int_equal(writes, 0);
    hmreg_remote_close(writer.remote);
    assert_ok(hmreg_mr_close(writer.mr));
    fabric_close(&writer.fabric);
    munmap(memory, page);
    close(file);
}

/* ---- an owner that comes back ----------------------------------------------------------- */

static enum hmreg_remote_state state_by(const struct hmreg_remote *remote, const uint8_t *token,
                                        size_t size)
{
    enum hmreg_remote_state state = (enum hmreg_remote_state)9;

    assert_ok(hmreg_remote_check(remote, token, size, &state));
    return state;
}

/* The new process has a region at the same address, with the same key: the fabric cannot tell the
 * old remote from one of it. */
TEST(owner__killed_and_restarted__its_remotes_are_dead)
{
    uint8_t tokens[3][1024];
    size_t sizes[3] = {1024, 1024, 1024};
    struct writer writer = {.remote = NULL};
    struct hmreg_remote *reopened = NULL;
    struct hmreg_remote_flat before, after;

    fabric_open_pair(&writer.fabric, NULL);
    assert_ok(hmreg_mr_reg(writer.fabric.domain, writer.bytes, RIGHTS_BYTES,
                           HMREG_READ | HMREG_WRITE, 0, 0, 0, &writer.mr, NULL));
    assert_ok(peer_offer_token(&writer.fabric, RIGHTS_BYTES, tokens[0], &sizes[0]));
    assert_ok(hmreg_remote_open(writer.fabric.domain, tokens[0], sizes[0], &writer.remote));
    assert_int_equal(state_by(writer.remote, tokens[0], sizes[0]), HMREG_REMOTE_CURRENT);
    assert_ok(peer_offer_token(&writer.fabric, RIGHTS_BYTES, tokens[1], &sizes[1]));
    assert_int_equal(state_by(writer.remote, tokens[1], sizes[1]), HMREG_REMOTE_RENEWED);
    assert_ok(hmreg_remote_renew(writer.remote, tokens[1], sizes[1]));
    assert_ok(write_bytes(&writer, 'a'));
    fabric_restart_peer(&writer.fabric);
    assert_ok(peer_offer_token(&writer.fabric, RIGHTS_BYTES, tokens[2], &sizes[2]));
    assert_int_equal(state_by(writer.remote, tokens[2], sizes[2]), HMREG_REMOTE_DEAD);
    assert_fails(hmreg_remote_renew(writer.remote, tokens[2], sizes[2]), -EOWNERDEAD, "another");
    assert_ok(hmreg_remote_open(writer.fabric.domain, tokens[2], sizes[2], &reopened));
    assert_ok(hmreg_remote_flatten(writer.remote, &before));
    assert_ok(hmreg_remote_flatten(reopened, &after));
    if (!strcmp(fabric_name(), "tcp"))
        assert_true(before.base == after.base && before.key == after.key);
    hmreg_remote_close(writer.remote);
    writer.remote = reopened;
    assert_ok(write_bytes(&writer, 'b'));
    hmreg_remote_close(writer.remote);
    assert_ok(hmreg_mr_close(writer.mr));
    fabric_close(&writer.fabric);
}

FABRIC_TEST_MAIN()
