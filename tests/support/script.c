/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See script.h.
 */
#include "tests/support/script.h"

#include "core/base/error.h"
#include "core/contract/provider.h"
#include "simulated/engine/pcie.h"
#include "tests/support/vendors.h"

struct script script;

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    int rc = script.can[path][device == 1]; /* other devices are as 0 */

    return rc ? hmreg_refuse(why, rc, "script-cannot", "script: no %s on %d", hmreg_path_name(path),
                             device)
              : 0;
}

static void record(const struct provider_request *req)
{
    struct script_call *call = &script.calls[script.count++];

    assert_true(script.count <= SCRIPT_CALLS);
    *call = (struct script_call){
        .path = req->path,
        .count = req->count,
        .access = req->access,
        .requested_key = req->requested_key,
        .flags = req->flags,
        .iface = req->iface,
        .device = req->device,
        .way = req->way,
        .dmabuf = {.fd = -1},
        .context = req->context,
        .options = {.ordering = req->options.ordering,
                    .atomics = req->options.atomics,
                    .on_demand = req->options.on_demand,
                    .set_iova = req->options.set_iova,
                    .iova = req->options.iova},
    };
    memcpy(call->iov, req->iov, req->count * sizeof(*req->iov));
    if (req->dmabuf) {
        call->dmabuf = *req->dmabuf;
        call->pcie = fake_is_pcie(req->dmabuf->fd);
        assert_int_equal(pread(req->dmabuf->fd, &call->first, 1, (off_t)req->dmabuf->offset), 1);
    } else if (req->path != HMREG_PATH_PEERMEM && !script.unmapped) {
        call->first = *(char *)req->iov[0].iov_base;
    }
}

static bool script_fails(enum hmreg_path path)
{
    if (!script.fail[path] || !script.times)
        return false;
    if (script.fail_index && script.fail_index != script.count)
        return false;
    script.times -= script.times > 0;
    return true;
}

static int reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    int device = req->device == 1, rc;

    rc = script.before_reg ? script.before_reg((unsigned)(uintptr_t)self) : 0;
    if (rc)
        return hmreg_fail(rc, "script: the test has it fail");
    record(req);
    if (script.refuse[req->path][device]) {
        why->vendor_code = 4711;
        return hmreg_refuse(why, script.refuse[req->path][device], "script-refused",
                            "script: %s refused", hmreg_path_name(req->path));
    }
    if (req->path == HMREG_PATH_DMABUF && script.refuse_way[req->way])
        return hmreg_refuse(why, script.refuse_way[req->way], "script-refused-way",
                            "script: not by this way");
    if (script_fails(req->path))
        return hmreg_fail_vendor(script.fail[req->path], "ofi", 4712, "in its own words",
                                 "script: %s failed", hmreg_path_name(req->path));
    script.live++;
    *out = (struct hmreg_mr_keys){
        .priv = (void *)(uintptr_t)script.count,
        .key = script.given_key ? script.given_key : req->requested_key,
    };
    if (script.after_reg)
        script.after_reg();
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    bool wanted = !script.dereg_index || script.dereg_index == (uintptr_t)mr->priv;

    if (script.dereg && wanted)
        hmreg_fail(script.dereg, "script: dereg failed");
    if (script.dereg == -EBUSY && wanted)
        return -EBUSY;
    script.live--;
    if (script.after_dereg)
        script.after_dereg();
    return wanted ? script.dereg : 0;
}

static int refresh(void *self, const struct hmreg_mr_keys *mr, const struct iovec *iov,
                   size_t count, uint64_t flags)
{
    script.refreshed[script.refreshes++ % 8] = iov ? *iov : (struct iovec){NULL, 0};
    return 0;
}

static int map_raw(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key)
{
    if (script.map_code)
        return hmreg_fail(script.map_code, "no key is mapped");
    script.keys++;
    script.keys_of[(uintptr_t)self]++;
    *key = base;
    memcpy(key, raw, size < 8 ? size : 8);
    *key += base;
    return 0;
}

static int unmap_raw(void *self, uint64_t key)
{
    script.keys--;
    script.keys_of[(uintptr_t)self]--;
    return script.unmap_code ? hmreg_fail(script.unmap_code, "no key is unmapped") : 0;
}

static void destroy(void *self)
{
    script.destroys++;
}

static const struct provider_ops ops = {.name = "script",
                                        .can = can,
                                        .reg = reg,
                                        .dereg = dereg,
                                        .refresh = refresh,
                                        .map_raw = map_raw,
                                        .unmap_raw = unmap_raw,
                                        .destroy = destroy};

const struct script_caps script_caps = {
    .fabric = "script",
    .mr_mode = HMREG_MR_VIRT_ADDR,
    .key_size = 8,
    .iov_limit = 8,
    .max_len = 1u << 30,
};

int script_domain(struct hmreg *lib, const struct script_caps *caps,
                  const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    struct provider_caps all = {.orderings = UINT32_MAX,
                                .atomics = UINT32_MAX,
                                .on_demand = UINT32_MAX,
                                .iova = true,
                                .local_iova = true};

    caps = caps ? caps : &script_caps;
    memcpy(all.fabric, caps->fabric, sizeof(all.fabric));
    all.mr_mode = caps->mr_mode;
    all.key_size = caps->key_size;
    all.iov_limit = caps->iov_limit;
    all.max_len = caps->max_len;
    all.max_mr = caps->max_mr;
    all.async = caps->async;
    all.single = caps->single;
    all.any_thread = caps->any_thread;
    all.data_direct = caps->data_direct;
    all.pcie = caps->pcie;
    all.pins = caps->pins;
    memcpy(all.nic, caps->nic, sizeof(all.nic));
    all.pci = caps->pci;
    assert_true(caps->number < SCRIPT_DOMAINS);
    return hmreg_domain_create(lib, &ops, &all, (void *)(uintptr_t)caps->number, config, out);
}

const struct script_call *script_last(void)
{
    return &script.calls[script.count - 1];
}

/* ---- the fixture ---------------------------------------------------------------------------- */

static struct script_fixture *opened;

void script_closed(void)
{
    opened = NULL;
}

static void close_opened(void)
{
    if (opened)
        script_close(opened);
}

void script_open(struct script_fixture *fixture, const struct script_caps *caps,
                 const struct hmreg_domain_config *config)
{
    opened = fixture;
    test_after(close_opened);
    vendors_reset();
    script = (struct script){.times = -1};
    assert_ok(hmreg_open(NULL, &fixture->lib));
    assert_ok(script_domain(fixture->lib, caps, config, &fixture->domain));
    for (int i = 0; i < 2; i++) {
        fixture->memory[i] = vendor_memory(HMREG_IFACE_CUDA, i, HMREG_MEM_DEVICE, FIXTURE_BYTES);
        memset(vendor_view(fixture->memory[i]), 'a' + i, FIXTURE_BYTES);
    }
}

void script_close(struct script_fixture *fixture)
{
    assert_ok(hmreg_domain_close(fixture->domain));
    assert_int_equal(script.live, 0);
    assert_int_equal(script.destroys, 1);
    for (int i = 0; i < 2; i++)
        vendor_memory_free(fixture->memory[i]);
    assert_ok(hmreg_close(fixture->lib));
    script_closed();
}

int script_reg(struct script_fixture *fixture, void *addr, size_t len, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture->domain, addr, len, HMREG_ACCESS_ALL, 0, 5, 0, mr, (void *)0x99);
}

int script_job(struct script_fixture *fixture, size_t len, struct hmreg_job **job)
{
    struct hmreg_job_config config = {.size = sizeof(config), .piece_len = len, .workers = 1};
    struct iovec range = {fixture->memory[0], 4 * len};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &range,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .requested_key = 5};

    return hmreg_job_start(fixture->domain, &attr, 0, &config, job);
}
