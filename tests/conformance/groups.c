/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Groups of the fabric's domain and a loopback domain: rails of two providers and modes, one region
 * and one token for both. */
#include "tests/conformance/suite.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>

#define KEY 5

/* The target's group, and what the initiator has for each rail. */
struct pair {
    struct hmreg_domain *loopback; /* the target's second rail */
    struct hmreg_domain *group;
    struct hmreg_domain *peer; /* the initiator's second rail */
    struct hmreg_remote *remotes[2];
};

static void open_pair(struct suite_fixture *fixture, struct pair *pair)
{
    struct hmreg_domain *members[2] = {fixture->domain, NULL};

    assert_ok(hmreg_domain_open_loopback(fixture->lib, NULL, NULL, &pair->loopback));
    assert_ok(hmreg_domain_open_loopback(fixture->lib, NULL, NULL, &pair->peer));
    members[1] = pair->loopback;
    assert_ok(hmreg_group_open(fixture->lib, members, 2, NULL, &pair->group));
}

static void close_pair(struct pair *pair)
{
    assert_ok(hmreg_domain_close(pair->group));
    assert_ok(hmreg_domain_close(pair->peer));
    assert_ok(hmreg_domain_close(pair->loopback));
}

/* The initiator's group opens the token. */
static void open_token(struct suite_fixture *fixture, struct pair *pair, const struct hmreg_mr *mr)
{
    struct hmreg_domain *members[2] = {fixture->peer, pair->peer};
    struct hmreg_domain *group = NULL;
    uint8_t token[8192];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_group_open(fixture->lib, members, 2, NULL, &group));
    assert_ok(hmreg_remote_open_rails(group, token, size, pair->remotes, 2));
    assert_ok(hmreg_domain_close(group)); /* remotes are the members' */
}

static void put_on_loopback(const struct pair *pair, uint64_t offset, const char *bytes)
{
    uint64_t addr, key;

    assert_ok(hmreg_remote_addr(pair->remotes[1], offset, strlen(bytes), &addr, &key));
    assert_ok(hmreg_loopback_write(pair->remotes[1], bytes, strlen(bytes), NULL, addr, key));
}

/* Both rails reach the same bytes, each by its own key and rights. */
static void check_both(struct suite_fixture *fixture, struct pair *pair, struct hmreg_mr *mr,
                       unsigned char *at)
{
    open_token(fixture, pair, mr);
    suite_put(fixture, pair->remotes[0], 10, 20, at + 10);
    put_on_loopback(pair, 40, "by loopback");
    assert_memory_equal(at + 40, "by loopback", 11);
    suite_get(fixture, pair->remotes[0], 10, 20, at + 10);
    for (int i = 0; i < 2; i++)
        hmreg_remote_close(pair->remotes[i]);
}

/* Closes the endpoint that suite_ready() bound to a rail. */
static void unbind(struct suite_fixture *fixture, const struct hmreg_mr *rail)
{
    for (unsigned i = 0; i < SUITE_OBJECTS; i++)
        if (rail && fixture->bound[i].mr == rail) {
            fixture->fabric->ep_close(fixture->bound[i].ep);
            fixture->bound[i].mr = NULL;
        }
}

CASE(group__of_two_providers__both_rails_move_bytes)
{
    struct hmreg_mr *mr = NULL;
    struct pair pair;

    open_pair(fixture, &pair);
    assert_ok(hmreg_mr_reg(pair.group, fixture->memory + 100, 200, HMREG_ACCESS_ALL, 0,
                           suite_key(fixture, KEY), 0, &mr, NULL));
    suite_ready(fixture, fixture->domain, hmreg_mr_rail(mr, 0));
    check_both(fixture, &pair, mr, fixture->memory + 100);
    unbind(fixture, hmreg_mr_rail(mr, 0));
    assert_ok(hmreg_mr_close(mr));
    close_pair(&pair);
}

/* Where rail 0 binds, the get says to which endpoint. Before that is closed the group is flushed.
 */
CASE(group__cached_region__both_rails_move_bytes)
{
    bool binds = suite_has(fixture, HMREG_MR_ENDPOINT);
    void *endpoints[2] = {binds ? fixture->fabric->ep_open(fixture->domain) : NULL, NULL};
    struct iovec iov = {fixture->memory + 100, 200};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .endpoints = endpoints,
                                 .endpoint_count = 2};
    struct hmreg_mr *mr = NULL, *again = NULL;
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct pair pair;

    open_pair(fixture, &pair);
    assert_ok(hmreg_mr_get_attr(pair.group, &attr, 0, &mr));
    check_both(fixture, &pair, mr, fixture->memory + 100);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_ok(hmreg_mr_get_attr(pair.group, &attr, 0, &again));
    assert_true(again == mr || !info.cached);
    check_both(fixture, &pair, again, fixture->memory + 100);
    hmreg_mr_put(again);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_flush(pair.group));
    if (binds)
        fixture->fabric->ep_close(endpoints[0]);
    close_pair(&pair);
}

/* The second segment's bytes come after the first's, on each rail. */
CASE(group__segments__offsets_run_through_them_on_each_rail)
{
    struct hmreg_segment segments[2] = {{.u.memory = {fixture->memory + 4096, 100}},
                                        {.u.memory = {fixture->memory, 50}}};
    struct hmreg_mr *mr = NULL;
    struct pair pair;

    open_pair(fixture, &pair);
    assert_ok(hmreg_mr_regsgl(pair.group, segments, 2, HMREG_ACCESS_ALL, 0, suite_key(fixture, KEY),
                              0, &mr, NULL));
    suite_ready(fixture, fixture->domain, hmreg_mr_rail(mr, 0));
    open_token(fixture, &pair, mr);
    suite_put(fixture, pair.remotes[0], 110, 20, fixture->memory + 10);
    put_on_loopback(&pair, 100, "second");
    assert_memory_equal(fixture->memory, "second", 6);
    for (int i = 0; i < 2; i++)
        hmreg_remote_close(pair.remotes[i]);
    unbind(fixture, hmreg_mr_rail(mr, 0));
    assert_ok(hmreg_mr_close(mr));
    close_pair(&pair);
}

CASE(group__rails_of_another_order__exdev_without_effect)
{
    struct hmreg_remote *remotes[2] = {NULL};
    struct hmreg_domain *members[2], *crossed = NULL;
    struct hmreg_mr *mr = NULL;
    struct pair pair;
    uint8_t token[8192];
    size_t size = sizeof(token);

    if (!strcmp(fixture->info.provider, "loopback")) { /* the tokens are of one kind */
        suite_not_applicable();
        return;
    }
    open_pair(fixture, &pair);
    assert_ok(hmreg_mr_reg(pair.group, fixture->memory, 64, HMREG_ACCESS_REMOTE, 0,
                           suite_key(fixture, KEY), 0, &mr, NULL));
    suite_ready(fixture, fixture->domain, hmreg_mr_rail(mr, 0));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    members[0] = pair.peer;
    members[1] = fixture->peer;
    assert_ok(hmreg_group_open(fixture->lib, members, 2, NULL, &crossed));
    assert_fails(hmreg_remote_open_rails(crossed, token, size, remotes, 2), -EXDEV,
                 "rail 0: token");
    assert_null(remotes[0]);
    assert_ok(hmreg_domain_close(crossed));
    unbind(fixture, hmreg_mr_rail(mr, 0));
    assert_ok(hmreg_mr_close(mr));
    close_pair(&pair);
}
