/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain of libfabric for the tests of the Python package, by its addresses.
 */
#include "examples/common/endpoint.h"

#pragma GCC visibility push(default)
int fabric_open(const char *provider, void **domain, void **info);
/* Writes len bytes to the endpoint itself. */
int fabric_write(uint64_t local, size_t len, uint64_t desc, uint64_t addr, uint64_t key);
void fabric_close(void);
#pragma GCC visibility pop

static struct endpoint endpoint;

int fabric_open(const char *provider, void **domain, void **info)
{
    const struct endpoint_hints hints = {.provider = provider};
    int rc = endpoint_open(&hints, &endpoint);

    *domain = endpoint.domain;
    *info = endpoint.info;
    return rc;
}

int fabric_write(uint64_t local, size_t len, uint64_t desc, uint64_t addr, uint64_t key)
{
    int rc = endpoint_connect_self(&endpoint);

    return rc ? rc
              : endpoint_write(&endpoint, (const void *)(uintptr_t)local, len,
                               (void *)(uintptr_t)desc, addr, key);
}

void fabric_close(void)
{
    endpoint_close(&endpoint);
}
