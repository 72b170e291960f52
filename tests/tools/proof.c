/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The doctor's proof, on a fabric whose users choose keys: while it runs, what a peer would need.
 */
#include "tests/support/test.h"
#include "tools/loop.h"
#include "tools/proof.h"

#include <hmreg/loopback.h>

#define PROOFS 4

static uint64_t keys[PROOFS];
static unsigned proofs;

static int move(struct loop *loop, const struct loop_move *move, struct loop_why *why)
{
    keys[proofs] = move->key;
    return loop_loopback_ops.move(loop, move, why);
}

TEST(proof__keys__cannot_be_guessed)
{
    struct loop_ops ops = loop_loopback_ops;
    const struct fabric fabric = {.provider = "loopback", .name = "loopback", .loop = &ops};
    struct proof_subject subject = {.iface = HMREG_IFACE_SYSTEM, .kind = HMREG_MEM_HOST};
    struct hmreg_domain *domain;
    struct hmreg *lib;
    unsigned alike = 0;

    ops.move = move;
    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    for (; proofs < PROOFS; proofs++) {
        json_t *proof = proof_of(lib, &fabric, domain, &subject);

        assert_string_equal(json_string_value(json_object_get(proof, "result")), "proven");
        json_decref(proof);
        alike += proofs && keys[proofs] >> 16 == keys[0] >> 16;
    }
    assert_true(alike < PROOFS - 1); /* by chance once in 10^13 */
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
