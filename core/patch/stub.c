/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See stub.h.
 */
#include "core/patch/stub.h"

#include "core/patch/code.h"

static bool read_header(const uint8_t *stub, struct stub_header *out)
{
    return code_read((uintptr_t)stub - sizeof(*out), out, sizeof(*out)) && out->magic == STUB_MAGIC;
}

bool stub_number(const uint8_t *stub, long *number)
{
    struct stub_header header;

    if (!read_header(stub, &header))
        return false;
    *number = (int32_t)header.number;
    return true;
}

const uint8_t *stub_next(const uint8_t *stub)
{
    struct stub_header header;

    return read_header(stub, &header) && header.next ? stub + header.next : NULL;
}
