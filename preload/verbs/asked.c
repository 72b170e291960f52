/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See asked.h. HMREG_RECV and HMREG_SEND are the rights that translate to local write access and to
 * none on every transport: on iWARP HMREG_READ would add a right of peers.
 */
#include "preload/verbs/asked.h"

#define TRANSLATED                                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_OPTIONAL_RANGE)
#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static const struct passed_on no_bytes = {
    "length-zero", "a registration of no bytes, as programs make them to try what a device can do, "
                   "was passed on"};
static const struct passed_on no_address = {
    "no-address", "a registration from address 0 or past the last address was passed on: it is of "
                  "all memory (implicit on-demand paging), or an error"};
static const struct passed_on on_demand = {
    "on-demand", "a registration with IBV_ACCESS_ON_DEMAND was passed on: the NIC pages its memory "
                 "itself, so that nothing is pinned"};
static const struct passed_on zero_based = {
    "zero-based", "a registration with IBV_ACCESS_ZERO_BASED was passed on"};
static const struct passed_on windows = {
    "memory-windows", "a registration with IBV_ACCESS_MW_BIND was passed on: memory windows need a "
                      "region of the program's own, and cannot be bound to dmabufs"};
static const struct passed_on unknown_access = {
    "unknown-access",
    "a registration with access bits that hmreg does not translate was passed on"};
static const struct passed_on atomic_alone = {
    "atomic-alone", "a registration with IBV_ACCESS_REMOTE_ATOMIC, but without "
                    "IBV_ACCESS_REMOTE_WRITE, was passed on: hmreg has no such right"};

static const struct passed_on write_alone = {
    "remote-write-alone", "a registration with rights of peers to write, but without "
                          "IBV_ACCESS_LOCAL_WRITE, was passed on: devices refuse it"};

bool asked_remote(unsigned access)
{
    return access & REMOTE;
}

bool asked_written(unsigned access)
{
    return access & IBV_ACCESS_LOCAL_WRITE;
}

static bool peers_write(unsigned access)
{
    return access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}

static const struct passed_on *refuse(const struct asked *asked)
{
    if (!asked->length)
        return &no_bytes;
    if (asked->access & IBV_ACCESS_ON_DEMAND)
        return asked->addr ? &on_demand : &no_address;
    if (!asked->addr || asked->length > UINTPTR_MAX - (uintptr_t)asked->addr)
        return &no_address;
    if (asked->access & IBV_ACCESS_ZERO_BASED)
        return &zero_based;
    if (asked->access & IBV_ACCESS_MW_BIND)
        return &windows;
    if (asked->access & ~(unsigned)TRANSLATED)
        return &unknown_access;
    if (peers_write(asked->access) && !asked_written(asked->access))
        return &write_alone;
    if ((asked->access & IBV_ACCESS_REMOTE_ATOMIC) && !(asked->access & IBV_ACCESS_REMOTE_WRITE))
        return &atomic_alone;
    return NULL;
}

static uint64_t rights_of(unsigned access)
{
    return HMREG_SEND | (access & IBV_ACCESS_LOCAL_WRITE ? HMREG_RECV : 0) |
           (access & IBV_ACCESS_REMOTE_READ ? HMREG_REMOTE_READ : 0) |
           (access & IBV_ACCESS_REMOTE_WRITE ? HMREG_REMOTE_WRITE : 0);
}

const struct passed_on *asked_translate(const struct asked *asked, struct iovec *iov,
                                        struct hmreg_mr_attr *attr)
{
    const struct passed_on *why = refuse(asked);

    if (why)
        return why;
    *iov = (struct iovec){asked->addr, asked->length};
    *attr = (struct hmreg_mr_attr){
        .size = sizeof(*attr),
        .iov = iov,
        .iov_count = 1,
        .access = rights_of(asked->access),
        .ordering = asked->access & IBV_ACCESS_RELAXED_ORDERING ? HMREG_ORDERING_RELAXED
                                                                : HMREG_ORDERING_DEFAULT,
        .atomics =
            asked->access & IBV_ACCESS_REMOTE_ATOMIC ? HMREG_CHOICE_ON : HMREG_CHOICE_DEFAULT,
        .optional_access =
            asked->access & IBV_ACCESS_OPTIONAL_RANGE & ~(unsigned)IBV_ACCESS_RELAXED_ORDERING,
    };
    if (asked->iova != (uint64_t)(uintptr_t)asked->addr) {
        attr->set_iova = 1;
        attr->iova = asked->iova;
    }
    return NULL;
}
