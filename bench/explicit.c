/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Explicit registration on a libfabric domain: hmreg_mr_reg() and hmreg_mr_close() beside
 * fi_mr_regattr() and fi_close() on the same domain, in turns in one process, a hundred regions at
 * a time. libfabric registers host memory in all cases, since it cannot register a simulated
 * device's: there the difference contains the runtime's query, its export and the mapping.
 *
 * On the same domain, a buffer that is registered and given back at once: get and last put of
 * claimed host memory beside fi_mr_regattr() and fi_close() in a row. Also beside the least cost of
 * a library that keeps a region, its memory and two locks. And hits of other memory, of attributes
 * with a claim and without beside plain ones.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/fixture.h"
#include "bench/subject.h"
#include "bench/subject_ofi.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>

#define COUNT  100 /* regions at a time */
#define ACCESS (HMREG_SEND | HMREG_RECV | HMREG_REMOTE_READ | HMREG_REMOTE_WRITE)

enum {
    REG,
    CLOSE,
    BARE_REG,
    BARE_CLOSE,
    REG_ABOVE,
    CLOSE_ABOVE,
    HELD,
    BARE_HELD,
    HELD_ABOVE,
    FLOOR,
    HIT,
    HIT_ATTR,
    HIT_CLAIM,
    VALUES
};

static const struct measure measures[VALUES] = {
    {"explicit-reg", "ns"},
    {"explicit-close", "ns"},
    {"explicit-bare-reg", "ns"},
    {"explicit-bare-close", "ns"},
    {"explicit-reg-above", "ns"},
    {"explicit-close-above", "ns"},
    {"held", "ns"},
    {"held-bare", "ns"},
    {"held-above", "ns"},
    {"held-floor", "ns"},
    {"held-hit", "ns"},
    {"held-hit-attr", "ns"},
    {"held-hit-claim", "ns"},
};

struct task {
    const struct subject *peer;
    bool runtimes;          /* the simulated runtimes are loaded and asked about each pointer */
    enum hmreg_iface iface; /* of the memory */
};

#ifdef BENCH_OFI
#include <rdma/fabric.h>
#include <math.h>
#include <pthread.h>
#include <rdma/fi_domain.h>
#include <stdio.h>
#include <stdlib.h>

struct explicits {
    struct fid_domain *peer;
    struct hmreg_domain *domain;
    char *memory, *host;
    bool keyed; /* the caller chooses keys */
    struct hmreg_mr *mrs[COUNT];
    struct fid_mr *bare[COUNT];
    struct {
        struct iovec once, again;                /* iface of the first region, and of the others */
        struct hmreg_mr_attr held, plain, claim; /* held: policy last put */
    } gets[COUNT];
    pthread_mutex_t lock;
};

/* ---- steps of COUNT each ---------------------------------------------------------------- */

static void reg_each(struct explicits *own)
{
    for (size_t i = 0; i < COUNT; i++)
        hmreg_must(hmreg_mr_reg(own->domain, own->memory + i * REGION_BYTES, REGION_BYTES, ACCESS,
                                0, own->keyed ? i : 0, 0, &own->mrs[i], NULL),
                   "hmreg_mr_reg");
}

static void close_each(struct explicits *own)
{
    for (size_t i = 0; i < COUNT; i++)
        hmreg_must(hmreg_mr_close(own->mrs[i]), "hmreg_mr_close");
}

static void reg_each_bare(struct explicits *own)
{
    for (size_t i = 0; i < COUNT; i++) {
        struct iovec iov = {own->host + i * REGION_BYTES, REGION_BYTES};
        struct fi_mr_attr attr = {
            .mr_iov = &iov, .iov_count = 1, .access = ACCESS, .requested_key = own->keyed ? i : 0};

        if (fi_mr_regattr(own->peer, &attr, 0, &own->bare[i]))
            leave("failed: fi_mr_regattr");
    }
}

static void close_each_bare(struct explicits *own)
{
    for (size_t i = 0; i < COUNT; i++)
        if (fi_close(&own->bare[i]->fid))
            leave("failed: fi_close");
}

static void get_each(struct explicits *own, const struct hmreg_mr_attr *first)
{
    for (size_t i = 0; i < COUNT; i++) {
        const void *attr = (const char *)first + i * sizeof(own->gets[0]);
        struct hmreg_mr *mr = NULL;

        hmreg_must(hmreg_mr_get_attr(own->domain, attr, 0, &mr), "hmreg_mr_get_attr");
        hmreg_mr_put(mr);
    }
}

static void hold_each(struct explicits *own)
{
    get_each(own, &own->gets[0].held);
}

static void hit_each(struct explicits *own)
{
    for (size_t i = 0; i < COUNT; i++) {
        const struct iovec *iov = own->gets[i].plain.iov;
        struct hmreg_mr *mr = NULL;

        hmreg_must(hmreg_mr_get(own->domain, iov->iov_base, iov->iov_len, ACCESS, &mr),
                   "hmreg_mr_get");
        hmreg_mr_put(mr);
    }
}

static void hit_each_by_attr(struct explicits *own)
{
    get_each(own, &own->gets[0].plain);
}

static void hit_each_by_claim(struct explicits *own)
{
    get_each(own, &own->gets[0].claim);
}

static void hold_each_bare(struct explicits *own)
{
    for (size_t i = 0; i < COUNT; i++) {
        struct fi_mr_attr attr = {.mr_iov = own->gets[i].held.iov,
                                  .iov_count = 1,
                                  .access = ACCESS,
                                  .requested_key = own->keyed ? i : 0};

        if (fi_mr_regattr(own->peer, &attr, 0, &own->bare[i]) || fi_close(&own->bare[i]->fid))
            leave("failed: fi_mr_regattr or fi_close");
    }
}

static void pay_floor(struct explicits *own)
{
    for (size_t i = 0; i < COUNT; i++) {
        void *volatile region = malloc(sizeof(struct hmreg_mr_info));

        for (int locks = 0; locks < 2; locks++) {
            pthread_mutex_lock(&own->lock);
            pthread_mutex_unlock(&own->lock);
        }
        free(region);
    }
}

/* ---- the contestants -------------------------------------------------------------------- */

static void load_runtimes(void)
{
    if (!BENCH_FAKES[0])
        leave("no simulated runtimes: built without tests, or without a vendor");
    if (!dlopen(BENCH_FAKES "/cuda/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) ||
        !dlopen(BENCH_FAKES "/rocr/libhsa-runtime64.so.1", RTLD_NOW | RTLD_GLOBAL))
        leave("%s", dlerror());
    setenv("ZE_ENABLE_ALT_DRIVERS", BENCH_FAKES "/ze/libze_fake.so", 1);
}

static struct hmreg_domain *open_domain(struct hmreg *lib, const struct ofi_peer *peer)
{
    void *library = dlopen(BENCH_HMREG_OFI, RTLD_NOW);
    int (*open)(struct hmreg *, struct fid_domain *, const struct fi_info *,
                const struct hmreg_domain_config *, struct hmreg_domain **) =
        library ? (__typeof__(open))dlsym(library, "hmreg_domain_open_ofi") : NULL;
    struct hmreg_domain *domain = NULL;

    if (!open)
        leave("%s", dlerror());
    hmreg_must(open(lib, peer->domain, peer->info, NULL, &domain), "hmreg_domain_open_ofi");
    return domain;
}

static void prepare_gets(struct explicits *own)
{
    pthread_mutex_init(&own->lock, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        struct hmreg_mr_attr attr = {.size = sizeof(attr), .iov_count = 1, .access = ACCESS};

        own->gets[i].once = (struct iovec){own->host + i * REGION_BYTES, REGION_BYTES};
        own->gets[i].again = (struct iovec){own->host + (COUNT + i) * REGION_BYTES, REGION_BYTES};
        attr.iov = &own->gets[i].again;
        own->gets[i].plain = attr;
        attr.claim_iface = HMREG_CLAIM_TRUSTED;
        own->gets[i].claim = attr;
        attr.iov = &own->gets[i].once;
        attr.policy = HMREG_POLICY_LAST_PUT;
        own->gets[i].held = attr;
    }
}

static void *open_explicits(const void *arg)
{
    const struct task *task = arg;
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM)};
    struct explicits *own = calloc(1, sizeof(*own));
    const struct ofi_peer *peer = task->peer->open(task->peer, COUNT);
    struct hmreg *lib = NULL;
    void *memory = NULL;

    if (!own)
        leave("no memory");
    if (task->runtimes) {
        load_runtimes();
        config.ifaces = 0;
    }
    hmreg_must(hmreg_open(&config, &lib), "hmreg_open");
    own->peer = peer->domain;
    own->keyed = !(peer->info->domain_attr->mr_mode & (FI_MR_PROV_KEY | HMREG_MR_BASIC));
    own->domain = open_domain(lib, peer);
    own->host = own->memory = fixture_reserve(2 * COUNT);
    prepare_gets(own);
    if (task->iface != HMREG_IFACE_SYSTEM) {
        hmreg_must(hmreg_mem_alloc(lib, task->iface, 0, HMREG_MEM_DEVICE,
                                   (size_t)COUNT * REGION_BYTES, &memory),
                   "hmreg_mem_alloc");
        own->memory = memory;
    }
    return own;
}

static void note_least(double *least, double ns)
{
    *least = ns / COUNT < *least ? ns / COUNT : *least;
}

static void time_both(struct explicits *own, void (*first)(struct explicits *),
                      void (*second)(struct explicits *), double *values)
{
    double begun = now_ns(), between;

    first(own);
    between = now_ns();
    second(own);
    note_least(&values[1], now_ns() - between);
    note_least(&values[0], between - begun);
}

static void time_one(struct explicits *own, void (*step)(struct explicits *), double *value)
{
    double begun = now_ns();

    step(own);
    note_least(value, now_ns() - begun);
}

static void time_gets(struct explicits *own, double *values)
{
    time_one(own, hold_each, &values[HELD]);
    time_one(own, hold_each_bare, &values[BARE_HELD]);
    time_one(own, pay_floor, &values[FLOOR]);
    time_one(own, hit_each, &values[HIT]);
    time_one(own, hit_each_by_attr, &values[HIT_ATTR]);
    time_one(own, hit_each_by_claim, &values[HIT_CLAIM]);
}

/* Takes the quickest round of each step: a round takes some microseconds, and an interruption
 * more. */
static void sample_explicits(void *state, int worker, double *values)
{
    struct explicits *own = state;
    bool gets = own->memory == own->host;
    double end = now_ns() + plan.sample_ms * 1e6;

    for (int i = 0; i < VALUES; i++)
        values[i] = i < HELD || gets ? INFINITY : NAN;
    do {
        if (gets)
            time_gets(own, values);
        time_both(state, reg_each, close_each, values + REG);
        time_both(state, reg_each_bare, close_each_bare, values + BARE_REG);
    } while (now_ns() < end);
    values[REG_ABOVE] = values[REG] - values[BARE_REG];
    values[CLOSE_ABOVE] = values[CLOSE] - values[BARE_CLOSE];
    values[HELD_ABOVE] = values[HELD] - values[BARE_HELD];
}

#define ABSENT NULL
#else
static void *open_explicits(const void *arg)
{
    leave("built without libfabric-dev");
}

static void sample_explicits(void *state, int worker, double *values)
{
}

#define ABSENT "built without libfabric-dev"
#endif

#define CONTESTANT(name, ...)                                                                      \
    {                                                                                              \
        .who = name, .job = &job, .arg = &(const struct task){__VA_ARGS__}, .absent = ABSENT       \
    }

void measure_explicit(void)
{
    static const struct job job = {
        .open = open_explicits, .sample = sample_explicits, .steady = true};
    const struct contestant contestants[] = {
        CONTESTANT(WHO_TCP_HOST, &subject_ofi_tcp, false, HMREG_IFACE_SYSTEM),
        CONTESTANT(WHO_SHM_HOST, &subject_ofi_shm, false, HMREG_IFACE_SYSTEM),
        CONTESTANT(WHO_TCP_BASIC, &subject_ofi_basic, false, HMREG_IFACE_SYSTEM),
        CONTESTANT(WHO_TCP_ASKING, &subject_ofi_tcp, true, HMREG_IFACE_SYSTEM),
        CONTESTANT(WHO_SHM_ASKING, &subject_ofi_shm, true, HMREG_IFACE_SYSTEM),
        CONTESTANT(WHO_TCP_CUDA, &subject_ofi_tcp, true, HMREG_IFACE_CUDA),
        CONTESTANT(WHO_TCP_ROCR, &subject_ofi_tcp, true, HMREG_IFACE_ROCR),
        CONTESTANT(WHO_TCP_ZE, &subject_ofi_tcp, true, HMREG_IFACE_ZE),
    };

    progress("explicit: registering and closing on libfabric's domains");
    contest(measures, VALUES, contestants, sizeof(contestants) / sizeof(contestants[0]), plan.fresh,
            plan.turns);
}
