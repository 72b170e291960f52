/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain of libfabric for the tests of the Python package, by its addresses.
 */
#include "examples/common/endpoint.h"

#pragma GCC visibility push(default)
int fabric_open(const char *provider, void **domain, void **info);
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

void fabric_close(void)
{
    endpoint_close(&endpoint);
}
