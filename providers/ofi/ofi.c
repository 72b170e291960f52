/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The libfabric provider: registers through fi_mr_regattr(). It compiles against any libfabric
 * from 1.17 on and runs with that version or a newer one. ofi_abi.h declares later additions; they
 * are used only if both the loaded library and the API version that the application passed to
 * fi_getinfo() have them: the structs of an older version lack the newer fields.
 */
#include "core/base/device_folder.h"
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/fault_cause.h"
#include "core/contract/provider.h"
#include "providers/ofi/ofi.h"
#include "providers/ofi/ofi_abi.h"
#include "providers/ofi/ofi_fabric.h"
#include "providers/ofi/ofi_serial.h"

#include <errno.h>
#include <hmreg/ofi.h>
#include <inttypes.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Are both the loaded library and the application's API version at least this version? */
static bool has(const struct ofi *ofi, uint32_t version)
{
    return FI_VERSION_GE(fi_version(), version) && FI_VERSION_GE(ofi->api_version, version);
}

/* ---- what the fabric can do ------------------------------------------------------------- */

static int refuse_unknown(const struct ofi *ofi, struct hmreg_reason *why, const char *what)
{
    return hmreg_refuse(why, -EOPNOTSUPP, "fabric-unknown",
                        "this hmreg does not know whether %s %s, and does not assume it", ofi->name,
                        what);
}

static int can_dmabuf(const struct ofi *ofi, struct hmreg_reason *why)
{
    uint32_t loaded = fi_version();

    if (!ofi->fabric)
        return refuse_unknown(ofi, why, "imports dmabufs");
    if (!ofi->fabric->dmabuf)
        return hmreg_refuse(why, -EOPNOTSUPP, "fabric-imports-no-dmabuf", "%s imports no dmabuf%s",
                            ofi->name, ofi->fabric->cpu ? ": it moves bytes with the CPU" : "");
    if (FI_VERSION_LT(loaded, ofi->fabric->dmabuf))
        return hmreg_refuse(why, -EOPNOTSUPP, "libfabric-too-old",
                            "libfabric %u.%u is loaded; its %s imports dmabufs (FI_MR_DMABUF) from "
                            "%u.%u on: use a newer one",
                            FI_MAJOR(loaded), FI_MINOR(loaded), ofi->fabric->core,
                            FI_MAJOR(ofi->fabric->dmabuf), FI_MINOR(ofi->fabric->dmabuf));
    if (FI_VERSION_LT(ofi->api_version, OFI_DMABUF_VERSION))
        return hmreg_refuse(why, -EOPNOTSUPP, "api-version-too-old",
                            "fi_getinfo() was called with FI_VERSION(%u, %u); dmabufs need "
                            "FI_VERSION(1, 20) or later",
                            FI_MAJOR(ofi->api_version), FI_MINOR(ofi->api_version));
    return 0;
}

static int can_mapped(const struct ofi *ofi, struct hmreg_reason *why)
{
    if (!ofi->fabric)
        return refuse_unknown(ofi, why, "moves bytes with the CPU, from inside the process,");
    if (!ofi->fabric->cpu)
        return hmreg_refuse(
            why, -EOPNOTSUPP, "fabric-bypasses-cpu",
            "%s's device reads memory itself, so a CPU mapping of device memory is of no use to it",
            ofi->name);
    return 0;
}

/* Does the loaded libfabric have this iface? A missing iface would be an index beyond its tables.
 */
static bool knows_iface(enum hmreg_iface iface)
{
    const int of_1_17 = FI_HMEM_SYNAPSEAI;
    enum fi_hmem_iface asked = (enum fi_hmem_iface)iface;

    return (int)iface <= of_1_17 || strcmp(fi_tostr(&asked, FI_TYPE_HMEM_IFACE), "Unknown");
}

/* ROCm's device has a field since libfabric 2.5; before, the field had to be 0. */
static bool names_device(const struct ofi *ofi, enum hmreg_iface iface)
{
    return iface != HMREG_IFACE_ROCR || has(ofi, OFI_ROCR_VERSION);
}

/* libfabric's name for the device. */
static uint64_t device_name(const struct ofi *ofi, const struct provider_request *req)
{
    if (!names_device(ofi, req->iface))
        return 0;
    if (req->iface == HMREG_IFACE_ZE)
        return (uint64_t)ofi_ze_device(req->driver, req->driver_device);
    return (uint64_t)req->device;
}

/* Has this libfabric a name for the device? */
static int check_device(const struct provider_request *req, struct hmreg_reason *why)
{
    uint32_t loaded = fi_version();

    if (!req->driver || FI_VERSION_GE(loaded, OFI_ZE_DRIVER_VERSION) ||
        (req->path != HMREG_PATH_DMABUF && req->path != HMREG_PATH_PEERMEM))
        return 0;
    return hmreg_refuse(why, -EOPNOTSUPP, "libfabric-lacks-driver",
                        "libfabric %u.%u is loaded; it can name only devices of the first driver "
                        "of %s, but this device is of driver %u: use libfabric 1.18 or newer",
                        FI_MAJOR(loaded), FI_MINOR(loaded), hmreg_iface_name(req->iface),
                        req->driver);
}

/* Can this libfabric accept the memory's iface and device? It never uses CUDA's device as an
 * index. */
static int can_name(const struct ofi *ofi, enum hmreg_iface iface, int device,
                    struct hmreg_reason *why)
{
    uint32_t loaded = fi_version();

    if (!knows_iface(iface))
        return hmreg_refuse(
            why, -EOPNOTSUPP, "libfabric-lacks-iface",
            "libfabric %u.%u is loaded; it has no iface %d (FI_HMEM_*): use a newer libfabric, or "
            "pass a dmabuf of the memory and claim iface system",
            FI_MAJOR(loaded), FI_MINOR(loaded), (int)iface);
    if (device < 0 && iface != HMREG_IFACE_SYSTEM && iface != HMREG_IFACE_CUDA &&
        names_device(ofi, iface))
        return hmreg_refuse(why, -EOPNOTSUPP, "device-unknown",
                            "libfabric needs the device of %s memory, but the caller's claim is "
                            "HMREG_DEVICE_ANY: claim the device",
                            hmreg_iface_name(iface));
    return 0;
}

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    const struct ofi *ofi = self;
    int rc;

    if (path == HMREG_PATH_MAPPED)
        return can_mapped(ofi, why);
    rc = path == HMREG_PATH_DMABUF ? can_dmabuf(ofi, why) : 0;
    if (rc)
        return rc;
    /* Without FI_HMEM libfabric ignores iface and treats a device address as a CPU address. */
    if (!ofi->hmem)
        return hmreg_refuse(
            why, -EOPNOTSUPP, "no-fi-hmem",
            "the domain is without FI_HMEM, so %s takes no device memory: request it from "
            "fi_getinfo() (FI_HMEM in caps, FI_MR_HMEM in mr_mode); some providers grant it",
            ofi->name);
    return can_name(ofi, iface, device, why);
}

/* ---- registering ------------------------------------------------------------------------ */

/* True if other paths would fail too: the error is then not a refusal of this path. */
static bool is_of_request(const struct provider_request *req, int rc)
{
    return (rc == -FI_ENOMEM && !provider_enomem_refuses(req)) || rc == -FI_ENOKEY ||
           rc == -FI_EAGAIN || rc == -EMFILE || rc == -ENFILE;
}

static const char *remedy(enum hmreg_path path, int rc)
{
    if (path == HMREG_PATH_PEERMEM && rc == -FI_ENOSYS)
        return "; this libfabric was built without this runtime, or could not start it "
               "(FI_LOG_LEVEL=warn says)";
    if (path == HMREG_PATH_PEERMEM && rc == -FI_EFAULT)
        return "; no peer-memory module (nvidia-peermem) took it, or BAR1 is full";
    if (path == HMREG_PATH_DMABUF && rc == -FI_ENOSYS)
        return "; this libfabric was built without dmabufs or this runtime, or could not start it "
               "(FI_LOG_LEVEL=warn says)";
    if (rc == -FI_ENOMEM)
        return "; the memory's window for other devices (BAR1) is full, or the NIC has no free "
               "regions";
    if (path == HMREG_PATH_DMABUF && (rc == -FI_EOPNOTSUPP || rc == -EPROTONOSUPPORT))
        return "; the device's driver imports no dmabufs";
    return "";
}

/* The address of the descriptor's first byte, for libfabric. */
static char *dmabuf_base(const struct provider_request *req)
{
    return (char *)((uintptr_t)req->iov[0].iov_base - req->dmabuf->offset);
}

/* A caller's dmabuf may have no address in this process, and no iface. */
static int check_address(const struct ofi *ofi, const struct provider_request *req,
                         struct hmreg_reason *why)
{
    if (req->path != HMREG_PATH_DMABUF || !ofi->fabric || !ofi->fabric->by_address ||
        (dmabuf_base(req) && req->iface != HMREG_IFACE_SYSTEM))
        return 0;
    return hmreg_refuse(why, -EOPNOTSUPP, "dmabuf-without-address",
                        "%s exports the dmabuf again, by the address and iface of its memory: set "
                        "base_addr to the address in this process, and claim the iface",
                        ofi->name);
}

/* A device maps whole pages; libfabric's providers return only EINVAL for such a base. */
static bool base_is_in_a_page(const struct provider_request *req)
{
    return req->path == HMREG_PATH_DMABUF &&
           (uintptr_t)dmabuf_base(req) & ((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/* The rights with which the fabric writes to the memory. */
#define WRITING (HMREG_RECV | HMREG_READ | HMREG_REMOTE_WRITE)

static int registration_failed(const struct ofi *ofi, const struct provider_request *req, int rc,
                               struct hmreg_reason *why)
{
    char cause[FAULT_CAUSE_BYTES];

    if (req->path == HMREG_PATH_SYSTEM && rc == -FI_EFAULT &&
        hmreg_fault_cause(req->iov, req->count, req->access & WRITING, cause))
        return hmreg_fail_vendor(rc, "ofi", rc, fi_strerror(-rc), "%s: fi_mr_regattr() failed: %s",
                                 ofi->name, cause);
    if (req->path == HMREG_PATH_SYSTEM || is_of_request(req, rc))
        return ofi_check(ofi, rc, "fi_mr_regattr()");
    why->vendor_code = rc;
    if (rc == -FI_EINVAL && base_is_in_a_page(req))
        return hmreg_refuse(why, rc, "page-offset-differs",
                            "%s refused the dmabuf (EINVAL): its base_addr, %p, is not a multiple "
                            "of the page size, %ld; choose one that is",
                            ofi->name, (void *)dmabuf_base(req), sysconf(_SC_PAGESIZE));
    return hmreg_refuse(why, rc, "fabric-refused", "%s: fi_mr_regattr() of %s memory failed: %s%s",
                        ofi->name, hmreg_iface_name(req->iface), fi_strerror(-rc),
                        remedy(req->path, rc));
}

/* Can the kernel find struct pages under the mapping? A one-byte read from our own process gives
 * the result that every transfer will get. If the system call is forbidden, the fabric does not
 * use it either. */
static int probe_pages(const struct ofi *ofi, const struct provider_request *req,
                       struct hmreg_reason *why)
{
    for (size_t i = 0; i < req->count; i++) {
        char byte;
        struct iovec to = {&byte, 1}, from = {req->iov[i].iov_base, 1};

        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT)
            continue;
        why->vendor_code = EFAULT;
        return hmreg_refuse(
            why, -EFAULT, "mapping-has-no-pages",
            "this memory can be mapped for loads and stores only, but %s would move it with %s",
            ofi->name, ofi->fabric->pinner);
    }
    return 0;
}

static void describe(const struct ofi *ofi, const struct provider_request *req,
                     union ofi_mr_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->known.mr_iov = req->iov;
    attr->known.iov_count = req->count;
    attr->known.access = req->access;
    attr->known.requested_key = req->requested_key;
    attr->known.context = req->context;
    attr->known.auth_key_size = req->auth_key_size;
    attr->known.auth_key = (uint8_t *)(uintptr_t)req->auth_key;
    if (req->path == HMREG_PATH_DMABUF || req->path == HMREG_PATH_PEERMEM) {
        attr->known.iface = (enum fi_hmem_iface)req->iface;
        attr->known.device.reserved = device_name(ofi, req);
    }
    if (has(ofi, OFI_HMEM_DATA_VERSION))
        attr->later.hmem_data = req->hmem_data;
    if (has(ofi, OFI_PAGE_SIZE_VERSION))
        attr->later.page_size = req->page_size;
}

static int call_regattr(const struct ofi *ofi, const struct provider_request *req,
                        struct fid_mr **mr)
{
    /* Flags that describe the memory matter only to a provider that inspects it by address. */
    uint64_t known =
        req->path == HMREG_PATH_PEERMEM ? UINT64_MAX : HMREG_RMA_EVENT | HMREG_RMA_PMEM;
    uint64_t flags = (req->flags & known) | req->options.flags;
    struct fi_mr_dmabuf dmabuf;
    union ofi_mr_attr attr;
    int rc;

    flags |= req->options.ordering == HMREG_ORDERING_RELAXED ? ofi->relaxed : 0;
    describe(ofi, req, &attr);
    if (req->path == HMREG_PATH_DMABUF) {
        dmabuf = (struct fi_mr_dmabuf){
            .fd = req->dmabuf->fd,
            .offset = req->dmabuf->offset,
            .len = req->dmabuf->length,
            .base_addr = dmabuf_base(req),
        };
        attr.known.mr_iov = (const void *)&dmabuf; /* a union since 1.20 */
        flags |= FI_MR_DMABUF;
    }
    ofi_serial_enter(ofi->serial);
    rc = ofi_negative(fi_mr_regattr(ofi->domain, &attr.known, flags, mr));
    ofi_serial_leave(ofi->serial);
    return rc;
}

static int state_new(const struct ofi *ofi, const struct provider_request *req, struct state **out)
{
    struct state *state = calloc(1, sizeof(*state));

    if (!state)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a region's state");
    state->keyed = req->access & HMREG_ACCESS_REMOTE;
    state->event = req->flags & HMREG_RMA_EVENT;
    state->enabled = !(ofi->mr_mode & HMREG_MR_ENDPOINT) &&
                     !((ofi->mr_mode & HMREG_MR_RMA_EVENT) && state->event);
    *out = state;
    return 0;
}

static int reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    const struct ofi *ofi = self;
    struct fid_mr *mr = NULL; /* some providers write it on failure too */
    struct state *state = NULL;
    int rc = 0;

    /* Such a fabric would accept the key and then admit every peer. */
    if (req->auth_key_size && !ofi->auth)
        return hmreg_fail(-EOPNOTSUPP, "auth_key is set, but %s has no authorization keys",
                          ofi->name);
    if (req->path == HMREG_PATH_MAPPED && ofi->pins)
        rc = probe_pages(ofi, req, why);
    rc = rc ? rc : check_device(req, why);
    rc = rc ? rc : check_address(ofi, req, why);
    if (rc)
        return rc;
    rc = state_new(ofi, req, &state);
    if (rc)
        return rc;
    rc = call_regattr(ofi, req, &mr);
    if (rc) {
        free(state);
        return registration_failed(ofi, req, rc, why);
    }
    *out = (struct hmreg_mr_keys){
        .desc = fi_mr_desc(mr),
        .key = req->access & HMREG_ACCESS_REMOTE ? fi_mr_key(mr) : HMREG_KEY_NOTAVAIL,
        .native = mr,
        .priv = state,
    };
    return 0;
}

static uint64_t requested_key(void *self, const struct hmreg_mr_keys *mr)
{
    return fi_mr_key(mr->native);
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    const struct ofi *ofi = self;
    struct fid_mr *native = mr->native;
    int rc = CALL(ofi, fi_close(&native->fid), "fi_close() of a memory region");

    if (rc != -EBUSY)
        free(mr->priv);
    return rc;
}

/* Re-reads desc and key of an asynchronous registration, available once its event arrived. */
static void look(void *self, struct hmreg_mr_keys *mr)
{
    const struct state *state = mr->priv;

    mr->desc = fi_mr_desc(mr->native);
    mr->key = state->keyed ? fi_mr_key(mr->native) : HMREG_KEY_NOTAVAIL;
}

/* ---- raw keys --------------------------------------------------------------------------- */

static int raw_key(void *self, const struct hmreg_mr_keys *mr, uint64_t *base, uint8_t *key,
                   size_t *size)
{
    const struct ofi *ofi = self;
    struct fid_mr *native = mr->native;
    uint64_t found_base = 0;
    size_t found_size = *size;
    int rc =
        CALL(ofi, fi_mr_raw_attr(native, &found_base, key, &found_size, 0), "fi_mr_raw_attr()");

    if (!rc)
        *base = found_base;
    if (!rc || rc == -HMREG_ETOOSMALL)
        *size = found_size;
    return rc;
}

static int map_raw(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key)
{
    const struct ofi *ofi = self;
    uint64_t mapped = 0;
    uint8_t *bytes = (uint8_t *)(uintptr_t)raw;
    int rc =
        CALL(ofi, fi_mr_map_raw(ofi->domain, base, bytes, size, &mapped, 0), "fi_mr_map_raw()");

    if (rc)
        return rc;
    *key = mapped;
    return 0;
}

static int unmap_raw(void *self, uint64_t key)
{
    const struct ofi *ofi = self;

    return CALL(ofi, fi_mr_unmap_key(ofi->domain, key), "fi_mr_unmap_key()");
}

static int can_data_direct(void *self, struct hmreg_reason *why)
{
    return hmreg_refuse(why, -EOPNOTSUPP, "no-data-direct",
                        "libfabric's provider %s imports dmabufs itself, so hmreg cannot choose "
                        "data direct: register through libibverbs",
                        ((const struct ofi *)self)->name);
}

/* ---- the domain ------------------------------------------------------------------------- */

static void destroy(void *self)
{
    struct ofi *ofi = self;

    ofi_serial_put(ofi->serial);
    pthread_mutex_destroy(&ofi->lock);
    free(ofi);
}

static bool gone(void *self, int rc, char *why, size_t size)
{
    return device_folder_tells(&((struct ofi *)self)->folder, rc, why, size);
}

static const struct provider_ops ofi_ops = {
    .name = "ofi",
    .can = can,
    .can_data_direct = can_data_direct,
    .reg = reg,
    .gone = gone,
    .dereg = dereg,
    .look = look,
    .bind = ofi_bind,
    .is_bound = ofi_is_bound,
    .enable = ofi_enable,
    .refresh = ofi_refresh,
    .requested_key = requested_key,
    .raw_key = raw_key,
    .map_raw = map_raw,
    .unmap_raw = unmap_raw,
    .destroy = destroy,
};

#define MET_MODES                                                                                  \
    (FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |                \
     FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM)

/* FI_MR_XPU_DESC requires nothing at registration: the application calls fi_mr_get_xpu_desc(). */
static int translate_mode(const struct fi_info *info, uint32_t *out)
{
    uint32_t mode = (uint32_t)info->domain_attr->mr_mode;
    uint32_t local = info->mode & OFI_LOCAL_MR ? HMREG_MR_LOCAL : 0;

    if (mode == HMREG_MR_BASIC)
        mode = HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY | local;
    else if (mode == HMREG_MR_SCALABLE)
        mode = local;
    if (mode & FI_MR_COLLECTIVE)
        return hmreg_fail(-EOPNOTSUPP,
                          "info->domain_attr->mr_mode has FI_MR_COLLECTIVE, but hmreg registers no "
                          "memory for collective operations (FI_COLLECTIVE): remove it from the "
                          "hints for fi_getinfo(), or open another domain for them");
    mode &= ~OFI_MR_XPU_DESC;
    if (mode & ~(uint32_t)MET_MODES)
        return hmreg_fail(
            -EOPNOTSUPP,
            "info->domain_attr->mr_mode has %#x, which this hmreg does not know; it supports %#x",
            mode & ~(uint32_t)MET_MODES, (unsigned)MET_MODES);
    *out = mode;
    return 0;
}

static int check_arguments(const struct fid_domain *domain, const struct fi_info *info)
{
    if (!domain)
        return hmreg_fail(-EINVAL, "domain is NULL");
    if (domain->fid.fclass != FI_CLASS_DOMAIN)
        return hmreg_fail(-EINVAL, "domain is not a fid_domain: its class is %zu",
                          domain->fid.fclass);
    if (!info)
        return hmreg_fail(-EINVAL, "info is NULL");
    if (!info->fabric_attr || !info->domain_attr)
        return hmreg_fail(-EINVAL, "info->%s is NULL",
                          info->fabric_attr ? "domain_attr" : "fabric_attr");
    return 0;
}

static struct ofi *ofi_new(struct fid_domain *domain, const struct fi_info *info, uint32_t mr_mode)
{
    const char *name = info->fabric_attr->prov_name;
    const struct ofi_fabric *fabric = ofi_fabric_find(name);
    bool any_thread = ofi_fabric_any_thread(fabric, info);
    struct ofi *ofi = calloc(1, sizeof(*ofi));

    if (!ofi)
        return NULL;
    ofi->serial = any_thread ? NULL : ofi_serial_get(domain);
    if (!ofi->serial && !any_thread) {
        free(ofi);
        return NULL;
    }
    ofi->domain = domain;
    ofi->fabric = fabric;
    snprintf(ofi->name, sizeof(ofi->name), "%s", name ? name : "a fabric without a name");
    ofi->api_version = info->fabric_attr->api_version;
    ofi->hmem = (info->caps | info->domain_attr->caps) & FI_HMEM;
    ofi->auth = info->domain_attr->auth_key_size;
    ofi->mr_mode = mr_mode;
    pthread_mutex_init(&ofi->lock, NULL);
    ofi->relaxed = fabric ? ofi_fabric_relaxed(fabric, info->fabric_attr->prov_version) : 0;
    ofi->pins = ofi->fabric && ofi_fabric_pins(ofi->fabric, ofi->hmem);
    return ofi;
}

static uint32_t iov_limit(const struct ofi *ofi, size_t stated)
{
    bool one = !stated || (ofi->fabric && ofi->fabric->first_range);

    return one ? 1 : stated < UINT32_MAX ? (uint32_t)stated : UINT32_MAX;
}

/* hmreg_domain_create() rejects a config that is too short. */
static bool is_async(const struct hmreg_domain_config *config)
{
    return config && config->size >= sizeof(*config) && (config->flags & HMREG_OFI_ASYNC);
}

/* libfabric 2 still accepts FI_REG_MR in fi_domain_bind(), but never reports an event. */
static int check_async(bool async)
{
    uint32_t loaded = fi_version();

    if (async && FI_VERSION_GE(loaded, OFI_SYNC_VERSION))
        return hmreg_fail(
            -EOPNOTSUPP,
            "config->flags has HMREG_OFI_ASYNC, but libfabric %u.%u is loaded, whose registrations "
            "complete without an event since 2.0: open the domain without the flag",
            FI_MAJOR(loaded), FI_MINOR(loaded));
    return 0;
}

/* libfabric has none of these options, except EFA's own flag. A fabric that moves bytes with the
 * CPU stores them in order and pins nothing. For a device's writes libfabric promises an order only
 * through an endpoint's attributes (max_order_waw_size). FI_REMOTE_WRITE covers atomic
 * operations. */
static void describe_options(const struct ofi *ofi, const struct fi_info *info,
                             struct provider_caps *out)
{
    bool cpu = ofi->fabric && ofi->fabric->cpu;

    out->orderings =
        PROVIDER_VALUE(HMREG_ORDERING_RELAXED) | (cpu ? PROVIDER_VALUE(HMREG_ORDERING_STRICT) : 0);
    if (cpu)
        out->on_demand = PROVIDER_VALUE(HMREG_CHOICE_OFF) | PROVIDER_VALUE(HMREG_CHOICE_ON);
    out->provider_flags = ofi->relaxed; /* the only such flag in libfabric 2.7 */
    out->atomics = PROVIDER_VALUE(info->caps & FI_ATOMIC ? HMREG_CHOICE_ON : HMREG_CHOICE_OFF);
}

/* libfabric reports no maximum length. Many versions need unique keys for all regions. */
static void describe_domain(const struct ofi *ofi, const struct fi_info *info,
                            struct provider_caps *caps)
{
    *caps = (struct provider_caps){.domain_flags = HMREG_OFI_ASYNC,
                                   .mr_mode = ofi->mr_mode,
                                   .max_len = UINT64_MAX,
                                   .local_keys = true,
                                   .renews = true};
    snprintf(caps->fabric, sizeof(caps->fabric), "%s", ofi->name);
    ofi_fabric_describe_nic(info, caps);
    caps->key_size = info->domain_attr->mr_key_size ? (uint32_t)info->domain_attr->mr_key_size : 8;
    caps->iov_limit = iov_limit(ofi, info->domain_attr->mr_iov_limit);
    caps->flags = (info->caps | info->domain_attr->caps) & (FI_RMA_EVENT | FI_RMA_PMEM);
    caps->async = ofi->async;
    caps->any_thread = !ofi->serial;
    caps->pins = ofi->fabric && ofi->fabric->locks;
    caps->refuses_keys = ofi->fabric && ofi->fabric->refuses_keys;
    caps->pcie = !strcmp(ofi->name, "efa"); /* no link but PCIe, whatever the machine */
    caps->caches = ofi->fabric && ofi_fabric_caches(ofi->fabric, info->fabric_attr->prov_version);
    describe_options(ofi, info, caps);
}

static int make(struct fid_domain *domain, const struct fi_info *info, bool async,
                struct provider_caps *caps, struct ofi **out)
{
    struct ofi *ofi;
    uint32_t mr_mode = 0;
    int rc = check_arguments(domain, info);

    rc = rc ? rc : translate_mode(info, &mr_mode);
    rc = rc ? rc : check_async(async);
    if (rc)
        return rc;
    ofi = ofi_new(domain, info, mr_mode);
    if (!ofi)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a libfabric domain");
    ofi->async = async;
    describe_domain(ofi, info, caps);
    device_folder_find_nic(&ofi->folder, caps->nic);
    *out = ofi;
    return 0;
}

int hmreg_domain_open_ofi(struct hmreg *lib, struct fid_domain *domain, const struct fi_info *info,
                          const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct provider_caps caps;
    struct ofi *ofi;
    int rc = make(domain, info, is_async(config), &caps, &ofi);

    if (rc)
        return rc;
    ofi->lib = lib;
    return hmreg_domain_create(lib, &ofi_ops, &caps, ofi, config, out);
}

int hmreg_domain_renew_ofi(struct hmreg_domain *domain, struct fid_domain *fid,
                           const struct fi_info *info)
{
    const struct ofi *before = hmreg_domain_priv(domain, "ofi");
    LOGS_FAILURE(before ? hmreg_lib_log(before->lib) : NULL);
    struct provider_caps caps;
    struct ofi *ofi;
    int rc;

    if (!before)
        return hmreg_fail(-EINVAL, "domain is NULL or not a libfabric domain");
    rc = hmreg_lib_check(before->lib);
    rc = rc ? rc : make(fid, info, before->async, &caps, &ofi);
    if (rc)
        return rc;
    ofi->lib = before->lib;
    if (strcmp(ofi->name, before->name)) {
        rc =
            hmreg_fail(-EINVAL, "info is of %s, but the domain was of %s", ofi->name, before->name);
        destroy(ofi);
        return rc;
    }
    return hmreg_domain_renew(domain, &caps, ofi);
}
