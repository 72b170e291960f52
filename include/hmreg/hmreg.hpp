/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg for C++17 and later: owners, results and ranges over the calls of C, in this header alone.
 * The namespace is hmr, because C's struct hmreg has the other name. Nothing here throws or needs
 * RTTI.
 *
 *     auto lib = hmr::open();
 *     auto domain = hmr::open_domain(hmreg_domain_open_loopback, lib.value, nullptr, nullptr);
 *     auto region = hmr::get(domain.value, buffer, HMREG_REMOTE_WRITE);
 *     if (!region)
 *         puts(region.error.text());
 *
 * Each function is the call of C that its comment names, with its errors. An owner is a
 * std::unique_ptr: get() returns C's object for every other call. Owners are destroyed before what
 * they were opened on, which members and local variables are if they are declared in the order of
 * their use.
 */
#ifndef HMREG_HMREG_HPP
#define HMREG_HMREG_HPP

#include <hmreg/hmreg.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace hmr
{

/* ---- errors ----------------------------------------------------------------------------- */

/* What a call returned: true if it failed. */
struct failure {
    int code = 0; /* 0, or the negative error number */

    explicit operator bool() const noexcept
    {
        return code != 0;
    }
    /* The sentence of the last error of this thread, if it is still this one; else the number's. */
    const char *text() const noexcept
    {
        const hmreg_error *last = hmreg_last_error();

        return last->code == code ? last->text : hmreg_strerror(code);
    }
};

/* A value, or why there is none: false, and then value is an empty owner, or not filled. */
template <class T> struct result {
    T value{};
    failure error{};

    explicit operator bool() const noexcept
    {
        return !error;
    }
};

/* ---- owners ----------------------------------------------------------------------------- */

template <auto End> struct ended_by {
    template <class T> void operator()(T *object) const noexcept
    {
        static_cast<void>(End(object));
    }
};

struct put {
    void operator()(hmreg_mr *mr) const noexcept
    {
        hmreg_mr_put(mr);
    }
};

struct close_remote {
    void operator()(hmreg_remote *remote) const noexcept
    {
        hmreg_remote_close(remote);
    }
};

struct free_memory {
    struct hmreg *lib = nullptr;

    void operator()(void *memory) const noexcept
    {
        hmreg_mem_free(lib, memory);
    }
};

using library = std::unique_ptr<struct ::hmreg, ended_by<hmreg_close>>;
using domain = std::unique_ptr<hmreg_domain, ended_by<hmreg_domain_close>>;
using region = std::unique_ptr<hmreg_mr, ended_by<hmreg_mr_close>>; /* of reg() */
using cached_region = std::unique_ptr<hmreg_mr, put>;               /* of get() */
using remote = std::unique_ptr<hmreg_remote, close_remote>;
using allocation = std::unique_ptr<void, free_memory>; /* of allocate() */

/* An argument: C's pointer, or an owner of it. */
template <class T> struct ref {
    T *object;

    ref(T *pointer) noexcept : object(pointer)
    {
    }
    template <class End> ref(const std::unique_ptr<T, End> &owner) noexcept : object(owner.get())
    {
    }
};

/* Memory: a pointer and a length in bytes, or what has data() and size(): a container, an array, a
 * std::span. */
struct range {
    const void *addr;
    std::size_t len;

    range(const void *pointer, std::size_t bytes) noexcept : addr(pointer), len(bytes)
    {
    }
    template <class Container, class = decltype(std::data(std::declval<const Container &>())),
              class = decltype(std::size(std::declval<const Container &>()))>
    range(const Container &container) noexcept
        : addr(std::data(container)), len(std::size(container) * sizeof(*std::data(container)))
    {
    }
};

/* The defaults of one of C's structs that begin with their size. */
template <class T> T defaults() noexcept
{
    T all{};

    all.size = sizeof(T);
    return all;
}

/* ---- calls ------------------------------------------------------------------------------ */

/* hmreg_open() */
inline result<library> open(const hmreg_config &config = defaults<hmreg_config>()) noexcept
{
    struct ::hmreg *lib = nullptr;
    const int code = hmreg_open(&config, &lib);

    return {library(lib), {code}};
}

/* A call that opens a domain, such as hmreg_domain_open_ofi() or hmreg_group_open(), with its
 * arguments but for the last. */
template <class Open, class... Arguments>
result<domain> open_domain(Open call, ref<struct ::hmreg> lib, Arguments... arguments) noexcept
{
    hmreg_domain *opened = nullptr;
    const int code = call(lib.object, arguments..., &opened);

    return {domain(opened), {code}};
}

/* hmreg_mr_get() */
inline result<cached_region> get(ref<hmreg_domain> on, range memory, std::uint64_t access) noexcept
{
    hmreg_mr *mr = nullptr;
    const int code = hmreg_mr_get(on.object, memory.addr, memory.len, access, &mr);

    return {cached_region(mr), {code}};
}

/* hmreg_mr_try_get(); -EAGAIN: call get(). An owner that ends puts as hmreg_mr_put() does:
 * hmreg_mr_try_put(region.get()), and if that returns 0, region.release(). */
inline result<cached_region> try_get(ref<hmreg_domain> on, range memory,
                                     std::uint64_t access) noexcept
{
    hmreg_mr *mr = nullptr;
    const int code = hmreg_mr_try_get(on.object, memory.addr, memory.len, access, &mr);

    return {cached_region(mr), {code}};
}

/* hmreg_mr_reg() */
inline result<region> reg(ref<hmreg_domain> on, range memory, std::uint64_t access,
                          std::uint64_t requested_key = HMREG_KEY_ANY, std::uint64_t flags = 0,
                          void *context = nullptr) noexcept
{
    hmreg_mr *mr = nullptr;
    const int code = hmreg_mr_reg(on.object, memory.addr, memory.len, access, 0, requested_key,
                                  flags, &mr, context);

    return {region(mr), {code}};
}

/* A token by a call that takes a buffer and its size. */
template <class Pack> result<std::vector<unsigned char>> token_by(Pack call)
{
    result<std::vector<unsigned char>> token;
    std::size_t size = 0;

    token.error.code = call(nullptr, &size);
    if (token.error.code == -HMREG_ETOOSMALL) {
        token.value.resize(size);
        token.error.code = call(token.value.data(), &size);
    }
    return token;
}

/* hmreg_mr_pack() */
inline result<std::vector<unsigned char>> pack(ref<hmreg_mr> mr)
{
    return token_by(
        [&](void *bytes, std::size_t *size) { return hmreg_mr_pack(mr.object, bytes, size); });
}

/* hmreg_mr_pack_range() */
inline result<std::vector<unsigned char>> pack(ref<hmreg_mr> mr, range part)
{
    return token_by([&](void *bytes, std::size_t *size) {
        return hmreg_mr_pack_range(mr.object, part.addr, part.len, bytes, size);
    });
}

/* hmreg_remote_open() */
inline result<remote> open_remote(ref<hmreg_domain> on, range token) noexcept
{
    hmreg_remote *opened = nullptr;
    const int code = hmreg_remote_open(on.object, token.addr, token.len, &opened);

    return {remote(opened), {code}};
}

/* What an RMA call takes. */
struct remote_place {
    std::uint64_t addr = 0, key = 0;
};

/* hmreg_remote_addr() */
inline result<remote_place> address(ref<hmreg_remote> peer, std::uint64_t offset,
                                    std::size_t len) noexcept
{
    result<remote_place> place;

    place.error.code =
        hmreg_remote_addr(peer.object, offset, len, &place.value.addr, &place.value.key);
    return place;
}

/* hmreg_query() */
inline result<hmreg_mem_info> query(ref<struct ::hmreg> lib, range memory) noexcept
{
    result<hmreg_mem_info> info{defaults<hmreg_mem_info>(), {}};

    info.error.code = hmreg_query(lib.object, memory.addr, memory.len, &info.value);
    return info;
}

/* hmreg_mr_explain(); of nullptr: of this thread's last registration for which all was refused */
inline result<hmreg_explanation> explain(ref<hmreg_mr> mr) noexcept
{
    result<hmreg_explanation> why{defaults<hmreg_explanation>(), {}};

    why.error.code = hmreg_mr_explain(mr.object, &why.value);
    return why;
}

/* hmreg_domain_stats() */
inline result<hmreg_stats> stats(ref<hmreg_domain> on) noexcept
{
    result<hmreg_stats> sums{defaults<hmreg_stats>(), {}};

    sums.error.code = hmreg_domain_stats(on.object, &sums.value);
    return sums;
}

/* hmreg_mem_alloc() */
inline result<allocation> allocate(ref<struct ::hmreg> lib, hmreg_iface iface, int device,
                                   hmreg_mem_kind kind, std::size_t len) noexcept
{
    void *allocated = nullptr;
    const int code = hmreg_mem_alloc(lib.object, iface, device, kind, len, &allocated);

    return {allocation(allocated, free_memory{lib.object}), {code}};
}

} // namespace hmr

#endif
