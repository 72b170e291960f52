/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens the libfabric domain for the examples in Rust: most of libfabric's calls are inline
 * functions of its headers, which only C can call. The endpoint is that of the examples in C.
 */
#include "../../examples/common/endpoint.h"

#include <stdlib.h>

struct endpoint *example_endpoint_open(const char *provider, int *code);
struct fid_domain *example_endpoint_domain(const struct endpoint *endpoint);
const struct fi_info *example_endpoint_info(const struct endpoint *endpoint);
void example_endpoint_close(struct endpoint *endpoint);

struct endpoint *example_endpoint_open(const char *provider, int *code)
{
    struct endpoint_hints hints = {.provider = provider};
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));

    if (!endpoint)
        return NULL;
    *code = endpoint_open(&hints, endpoint);
    *code = *code ? *code : endpoint_connect_self(endpoint);
    if (!*code)
        return endpoint;
    example_endpoint_close(endpoint);
    return NULL;
}

struct fid_domain *example_endpoint_domain(const struct endpoint *endpoint)
{
    return endpoint->domain;
}

const struct fi_info *example_endpoint_info(const struct endpoint *endpoint)
{
    return endpoint->info;
}

void example_endpoint_close(struct endpoint *endpoint)
{
    endpoint_close(endpoint);
    free(endpoint);
}
