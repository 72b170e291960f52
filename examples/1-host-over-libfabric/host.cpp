/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 1 in C++: one buffer is written into another through the network stack.
 *
 *     1-host-over-libfabric [PROVIDER]        PROVIDER of libfabric: tcp (the default), shm, ...
 */
#include <hmreg/hmreg.hpp>
#include <hmreg/ofi.h>

extern "C" {
#include "../common/endpoint.h"
}

#include <array>
#include <cstdio>
#include <cstring>

static hmr::failure write_through(endpoint &fabric, const hmr::library &lib,
                                  const std::array<char, 32> &from, std::array<char, 32> &to)
{
    /* A domain, in which memory is registered; the fid_domain stays ours. */
    auto domain = hmr::open_domain(hmreg_domain_open_ofi, lib, fabric.domain, fabric.info, nullptr);
    if (!domain)
        return domain.error;

    /* The target: peers may write it. They need its token, of exactly this range. */
    auto target = hmr::get(domain.value, to, HMREG_REMOTE_WRITE);
    if (!target)
        return target.error;
    auto token = hmr::pack(target.value, to);
    if (!token)
        return token.error;

    /* The peer's side: the token becomes an address and a key for RMA calls. */
    auto remote = hmr::open_remote(domain.value, token.value);
    if (!remote)
        return remote.error;
    auto place = hmr::address(remote.value, 0, from.size());

    /* The source: some fabrics want it registered too, and its descriptor in each call. */
    auto source = hmr::get(domain.value, from, HMREG_WRITE);
    if (!place || !source)
        return place ? source.error : place.error;
    return {endpoint_write(&fabric, from.data(), from.size(), hmreg_mr_desc(source.value.get()),
                           place.value.addr, place.value.key)};
}

int main(int argc, char **argv)
{
    std::array<char, 32> from{"written through the fabric"}, to{};
    endpoint_hints hints{};
    endpoint fabric{};

    hints.provider = argc > 1 ? argv[1] : "tcp";
    hmr::failure failed{endpoint_open(&hints, &fabric)};
    if (!failed)
        failed.code = endpoint_connect_self(&fabric);
    if (!failed) {
        auto lib = hmr::open();
        failed = lib ? write_through(fabric, lib.value, from, to) : lib.error;
    }
    if (failed)
        std::fprintf(stderr, "%s: %s\n", hints.provider, failed.text());
    else
        std::printf("%s: %s\n", fabric.info->fabric_attr->prov_name, to.data());
    endpoint_close(&fabric);
    return failed || from != to;
}
