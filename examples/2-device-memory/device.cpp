/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 2 in C++: for each GPU of this machine, of any vendor: allocates memory, queries a
 * pointer into it, registers it, prints the path and why no better one was possible, writes into it
 * over the fabric, and checks the bytes.
 *
 *     2-device-memory [PROVIDER]          PROVIDER of libfabric: tcp (the default), shm, ...
 */
#include <hmreg/hmreg.hpp>
#include <hmreg/ofi.h>

extern "C" {
#include "../common/endpoint.h"
}

#include <array>
#include <cerrno>
#include <cstdio>

namespace
{

constexpr std::size_t bytes = 65536, place = 4099; /* any offset: no alignment is needed */
constexpr std::array<char, 27> text{"written into device memory"};

/* Declared in the order of their use, so that they end in the opposite one. */
struct here {
    endpoint fabric{};
    hmr::library lib;
    hmr::domain domain;
};

/* Prints what this pointer is. */
hmr::failure describe(const here &here, const char *pointer)
{
    auto info = hmr::query(here.lib, {pointer, 1});

    if (info)
        std::printf("%s device %d%s: %s memory, byte %zu of an allocation of %zu\n",
                    hmreg_iface_name(info.value.iface), info.value.device,
                    info.value.flags & HMREG_MEM_INFO_SIMULATED ? " (simulated)" : "",
                    hmreg_mem_kind_name(info.value.kind),
                    static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(pointer) -
                                             info.value.alloc_base),
                    static_cast<std::size_t>(info.value.alloc_len));
    return info.error;
}

/* Prints the path of the registration, and why each better one was refused. nullptr: all were. */
void print_path(hmr::ref<hmreg_mr> mr)
{
    auto why = hmr::explain(mr);

    if (!why)
        return;
    std::printf("  path %s\n", hmreg_path_name(why.value.path));
    for (std::uint32_t i = 0; i < why.value.refused; i++)
        std::printf("    not %s: %s\n", hmreg_path_name(why.value.reasons[i].path),
                    why.value.reasons[i].text);
}

/* Writes the text into the region, through the fabric. The token is used as in example 1. */
hmr::failure write_into(here &here, hmr::ref<hmreg_mr> mr)
{
    auto token = hmr::pack(mr);
    if (!token)
        return token.error;
    auto remote = hmr::open_remote(here.domain, token.value);
    if (!remote)
        return remote.error;
    auto to = hmr::address(remote.value, place, text.size());
    auto source = hmr::get(here.domain, text, HMREG_WRITE);
    if (!to || !source)
        return to ? source.error : to.error;
    return {endpoint_write(&here.fabric, text.data(), text.size(),
                           hmreg_mr_desc(source.value.get()), to.value.addr, to.value.key)};
}

/* The CPU may be unable to read device memory: hmreg_copy() uses the vendor's runtime. */
hmr::failure use(here &here, char *memory)
{
    std::array<char, text.size()> arrived{};
    hmr::failure failed = describe(here, memory + place);
    if (failed)
        return failed;
    auto region = hmr::get(here.domain, {memory, bytes}, HMREG_REMOTE_WRITE);
    print_path(region.value);
    failed = region ? write_into(here, region.value) : region.error;
    if (!failed)
        failed.code = hmreg_copy(here.lib.get(), arrived.data(), memory + place, arrived.size());
    if (!failed)
        std::printf("  %s\n", arrived.data());
    return failed || arrived == text ? failed : hmr::failure{-EBADMSG};
}

int use_devices(here &here, hmreg_iface iface)
{
    auto runtime = hmr::defaults<hmreg_runtime_info>();
    int failures = 0;

    hmreg_runtime_query(here.lib.get(), iface, &runtime);
    if (!runtime.present)
        std::printf("%s: %s\n", hmreg_iface_name(iface), runtime.why);
    for (int i = 0; i < runtime.devices; i++) {
        auto memory = hmr::allocate(here.lib, iface, i, HMREG_MEM_DEVICE, bytes);
        hmr::failure failed =
            memory ? use(here, static_cast<char *>(memory.value.get())) : memory.error;

        if (failed)
            std::printf("  %s\n", failed.text());
        failures += failed ? 1 : 0;
    }
    return failures;
}

hmr::failure open_all(const endpoint_hints &hints, here &here)
{
    hmr::failure failed{endpoint_open(&hints, &here.fabric)};

    if (!failed)
        failed.code = endpoint_connect_self(&here.fabric);
    if (failed)
        return failed;
    auto lib = hmr::open();
    if (!lib)
        return lib.error;
    here.lib = std::move(lib.value);
    auto exact = hmr::defaults<hmreg_domain_config>();
    exact.flags = HMREG_DOMAIN_EXACT;
    auto domain = hmr::open_domain(hmreg_domain_open_ofi, here.lib, here.fabric.domain,
                                   here.fabric.info, &exact);
    here.domain = std::move(domain.value);
    return domain.error;
}

} // namespace

int main(int argc, char **argv)
{
    endpoint_hints hints{};
    here here{};
    int failures = 0;

    hints.provider = argc > 1 ? argv[1] : "tcp";
    hints.wishes = FI_HMEM;
    hmr::failure failed = open_all(hints, here);
    if (failed)
        std::fprintf(stderr, "%s: %s\n", hints.provider, failed.text());
    for (int n = HMREG_IFACE_CUDA; n < HMREG_IFACE_COUNT && !failed; n++)
        failures += use_devices(here, static_cast<hmreg_iface>(n));
    here.domain.reset();
    here.lib.reset();
    endpoint_close(&here.fabric);
    return failed || failures;
}
