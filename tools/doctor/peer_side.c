/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One side of a pair: memory of the host or of a device, registered with a NIC, and an endpoint.
 * See peer.h.
 */
#include "tools/command.h"
#include "tools/doctor/peer.h"
#include "tools/fabric.h"
#include "tools/signals.h"

#include <stdlib.h>
#include <string.h>

static int failed(struct loop_why *why, const char *step)
{
    return loop_fail(why, "%s: %s", step, hmreg_last_error()->text);
}

static int allocate(struct side *side, const json_t *memory, struct loop_why *why)
{
    int iface = HMREG_IFACE_SYSTEM;

    options_iface(doc_words(memory, "iface"), &iface);
    if (signals_after(
            hmreg_mem_alloc(side->lib, (enum hmreg_iface)iface, (int)doc_number(memory, "device"),
                            iface == HMREG_IFACE_SYSTEM ? HMREG_MEM_HOST : HMREG_MEM_DEVICE,
                            SIDE_BYTES, &side->memory)))
        return failed(why, "no memory could be allocated");
    side->bytes = malloc(SIDE_BYTES);
    return side->bytes ? 0 : loop_fail(why, "no memory was left");
}

static int register_it(struct side *side, struct loop_why *why)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    uint64_t key;

    if (loop_choose_key(side->domain, &key, why))
        return -1;
    if (hmreg_mr_reg(side->domain, side->memory, SIDE_BYTES, HMREG_ACCESS_ALL, 0, key, 0, &side->mr,
                     NULL))
        return failed(why, "the memory was not registered");
    hmreg_domain_query(side->domain, &info);
    if (!(info.mr_mode & HMREG_MR_ENDPOINT) || !side->fabric->loop->tie)
        return 0;
    return side->fabric->loop->tie(side->loop, side->mr, why);
}

int side_open(struct side *side, const json_t *memory, struct loop_why *why)
{
    int rc = signals_after(side->fabric->loop->open(side->fabric, side->domain, &side->loop, why));

    rc = rc ? rc : allocate(side, memory, why);
    return rc ? rc : register_it(side, why);
}

void side_close(struct side *side)
{
    hmreg_mr_close(side->mr);
    if (side->memory)
        hmreg_mem_free(side->lib, side->memory);
    free(side->bytes);
    if (side->loop)
        side->fabric->loop->close(side->loop);
    side->mr = NULL;
    side->memory = side->bytes = NULL;
    side->loop = NULL;
}

int side_fill(struct side *side, size_t len, unsigned seed, struct loop_why *why)
{
    loop_fill(side->bytes, len, seed);
    return hmreg_copy(side->lib, side->memory, side->bytes, len)
               ? failed(why, "the memory could not be filled")
               : 0;
}

int side_compare(struct side *side, size_t len, unsigned seed, const char *what,
                 struct loop_why *why)
{
    memset(side->bytes, 0, len);
    if (hmreg_copy(side->lib, side->bytes, side->memory, len))
        return failed(why, "the memory could not be read");
    return loop_compare(side->bytes, len, seed, what, why);
}
