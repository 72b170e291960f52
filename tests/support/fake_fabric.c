/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fake_fabric.h.
 */
#include "tests/support/fake_fabric.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <hmreg/hmreg.h>
#include <rdma/fi_errno.h>

#define FLAG_DMABUF (UINT64_C(1) << 40)

struct fake_fabric fake_fabric;

__attribute__((visibility("default"))) uint32_t fi_version(void)
{
    return fake_fabric.version;
}

/* As libfabric's, of what the provider asks: an iface. */
__attribute__((visibility("default"))) char *fi_tostr(const void *data, enum fi_type type)
{
    static char known[] = "FI_HMEM_", unknown[] = "Unknown";

    assert_int_equal(type, FI_TYPE_HMEM_IFACE);
    return (int)*(const enum fi_hmem_iface *)data <= fake_fabric.last_iface ? known : unknown;
}

/* ---- one call --------------------------------------------------------------------------- */

/* INSIDE(): a call's result, which counts as overlapping if another thread is inside one. */
#define INSIDE(call) (enter() ? leave(-fake_fabric.gone_errno) : leave(call))

/* True: the call fails with gone_errno. */
static bool enter(void)
{
    void (*on_call)(void) = fake_fabric.on_call;

    if (atomic_fetch_add(&fake_fabric.inside, 1))
        atomic_fetch_add(&fake_fabric.overlaps, 1);
    if (on_call) {
        fake_fabric.on_call = NULL;
        on_call();
    }
    return fake_fabric.each_call && fake_fabric.each_call();
}

static int leave(int result)
{
    atomic_fetch_sub(&fake_fabric.inside, 1);
    return result;
}

/* ---- a region --------------------------------------------------------------------------- */

static int close_now(struct fid *fid)
{
    if (fake_fabric.close_code)
        return fake_fabric.close_code;
    fake_fabric.live--;
    free(fid);
    return 0;
}

static int close_mr(struct fid *fid)
{
    bool gone = enter();
    int code = close_now(fid);

    return leave(gone ? -fake_fabric.gone_errno : code);
}

static int raw_attr(struct fi_mr_raw_attr *attr)
{
    size_t needed = fake_fabric.raw_bytes ? fake_fabric.raw_bytes : FAKE_RAW_BYTES;

    if (fake_fabric.raw_code)
        return fake_fabric.raw_code;
    if (*attr->key_size < needed) {
        *attr->key_size = needed;
        return -FI_ETOOSMALL;
    }
    *attr->key_size = needed;
    *attr->base_addr = 0x5000;
    memset(attr->raw_key, 'k', needed);
    return 0;
}

static int refresh(const struct fi_mr_modify *modify)
{
    fake_fabric.refreshes++;
    fake_fabric.refreshed = *modify;
    if (modify->attr.iov_count)
        fake_fabric.refreshed_part = *modify->attr.mr_iov;
    return fake_fabric.refresh_code;
}

static int control_mr(struct fid *fid, int command, void *arg)
{
    switch (command) {
    case FI_GET_RAW_MR:
        return INSIDE(raw_attr(arg));
    case FI_ENABLE:
        fake_fabric.enables++;
        return INSIDE(fake_fabric.enable_code);
    case FI_REFRESH:
        return INSIDE(refresh(arg));
    default:
        return -FI_ENOSYS;
    }
}

static int bind_mr(struct fid *fid, struct fid *object, uint64_t flags)
{
    fake_fabric.binds++;
    fake_fabric.bound = object;
    fake_fabric.bind_flags = flags;
    return INSIDE(fake_fabric.bind_code);
}

static struct fi_ops mr_ops = {
    .size = sizeof(mr_ops), .close = close_mr, .bind = bind_mr, .control = control_mr};

/* ---- registering ------------------------------------------------------------------------ */

static void note(const struct fi_mr_attr *attr, uint64_t flags)
{
    memcpy(&fake_fabric.given, attr, sizeof(fake_fabric.given));
    fake_fabric.flags = flags;
    if (flags & FLAG_DMABUF) {
        memcpy(&fake_fabric.dmabuf, attr->mr_iov, sizeof(fake_fabric.dmabuf));
        fake_fabric.dmabuf_fd_open = fcntl(fake_fabric.dmabuf.fd, F_GETFD) >= 0;
    } else {
        memcpy(fake_fabric.iov, attr->mr_iov, attr->iov_count * sizeof(*attr->mr_iov));
    }
}

static int failure(void)
{
    if (fake_fabric.room && fake_fabric.live >= fake_fabric.room)
        return fake_fabric.full_code;
    if (!fake_fabric.reg_code || fake_fabric.reg_failures == 0)
        return 0;
    if (fake_fabric.reg_failures > 0)
        fake_fabric.reg_failures--;
    return fake_fabric.reg_code;
}

static int register_now(const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **out)
{
    struct fid_mr *mr;
    int code;

    fake_fabric.regs++;
    note(attr, flags);
    code = failure();
    if (code) {
        if (fake_fabric.litter)
            *out = (struct fid_mr *)0xdead;
        return code;
    }
    mr = calloc(1, sizeof(*mr));
    mr->fid.fclass = FI_CLASS_MR;
    mr->fid.context = attr->context;
    mr->fid.ops = &mr_ops;
    mr->mem_desc = mr;
    mr->key = fake_fabric.info->domain_attr->mr_mode & (FI_MR_PROV_KEY | HMREG_MR_BASIC)
                  ? fake_fabric.key
                  : attr->requested_key;
    fake_fabric.live++;
    *out = mr;
    if (fake_fabric.registered)
        fake_fabric.registered(mr);
    return 0;
}

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **out)
{
    return INSIDE(register_now(attr, flags, out));
}

/* ---- the domain ------------------------------------------------------------------------- */

static int map_raw(const struct fi_mr_map_raw *map)
{
    fake_fabric.maps++;
    if (fake_fabric.map_code)
        return fake_fabric.map_code;
    memcpy(fake_fabric.raw, map->raw_key,
           map->key_size < FAKE_RAW_BYTES ? map->key_size : FAKE_RAW_BYTES);
    fake_fabric.raw_size = map->key_size;
    fake_fabric.raw_base = map->base_addr;
    fake_fabric.mapped++;
    *map->key = 0x9000 + fake_fabric.maps;
    return 0;
}

static int unmap_raw(const uint64_t *key)
{
    if (fake_fabric.unmap_code)
        return fake_fabric.unmap_code;
    fake_fabric.unmapped = *key;
    fake_fabric.mapped--;
    return 0;
}

static int control_domain(struct fid *fid, int command, void *arg)
{
    switch (command) {
    case FI_MAP_RAW_MR:
        return INSIDE(map_raw(arg));
    case FI_UNMAP_KEY:
        return INSIDE(unmap_raw(arg));
    default:
        return -FI_ENOSYS;
    }
}

static struct fi_ops domain_ops = {.size = sizeof(domain_ops), .control = control_domain};
static struct fi_ops_mr domain_mr = {.size = sizeof(domain_mr), .regattr = regattr};

struct fid_domain *fake_fabric_begin(void)
{
    memset(&fake_fabric, 0, sizeof(fake_fabric));
    fake_fabric.reg_failures = -1;
    fake_fabric.version = FI_VERSION(1, 17);
    fake_fabric.last_iface = FI_HMEM_SYNAPSEAI;
    fake_fabric.domain.fid.fclass = FI_CLASS_DOMAIN;
    fake_fabric.domain.fid.ops = &domain_ops;
    fake_fabric.domain.mr = &domain_mr;
    fake_fabric.info = fi_allocinfo();
    assert_non_null(fake_fabric.info);
    fake_fabric.info->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    fake_fabric.info->fabric_attr->api_version = FI_VERSION(1, 17);
    fake_fabric.info->domain_attr->mr_key_size = 8;
    return &fake_fabric.domain;
}

void fake_fabric_end(void)
{
    fi_freeinfo(fake_fabric.info);
    assert_int_equal(fake_fabric.live, 0);
    assert_int_equal(fake_fabric.mapped, 0);
}
