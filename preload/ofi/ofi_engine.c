/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * --gpu and --cache for libfabric: which calls of the program hmreg makes in the provider's place.
 * See ofi_domain.h; the reasons that are recorded here tell the user what was passed on, and why.
 *
 * --gpu. Memory that the program claims for a device's iface (FI_HMEM) is the provider's first:
 * many have ways of their own. Where the provider refuses, and for device memory that the program
 * registers as if it were the host's, hmreg tries its paths in order: dmabuf and peer memory, then,
 * if peers address the region from 0, a CPU mapping of it, which fabrics that move data with the
 * CPU read and write for a peer. (The program's own transfers name its own address, which such a
 * fabric cannot use.)
 */
#include "preload/engine.h"
#include "preload/memory.h"
#include "preload/mode.h"
#include "preload/ofi/ofi_region.h"
#include "preload/shadow.h"

#include <errno.h>
#include <hmreg/ofi.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HINTS (HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY)

/* ---- the domain -------------------------------------------------------------------------- */

static bool has_virtual_addresses(const struct ofi_domain *domain)
{
    return domain->mr_mode & (HMREG_MR_VIRT_ADDR | HMREG_MR_BASIC);
}

static bool is_zero(const char *name)
{
    const char *value = secure_getenv(name);

    return value && strtoull(value, NULL, 0) == 0;
}

struct opening {
    const struct ofi_domain *domain;
    const struct fi_info *info;
};

/* FI_MR_CACHE_MAX_COUNT=0 turns libfabric's own cache off, as hmreg's above it asks for. It does
 * not turn this one off, which the user asked for by --cache. */
static int open_on_domain(struct hmreg *lib, void *object, const struct hmreg_domain_config *given,
                          const void *context, struct hmreg_domain **out)
{
    const struct opening *opening = context;
    struct hmreg_domain_config config = *given;
    bool off = is_zero("FI_MR_CACHE_MAX_COUNT") || is_zero("FI_MR_CACHE_MAX_SIZE");

    if (preload_mode()->gpu && !has_virtual_addresses(opening->domain))
        config.order[2] = HMREG_PATH_MAPPED;
    config.rights = HMREG_RIGHTS_LOCAL;
    if (preload_mode()->cache && off) {
        config.max_regions = 4096;
        config.max_bytes = HMREG_LIMIT_NONE;
    }
    return hmreg_domain_open_ofi(lib, object, opening->info, &config, out);
}

static void open_domain(struct ofi_domain *domain, const struct fi_info *info)
{
    struct opening opening = {domain, info};

    if (preload_mode()->gpu || preload_mode()->cache)
        domain->hmreg = engine_domain(domain->fid, NULL, open_on_domain, &opening);
}

static void flush_domain(struct ofi_domain *domain)
{
    engine_flush(domain->fid);
    domain->hmreg = NULL;
}

static void forget_domain(struct ofi_domain *domain)
{
    engine_forget(domain->fid);
}

/* May hmreg register anything here? */
static bool is_usable(const struct ofi_domain *domain)
{
    return domain->hmreg && !atomic_load(&domain->async) && domain->pid == getpid();
}

/* ---- regions ----------------------------------------------------------------------------- */

/* Fills *out. PASS: there is no memory for it, and mr is released. */
static enum ofi_answer give(struct ofi_domain *domain, const struct ofi_call *call,
                            struct hmreg_mr *mr, enum ofi_answer answer, bool cached,
                            struct ofi_made *out)
{
    struct fid_mr *made = ofi_region_new(domain, call, mr, cached);

    if (made) {
        hmreg_mr_query(mr, &out->info);
        out->mr = made;
        return answer;
    }
    if (cached)
        hmreg_mr_put(mr);
    else
        hmreg_mr_close(mr);
    return OFI_PASS;
}

static struct hmreg_mr_attr attr_of(const struct ofi_domain *domain, const struct ofi_call *call)
{
    bool chooses = !(domain->mr_mode & (HMREG_MR_PROV_KEY | HMREG_MR_BASIC));
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr),
        .iov = call->iov,
        .iov_count = call->count,
        .access = call->access,
        .offset = call->offset,
        .requested_key = chooses ? call->requested_key : 0,
        .context = call->context,
    };

    if (call->attr) {
        attr.auth_key_size = call->attr->auth_key_size;
        attr.auth_key = call->attr->auth_key_size ? call->attr->auth_key : NULL;
    }
    return attr;
}

/* ---- --gpu ------------------------------------------------------------------------------- */

static bool has_range(const struct ofi_call *call)
{
    return call->iov && call->count && call->iov[0].iov_len;
}

/* Is the memory a device's? What cannot be found out is not. In a process without a runtime
 * memory_find() knows that at once. */
static bool is_device_memory(const struct ofi_call *call)
{
    const struct iovec *iov = call->iov;
    struct hmreg_mem_info info = {.size = sizeof(info)};
    uint8_t iface = HMREG_IFACE_SYSTEM;
    struct hmreg *lib;
    int16_t device;

    if (!has_range(call) ||
        !memory_find((uintptr_t)iov->iov_base, iov->iov_len, 0, &iface, &device) ||
        iface == HMREG_IFACE_SYSTEM)
        return false;
    lib = engine_library();
    return lib && !hmreg_query(lib, iov->iov_base, iov->iov_len, &info) &&
           info.kind == HMREG_MEM_DEVICE;
}

/* What the interposers of libibverbs may do with the provider's ibv_reg_mr() of device memory. */
static enum ofi_answer refused(const struct ofi_domain *domain)
{
    return domain->below ? OFI_BELOW : OFI_PASS;
}

/* A CPU mapping would do where the fabric moves data with the CPU, but for the addresses. */
static bool needs_offsets(const struct ofi_domain *domain, int rc)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    return rc == -EOPNOTSUPP && has_virtual_addresses(domain) && !hmreg_mr_explain(NULL, &why) &&
           why.refused && strstr(why.reasons[0].text, "with the CPU");
}

static void device_refused(const struct ofi_domain *domain, int rc)
{
    if (needs_offsets(domain, rc))
        record_passed_on("virtual-addresses",
                         "peers of this domain use the program's addresses of device memory, which "
                         "a CPU mapping of it does not have: fi_getinfo(3) without FI_MR_VIRT_ADDR "
                         "makes them count from 0");
    else
        engine_refused(rc, "device-memory-refused");
}

static enum ofi_answer register_device(struct ofi_domain *domain, const struct ofi_call *call,
                                       struct ofi_made *out)
{
    struct hmreg_mr_attr attr = attr_of(domain, call);
    struct hmreg_mr *mr = NULL;
    int rc;

    /* Without FI_HMEM hmreg has no path on such a fabric. */
    if (domain->below && !domain->hmem)
        return OFI_BELOW;
    rc = hmreg_mr_regattr(domain->hmreg, &attr, call->flags & ~HINTS, &mr);
    if (rc) {
        device_refused(domain, rc);
        return refused(domain);
    }
    if (!hmreg_mr_native(mr)) {
        record_passed_on("device-memory-in-pieces",
                         "the range spans several allocations of the device, which one region of "
                         "libfabric cannot have: register each by itself");
        hmreg_mr_close(mr);
        return refused(domain);
    }
    return give(domain, call, mr, OFI_MADE, false, out);
}

/* ---- --cache ----------------------------------------------------------------------------- */

/* Has it attributes that make it another region than its range and rights say? Fields that
 * libfabric 1.17 lacks are valid if the program asked fi_getinfo() for a version with them;
 * hmem_data, the first of them, if it claims a device's memory (libfabric 2.1's own hooks do not
 * set it otherwise). */
static bool has_attributes(const struct ofi_domain *domain, const struct ofi_call *call)
{
    static const char none[112];
    const size_t hmem_data = 80, page_size = 88, base_mr = 96, end = 112;
    size_t first = ofi_claimed(domain, call) ? hmem_data : page_size;
    size_t known = FI_VERSION_GE(domain->api_version, FI_VERSION(2, 0))    ? end
                   : FI_VERSION_GE(domain->api_version, FI_VERSION(1, 22)) ? base_mr
                   : FI_VERSION_GE(domain->api_version, FI_VERSION(1, 19)) ? page_size
                                                                           : hmem_data;

    if (!call->attr)
        return false;
    return call->attr->auth_key_size ||
           (known > first && memcmp((const char *)call->attr + first, none, known - first));
}

/* A receive that is pending at the close must not write into the memory later, unless the user
 * accepts that. A key of the program's choice ends with the program's own region; the cache's are
 * the provider's. */
static bool has_cacheable_rights(const struct ofi_domain *domain, const struct ofi_call *call)
{
    enum record_rights rights = ofi_rights(call);

    if (rights == RECORD_WRITTEN && !preload_mode()->write) {
        record_passed_on(
            "local-write",
            "a region that the NIC may write (FI_RECV, FI_READ) is not cached, since a "
            "receive that is pending when the program closes it would write into the "
            "memory later: --cache=write accepts that");
        return false;
    }
    if (rights != RECORD_REMOTE)
        return true;
    if (!preload_mode()->remote) {
        record_passed_on("remote-rights",
                         "a region with remote rights is not cached, since peers could use its key "
                         "after it was closed: --cache=remote accepts that");
        return false;
    }
    if (!(domain->mr_mode & (HMREG_MR_PROV_KEY | HMREG_MR_BASIC))) {
        record_passed_on("own-key",
                         "a region with remote rights is not cached where the program chooses its "
                         "key: fi_getinfo(3) with FI_MR_PROV_KEY lets the provider choose");
        return false;
    }
    return true;
}

static bool is_plain(const struct ofi_domain *domain, const struct ofi_call *call)
{
    const uint64_t modes = HMREG_MR_ENDPOINT | HMREG_MR_RAW | HMREG_MR_MMU_NOTIFY;

    return has_range(call) && call->count == 1 && !call->offset && !(call->flags & ~HINTS) &&
           !has_attributes(domain, call) && call->access && !(call->access & ~HMREG_ACCESS_ALL) &&
           !(domain->mr_mode & modes);
}

static bool is_cacheable(const struct ofi_domain *domain, const struct ofi_call *call)
{
    if (!preload_mode()->cache)
        return false;
    if (record_any_left()) {
        record_passed_on("call-left",
                         "nothing is cached any more once a signal handler of the program has left "
                         "a registration by a jump (siglongjmp) or an exception: what that call "
                         "held is held for ever");
        return false;
    }
    if (!is_plain(domain, call)) {
        record_passed_on("not-plain",
                         "only a registration of one range without flags, a key for authorization, "
                         "another region as its base or an endpoint is cached");
        return false;
    }
    return has_cacheable_rights(domain, call);
}

/* The program's transfers name its own addresses: not a mapping's. */
static bool is_by_mapping(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    return hmreg_mr_query(mr, &info) || info.path == HMREG_PATH_MAPPED || !hmreg_mr_native(mr);
}

static enum ofi_answer from_cache(struct ofi_domain *domain, const struct ofi_call *call,
                                  struct ofi_made *out)
{
    struct hmreg_mr *mr = NULL;
    int rc;

    engine_expect();
    rc = hmreg_mr_get(domain->hmreg, call->iov->iov_base, call->iov->iov_len, call->access, &mr);
    if (rc) {
        engine_refused(rc, "not-cached");
        return OFI_PASS;
    }
    if (is_by_mapping(mr)) {
        hmreg_mr_put(mr);
        return OFI_PASS;
    }
    return give(domain, call, mr, engine_registered() ? OFI_MADE : OFI_CACHED, true, out);
}

/* ---- the hook's calls -------------------------------------------------------------------- */

static enum ofi_answer before(struct ofi_domain *domain, const struct ofi_call *call,
                              struct ofi_made *out)
{
    enum ofi_answer answer = OFI_PASS;

    if (!is_usable(domain))
        return OFI_PASS;
    if (is_cacheable(domain, call))
        answer = from_cache(domain, call, out);
    if (answer == OFI_PASS && preload_mode()->gpu && !ofi_claimed(domain, call) &&
        is_device_memory(call))
        answer = register_device(domain, call, out);
    return answer;
}

/* An error of the request, which hmreg would get as well. */
static bool is_of_request(int error)
{
    return error == FI_ENOKEY || error == FI_EAGAIN || error == EMFILE || error == ENFILE;
}

/* What is cached takes the room of what the program registers. */
static enum ofi_answer make_room(struct ofi_domain *domain, const struct ofi_call *call, int error)
{
    return error == ENOMEM && engine_relieve() ? OFI_AGAIN : OFI_PASS;
}

static enum ofi_answer after(struct ofi_domain *domain, const struct ofi_call *call, int error,
                             struct ofi_made *out)
{
    if (!is_usable(domain))
        return OFI_PASS;
    if (preload_mode()->gpu && ofi_claimed(domain, call) && has_range(call) && error != ENOMEM &&
        !is_of_request(error))
        return register_device(domain, call, out);
    return make_room(domain, call, error);
}

const struct ofi_engine hmreg_preload_ofi = {
    .find = memory_find,
    .memory = shadow_memory,
    .open = open_domain,
    .flush = flush_domain,
    .forget = forget_domain,
    .before = before,
    .after = after,
    .native = ofi_region_native,
};
