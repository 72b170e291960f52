/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See request.h. HMREG_RECV is local write access and HMREG_SEND no access bit on every transport.
 * HMREG_READ is not used: on iWARP it would grant peers a right.
 */
#include "preload/verbs/request.h"

#define TRANSLATED                                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_OPTIONAL_RANGE)
#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static const struct passed_on no_bytes = {
    "length-zero", "a registration of 0 bytes was passed on: programs make it to probe a device"};
static const struct passed_on no_address = {
    "no-address", "a registration from address 0 or past the last address was passed on: it asks "
                  "for implicit on-demand paging, or is an error"};
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
                    "IBV_ACCESS_REMOTE_WRITE, was passed on: hmreg has no right to atomics alone"};

static const struct passed_on write_alone = {
    "remote-write-alone", "a registration that lets peers write, but without "
                          "IBV_ACCESS_LOCAL_WRITE, was passed on: devices refuse it"};

bool request_remote(unsigned access)
{
    return access & REMOTE;
}

bool request_written(unsigned access)
{
    return access & IBV_ACCESS_LOCAL_WRITE;
}

static bool peers_write(unsigned access)
{
    return access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}

static const struct passed_on *refuse(const struct addr_request *wanted)
{
    if (!wanted->length)
        return &no_bytes;
    if (wanted->access & IBV_ACCESS_ON_DEMAND)
        return wanted->addr ? &on_demand : &no_address;
    if (!wanted->addr || wanted->length > UINTPTR_MAX - (uintptr_t)wanted->addr)
        return &no_address;
    if (wanted->access & IBV_ACCESS_ZERO_BASED)
        return &zero_based;
    if (wanted->access & IBV_ACCESS_MW_BIND)
        return &windows;
    if (wanted->access & ~(unsigned)TRANSLATED)
        return &unknown_access;
    if (peers_write(wanted->access) && !request_written(wanted->access))
        return &write_alone;
    if ((wanted->access & IBV_ACCESS_REMOTE_ATOMIC) && !(wanted->access & IBV_ACCESS_REMOTE_WRITE))
        return &atomic_alone;
    return NULL;
}

static uint64_t rights_of(unsigned access)
{
    return HMREG_SEND | (access & IBV_ACCESS_LOCAL_WRITE ? HMREG_RECV : 0) |
           (access & IBV_ACCESS_REMOTE_READ ? HMREG_REMOTE_READ : 0) |
           (access & IBV_ACCESS_REMOTE_WRITE ? HMREG_REMOTE_WRITE : 0);
}

const struct passed_on *request_translate(const struct addr_request *wanted, struct iovec *iov,
                                          struct hmreg_mr_attr *attr)
{
    const struct passed_on *why = refuse(wanted);

    if (why)
        return why;
    *iov = (struct iovec){wanted->addr, wanted->length};
    *attr = (struct hmreg_mr_attr){
        .size = sizeof(*attr),
        .iov = iov,
        .iov_count = 1,
        .access = rights_of(wanted->access),
        .ordering = wanted->access & IBV_ACCESS_RELAXED_ORDERING ? HMREG_ORDERING_RELAXED
                                                                 : HMREG_ORDERING_DEFAULT,
        .atomics =
            wanted->access & IBV_ACCESS_REMOTE_ATOMIC ? HMREG_CHOICE_ON : HMREG_CHOICE_DEFAULT,
        .optional_access =
            wanted->access & IBV_ACCESS_OPTIONAL_RANGE & ~(unsigned)IBV_ACCESS_RELAXED_ORDERING,
    };
    if (wanted->iova != (uint64_t)(uintptr_t)wanted->addr) {
        attr->set_iova = 1;
        attr->iova = wanted->iova;
    }
    return NULL;
}
