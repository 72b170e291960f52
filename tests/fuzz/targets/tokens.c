/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Tokens as a peer might send them: one, many one after the other, those of a group's rails. The
 * first byte chooses a token of a real region, which the other bytes damage, or nothing but them.
 * Whatever they are, a call opens all or nothing.
 */
#include "core/remote/rails_token.h"
#include "core/remote/token.h"
#include "tests/fuzz/targets/target.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <hmreg/table.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOMAINS 4 /* usual, raw keys, virtual addresses, a group of two */
#define MOST    8192
#define REMOTES 8

static struct hmreg_domain *domains[DOMAINS];
static uint8_t templates[2 * DOMAINS][MOST];
static size_t sizes[2 * DOMAINS];
static struct hmreg_mr *mrs[2 * DOMAINS];
static struct hmreg *lib;

static void open_domains(void)
{
    static const uint32_t modes[] = {0, HMREG_MR_RAW, HMREG_MR_VIRT_ADDR};
    static struct hmreg_domain *members[2];

    for (int i = 0; i < 3; i++) {
        struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = modes[i]};

        PROMISED(!hmreg_domain_open_loopback(lib, &config, NULL, &domains[i]));
    }
    for (int i = 0; i < 2; i++)
        PROMISED(!hmreg_domain_open_loopback(lib, NULL, NULL, &members[i]));
    PROMISED(!hmreg_group_open(lib, members, 2, NULL, &domains[3]));
}

/* Regions of one range and of three. They stay registered. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char memory[3][4096];
    const struct iovec iov[3] = {{memory[0], 100}, {memory[2], 4096}, {memory[1], 7}};

    PROMISED(!hmreg_open(NULL, &lib));
    open_domains();
    for (int i = 0; i < 2 * DOMAINS; i++) {
        if (hmreg_mr_regv(domains[i % DOMAINS], iov, i < DOMAINS ? 1 : 3, HMREG_ACCESS_REMOTE, 0,
                          (uint64_t)(10 + i), 0, &mrs[i], NULL))
            continue;
        sizes[i] = MOST;
        PROMISED(!hmreg_mr_pack(mrs[i], templates[i], &sizes[i]));
    }
    return 0;
}

/* By its own token, and a real one by this: what is left can be queried. */
static void renew(struct hmreg_domain *domain, struct hmreg_remote *remote, const uint8_t *bytes,
                  size_t size)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    enum hmreg_remote_state state = HMREG_REMOTE_CURRENT;
    struct hmreg_remote *real = NULL;
    int rc = hmreg_remote_check(remote, bytes, size, &state);

    PROMISED(rc == -EOPNOTSUPP || (!rc && state == HMREG_REMOTE_CURRENT));
    PROMISED(hmreg_remote_renew(remote, bytes, size) == rc);
    for (int i = 0; i < DOMAINS; i++) {
        if (!sizes[i] || hmreg_remote_open(domain, templates[i], sizes[i], &real))
            continue;
        hmreg_remote_renew(real, bytes, size);
        PROMISED(!hmreg_remote_query(real, &info) && info.len);
        hmreg_remote_close(real);
    }
}

static void open_one(struct hmreg_domain *domain, const uint8_t *bytes, size_t size)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote = NULL;
    uint64_t addr = 0, key = 0;

    if (hmreg_remote_open(domain, bytes, size, &remote)) {
        PROMISED(!remote);
        return;
    }
    PROMISED(!hmreg_remote_query(remote, &info));
    PROMISED(!info.len || !hmreg_remote_addr(remote, info.len - 1, 1, &addr, &key));
    PROMISED(hmreg_remote_addr(remote, info.len, 1, &addr, &key));
    renew(domain, remote, bytes, size);
    hmreg_remote_close(remote);
}

static void open_many(struct hmreg_domain *domain, const uint8_t *bytes, size_t size)
{
    struct hmreg_remote *remotes[REMOTES] = {NULL};
    size_t count = REMOTES;
    int rc = hmreg_remote_open_many(domain, bytes, size, remotes, &count);

    for (size_t i = 0; i < REMOTES; i++) {
        PROMISED(!remotes[i] == (rc || i >= count));
        hmreg_remote_close(remotes[i]);
    }
}

static void open_rails(const uint8_t *bytes, size_t size)
{
    struct hmreg_remote *remotes[2] = {NULL};
    const void *rail;
    size_t rail_size;

    if (hmreg_remote_open_rails(domains[3], bytes, size, remotes, 2))
        PROMISED(!remotes[0] && !remotes[1]);
    for (size_t i = 0; i < 2; i++) {
        hmreg_remote_close(remotes[i]);
        if (!hmreg_token_rail(bytes, size, i, &rail, &rail_size) && rail)
            PROMISED((const uint8_t *)rail >= bytes &&
                     (const uint8_t *)rail + rail_size <= bytes + size);
    }
}

/* What is refused changes no entry. */
static void write_table(struct hmreg_domain *domain, const uint8_t *bytes, size_t size)
{
    struct hmreg_table_entry entries[4], before[4];
    struct hmreg_table *table = NULL;

    PROMISED(!hmreg_table_open(domain, entries, 2, 0, &table));
    memcpy(before, entries, sizeof(before));
    if (hmreg_table_write(table, 0, 2, bytes, size, 0))
        PROMISED(!memcmp(before, entries, sizeof(before)));
    hmreg_table_write(table, 1, 1, bytes, size, size);
    hmreg_table_close(table);
}

static size_t begin(uint8_t *bytes, unsigned choice)
{
    size_t size = sizes[choice % (2 * DOMAINS)];

    memcpy(bytes, templates[choice % (2 * DOMAINS)], size);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint8_t how = input_byte(&input), *bytes = calloc(1, 2 * MOST), *exact;
    size_t length = 0;

    PROMISED(bytes);
    if (how & 8) { /* real ones, one or two */
        length = begin(bytes, how);
        if (how & 16)
            length += begin(bytes + length, input_byte(&input));
        if (length && how & 32)
            length -= input_byte(&input) % length;
        if (length)
            input_patch(&input, bytes, length);
    } else if (input.left) {
        length = input.left < MOST ? input.left : MOST;
        memcpy(bytes, input.at, length);
    }
    exact = malloc(length ? length : 1); /* a sanitizer sees reads behind its end */
    PROMISED(exact);
    memcpy(exact, bytes, length);
    for (int i = 0; i < DOMAINS; i++) {
        open_one(domains[i], exact, length);
        open_many(domains[i], exact, length);
        write_table(domains[i], exact, length);
    }
    open_rails(exact, length);
    free(exact);
    free(bytes);
    return 0;
}
