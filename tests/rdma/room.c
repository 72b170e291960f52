/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Room for registrations of every kind, where the kernel counts what is locked: idle regions of the
 * process's other domains give way, on two NICs and through libibverbs and libfabric. The kernel's
 * VmPin says after each step how much is locked. argv[2]: the seed of the random case; argv[3]: a
 * multiple of its usual length.
 */
#include "tests/support/lock_limit.h"
#include "tests/support/queries.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#include <hmreg/group.h>
#include <hmreg/job.h>
#include <hmreg/ofi.h>
#include <hmreg/verbs.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/fi_domain.h>

#define MiB    ((size_t)1 << 20)
#define PLACES 40
#define LIMIT  (16 * MiB)
#define ROUNDS 4000

/* Domains 0 and 3 are on the first NIC by libibverbs, 2 by libfabric; 1 is on the second NIC. The
 * last one is the group, of 1 and 3. */
enum { DOMAINS = 4, FABRIC = 2, GROUP = DOMAINS };

static char memory[PLACES][MiB] __attribute__((aligned(65536)));
static unsigned seed = 1, length = 1;

static struct ibv_context *nics[2];
static struct ibv_pd *pds[DOMAINS];
static struct {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
} ofi;
static struct hmreg *lib;
static struct hmreg_domain *domains[DOMAINS + 1];

/* ---- the process's locked memory ---------------------------------------------------------- */

static uint64_t pinned(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t kilobytes = UINT64_MAX / 1024;

    assert_non_null(status);
    while (fgets(line, sizeof(line), status))
        if (!strncmp(line, "VmPin:", 6))
            kilobytes = strtoull(line + 6, NULL, 10);
    fclose(status);
    assert_in_range(kilobytes * 1024, 0, LIMIT);
    return kilobytes * 1024;
}

#define assert_pinned(mebibytes) assert_int_equal(pinned(), (mebibytes)*MiB)

/* ---- domains ------------------------------------------------------------------------------- */

static void close_all(void)
{
    for (size_t i = DOMAINS + 1; i > 0; i--)
        assert_ok(hmreg_domain_close(domains[i - 1]));
    assert_ok(hmreg_close(lib));
    assert_pinned(0);
    if (ofi.domain) {
        assert_int_equal(fi_close(&ofi.domain->fid), 0);
        assert_int_equal(fi_close(&ofi.fabric->fid), 0);
        fi_freeinfo(ofi.info);
    }
    for (size_t i = 0; i < DOMAINS; i++)
        if (pds[i])
            assert_int_equal(ibv_dealloc_pd(pds[i]), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(ibv_close_device(nics[i]), 0);
}

/* The first one twice where there is one only. */
static void open_nics(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);

    if (!list || !count)
        test_skip("no RDMA device");
    for (int i = 0; i < 2; i++) {
        nics[i] = ibv_open_device(list[count > i ? i : 0]);
        assert_non_null(nics[i]);
    }
    ibv_free_device_list(list);
}

/* FI_MR_CACHE_MAX_COUNT=0, which libfabric needs here, is not to turn off ours. */
static const struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 4096};

/* No domain is open yet. */
static void open_lib(void)
{
    memset(domains, 0, sizeof(domains));
    memset(pds, 0, sizeof(pds));
    memset(&ofi, 0, sizeof(ofi));
    test_count_dmabufs_only(); /* libfabric leaves descriptors open */
    open_nics();
    lock_limit_begin(LIMIT);
    assert_ok(hmreg_open(NULL, &lib));
    test_after(close_all);
    assert_pinned(0);
}

static void open_verbs(unsigned number)
{
    pds[number] = ibv_alloc_pd(nics[number == 1]);
    assert_non_null(pds[number]);
    assert_ok(hmreg_domain_open_verbs(lib, pds[number], &config, &domains[number]));
}

/* On the first NIC, too. */
static void open_fabric(enum fi_threading threading)
{
    struct fi_info *hints = fi_allocinfo();

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup("verbs;ofi_rxm");
    hints->domain_attr->name = strdup(ibv_get_device_name(nics[0]->device));
    hints->domain_attr->threading = threading;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_RMA;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &ofi.info), 0);
    fi_freeinfo(hints);
    ofi.info->domain_attr->threading = threading; /* it offers more than was asked for */
    assert_int_equal(fi_fabric(ofi.info->fabric_attr, &ofi.fabric, NULL), 0);
    assert_int_equal(fi_domain(ofi.fabric, ofi.info, &ofi.domain, NULL), 0);
    assert_ok(hmreg_domain_open_ofi(lib, ofi.domain, ofi.info, &config, &domains[FABRIC]));
}

static void open_group(void)
{
    struct hmreg_group_config both = {.size = sizeof(both), .domain = &config};
    struct hmreg_domain *members[] = {domains[1], domains[3]};

    assert_ok(hmreg_group_open(lib, members, 2, &both, &domains[GROUP]));
}

/* ---- regions ------------------------------------------------------------------------------- */

static int try_get(unsigned domain, unsigned place, unsigned mebibytes, struct hmreg_mr **mr)
{
    return hmreg_mr_get(domains[domain], memory[place], mebibytes * MiB, HMREG_SEND, mr);
}

static int try_reg(unsigned domain, unsigned place, unsigned mebibytes, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(domains[domain], memory[place], mebibytes * MiB, HMREG_SEND, 0, 0, 0, mr,
                        NULL);
}

static struct hmreg_mr *get(unsigned domain, unsigned place, unsigned mebibytes)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(try_get(domain, place, mebibytes, &mr));
    return mr;
}

/* So many idle regions of 1 MiB each. */
static void fill(unsigned domain, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        hmreg_mr_put(get(domain, i, 1));
}

static unsigned cached(unsigned domain)
{
    return (unsigned)test_stats_of(domains[domain]).regions;
}

static void put_all(struct hmreg_mr *const *mrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hmreg_mr_put(mrs[i]);
}

/* ---- other domains -------------------------------------------------------------------------- */

/* 16 idle regions of domain 0; of each of these gets as many give way as it has MiB. */
static void take_from_first(unsigned domain)
{
    static const unsigned lengths[] = {1, 3, 2, 4};
    struct hmreg_mr *held[4];
    unsigned place = 16, left = 16;

    fill(0, 0, 16);
    assert_pinned(16);
    for (unsigned i = 0; i < 4; i++) {
        held[i] = get(domain, place, lengths[i]);
        place += lengths[i];
        left -= lengths[i];
        assert_int_equal(cached(0), left);
        assert_pinned(16);
    }
    assert_int_equal(test_stats_of(domains[0]).gave_others, 10);
    assert_int_equal(test_stats_of(domains[domain]).evictions, 0);
    put_all(held, 4);
}

TEST(get__another_nics_regions_are_idle__as_many_give_way_as_it_needs)
{
    open_lib();
    open_verbs(0);
    open_verbs(1);
    take_from_first(1);
}

TEST(get__another_domains_on_this_nic_are_idle__as_many_give_way)
{
    open_lib();
    open_verbs(0);
    open_verbs(3);
    take_from_first(3);
}

TEST(get__of_libfabric__libibverbs_regions_give_way)
{
    open_lib();
    open_verbs(0);
    open_fabric(FI_THREAD_SAFE);
    take_from_first(FABRIC);
}

TEST(reg__libfabrics_regions_are_idle__they_give_way)
{
    struct hmreg_mr *mr = NULL;

    open_lib();
    open_fabric(FI_THREAD_SAFE);
    open_verbs(1);
    fill(FABRIC, 0, 16);
    assert_ok(try_reg(1, 16, 4, &mr));
    assert_int_equal(cached(FABRIC), 12);
    assert_pinned(16);
    assert_ok(hmreg_mr_close(mr));
}

/* What only its own threads may call gives way too late, and the error says how in time. */
TEST(reg__libfabrics_regions_are_of_one_thread__they_end_at_its_next_call)
{
    struct hmreg_mr *mr = NULL;

    open_lib();
    open_fabric(FI_THREAD_DOMAIN);
    open_verbs(1);
    fill(FABRIC, 0, 16);
    assert_fails(try_reg(1, 16, 4, &mr), -ENOMEM, "hmreg_domain_progress()");
    assert_int_equal(cached(FABRIC), 12);
    assert_pinned(16);
    assert_ok(hmreg_domain_progress(domains[FABRIC]));
    assert_pinned(12);
    assert_ok(try_reg(1, 16, 4, &mr));
    assert_pinned(16);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- explicit registrations ------------------------------------------------------------------ */

TEST(reg__the_domains_regions_are_idle__they_give_way)
{
    struct hmreg_mr *mr = NULL;

    open_lib();
    open_verbs(0);
    fill(0, 0, 15);
    assert_ok(try_reg(0, 16, 4, &mr));
    assert_int_equal(cached(0), 12);
    assert_int_equal(test_stats_of(domains[0]).gave_explicit, 3);
    assert_pinned(16);
    assert_ok(hmreg_mr_close(mr));
}

TEST(reg_large__the_domains_regions_are_idle__they_give_way)
{
    struct hmreg_job_config pieces = {.size = sizeof(pieces), .piece_len = MiB, .workers = 1};
    struct hmreg_mr *mr = NULL;

    open_lib();
    open_verbs(0);
    fill(0, 0, 15);
    assert_ok(hmreg_mr_reg_large(domains[0], memory[16], 8 * MiB, HMREG_SEND, &pieces, &mr));
    assert_int_equal(cached(0), 8);
    assert_int_equal(test_stats_of(domains[0]).gave_explicit, 7);
    assert_pinned(16);
    assert_ok(hmreg_mr_close(mr));
    fill(0, 0, 15);
    assert_ok(hmreg_mr_reg_large(domains[0], memory[16], 8 * MiB, HMREG_SEND, NULL, &mr));
    assert_in_range(cached(0), 7, 8);
    assert_pinned(8 + cached(0));
    assert_ok(hmreg_mr_close(mr));
}

/* ---- groups -----------------------------------------------------------------------------------
 */

static void open_two_rails(void)
{
    open_lib();
    open_verbs(0);
    open_verbs(1);
    open_verbs(3);
    open_group();
}

TEST(get__of_a_group__as_many_give_way_as_its_rails_need)
{
    struct hmreg_mr *mr;

    open_two_rails();
    fill(0, 0, 12);
    mr = get(GROUP, 16, 4);
    assert_int_equal(cached(0), 8);
    assert_pinned(16);
    hmreg_mr_put(mr);
    mr = get(GROUP, 20, 8);
    assert_int_equal(cached(0) + cached(GROUP), 1);
    assert_pinned(16);
    hmreg_mr_put(mr);
}

TEST(get__a_groups_rails_exceed_the_limit_together__nothing_gives_way)
{
    struct hmreg_mr *mr = NULL;

    open_two_rails();
    fill(0, 0, 10);
    assert_fails(try_get(GROUP, 16, 9, &mr), -ENOMEM,
                 "it locks 18874368 bytes; RLIMIT_MEMLOCK is 16777216");
    assert_int_equal(cached(0), 10);
    assert_pinned(10);
}

/* One rail would find room, the other one not. */
TEST(get__a_groups_rails_exceed_what_is_idle_together__nothing_gives_way)
{
    struct hmreg_mr *held, *mr = NULL;

    open_two_rails();
    held = get(0, 0, 6);
    fill(1, 6, 10);
    assert_int_equal(try_get(GROUP, 16, 6, &mr), -ENOMEM);
    assert_int_equal(cached(1), 10);
    assert_pinned(16);
    mr = get(GROUP, 16, 5);
    assert_int_equal(cached(1), 0);
    assert_pinned(16);
    hmreg_mr_put(mr);
    hmreg_mr_put(held);
}

/* ---- ranges -----------------------------------------------------------------------------------
 */

/* Each range locks its page, however short it is. */
TEST(reg__idle_region_has_many_short_ranges__its_pages_count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct hmreg_segment segments[64] = {{.kind = HMREG_SEGMENT_MEMORY}};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .segments = segments, .segment_count = 64, .access = HMREG_SEND};
    struct hmreg_mr *held, *idle = NULL, *mr = NULL;

    open_lib();
    open_verbs(0);
    open_verbs(1);
    for (unsigned i = 0; i < 64; i++)
        segments[i].u.memory = (struct iovec){memory[0] + 2 * i * page, 100};
    assert_ok(hmreg_mr_get_attr(domains[1], &attr, 0, &idle));
    hmreg_mr_put(idle);
    assert_int_equal(cached(1), 1);
    assert_int_equal(pinned(), 64 * page);
    held = get(0, 1, 15);
    assert_ok(try_reg(0, 16, 1, &mr));
    assert_int_equal(cached(1), 0);
    assert_pinned(16);
    assert_ok(hmreg_mr_close(mr));
    hmreg_mr_put(held);
}

/* ---- what cannot fit ----------------------------------------------------------------------------
 */

TEST(reg__what_is_in_use_leaves_no_room__nothing_gives_way)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *held[8], *explicit = NULL, *mr = NULL;
    char words[128];

    open_lib();
    open_verbs(0);
    open_verbs(1);
    open_verbs(3);
    for (unsigned i = 0; i < 8; i++)
        held[i] = get(1, i, 1);
    assert_ok(try_reg(0, 8, 4, &explicit));
    fill(3, 12, 4);
    assert_pinned(16);
    assert_fails(try_reg(0, 16, 8, &mr), -ENOMEM,
                 "it locks 8388608 bytes; RLIMIT_MEMLOCK is 16777216");
    assert_fails(try_get(3, 16, 5, &mr), -ENOMEM,
                 "it locks 5242880 bytes; RLIMIT_MEMLOCK is 16777216");
    assert_int_equal(cached(3), 4);
    assert_pinned(16);
    assert_ok(hmreg_mr_explain(NULL, &why));
    snprintf(words, sizeof(words), "%s: 8 cached of 8388608 bytes",
             ibv_get_device_name(nics[1]->device));
    assert_non_null(strstr(why.room_why, words));
    assert_non_null(strstr(why.room_why, ": 1 explicit"));
    assert_non_null(strstr(why.room_why, ": 4 cached of 4194304 bytes"));
    assert_ok(try_reg(0, 16, 4, &mr));
    assert_int_equal(cached(3), 0);
    assert_pinned(16);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_mr_close(explicit));
    put_all(held, 8);
}

/* ---- at random
 * ----------------------------------------------------------------------------------- */

#define HALF  (MiB / 2)
#define WIDTH 8 /* halves of a MiB, of a region at most */
#define HELD  10

/* Each thread has its own. */
struct held {
    struct hmreg_mr *mr; /* NULL: none */
    unsigned domain;
    size_t len;
    bool explicit;
};

static void open_all(void)
{
    open_lib();
    open_verbs(0);
    open_verbs(1);
    open_fabric(FI_THREAD_SAFE);
    open_verbs(3);
    open_group();
}

static void choose(struct random *random, struct held *out)
{
    *out = (struct held){.domain = draw(random, DOMAINS + 1),
                         .len = (1 + draw(random, WIDTH)) * HALF,
                         .explicit = draw(random, 2)};
}

static int begin(struct random *random, struct held *held)
{
    struct hmreg_job_config pieces = {.size = sizeof(pieces), .piece_len = MiB, .workers = 1};
    struct hmreg_domain *domain = domains[held->domain];
    char *place = memory[0] + draw(random, 2 * PLACES - WIDTH) * HALF;

    if (!held->explicit)
        return hmreg_mr_get(domain, place, held->len, HMREG_SEND, &held->mr);
    if (draw(random, 3))
        return hmreg_mr_reg(domain, place, held->len, HMREG_SEND, 0, 0, 0, &held->mr, NULL);
    return hmreg_mr_reg_large(domain, place, held->len, HMREG_SEND, &pieces, &held->mr);
}

static void end(struct held *held)
{
    if (held->explicit)
        assert_ok(hmreg_mr_close(held->mr));
    else
        hmreg_mr_put(held->mr);
    held->mr = NULL;
}

static size_t locks(const struct held *held)
{
    return held->len * (held->domain == GROUP ? 2 : 1);
}

/* Two gets may have the same region, which is locked once. */
static bool is_first(const struct held *held, unsigned which)
{
    for (unsigned i = 0; i < which; i++)
        if (held[i].mr == held[which].mr)
            return false;
    return true;
}

/* All that fits beside what is in use must. */
static bool must_succeed(const struct held *held, const struct held *wanted)
{
    size_t used = 0;

    for (unsigned i = 0; i < HELD; i++)
        if (held[i].mr && is_first(held, i))
            used += locks(&held[i]);
    return used + locks(wanted) <= LIMIT;
}

static uint64_t evictions(void)
{
    uint64_t all = 0;

    for (unsigned i = 0; i <= DOMAINS; i++)
        all += test_stats_of(domains[i]).evictions;
    return all;
}

struct counts {
    unsigned done, failed;
};

/* A get may be served by a longer region. */
static void step(struct random *random, struct held *held, struct held *slot, struct counts *counts)
{
    uint64_t before = evictions();
    int rc;

    choose(random, slot);
    rc = begin(random, slot);
    counts->done += !rc;
    counts->failed += rc != 0;
    if (!rc) {
        slot->len = test_info_of(slot->mr).len;
        return;
    }
    assert_int_equal(rc, -ENOMEM);
    if (must_succeed(held, slot))
        fail_msg("seed %u, step %u: %s", seed, counts->done + counts->failed,
                 hmreg_last_error()->text);
    assert_int_equal(evictions(), before);
}

/* With one thread: what cannot fit makes nothing give way. */
TEST(room__random__whatever_can_fit_does)
{
    struct held held[HELD] = {{.mr = NULL}};
    struct random random = random_of(seed, 0);
    struct counts counts = {0, 0};

    open_all();
    for (unsigned long i = test_times(ROUNDS * length); i > 0; i--) {
        struct held *slot = &held[draw(&random, HELD)];

        if (slot->mr)
            end(slot);
        if (draw(&random, 4))
            step(&random, held, slot, &counts);
        pinned();
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].mr)
            end(&held[i]);
    print_message("%u succeeded, %u did not fit, %ju regions gave way\n", counts.done,
                  counts.failed, (uintmax_t)evictions());
    assert_true(counts.done && counts.failed && evictions());
}

/* ---- threads
 * -------------------------------------------------------------------------------------- */

#define THREADS 4

struct worker {
    pthread_t thread;
    struct random random;
    unsigned failed;
};

/* Each thread has one region at a time, of at most a quarter of the limit. */
static void *work(void *arg)
{
    struct worker *worker = arg;

    for (unsigned long i = test_times(ROUNDS / THREADS * length); i > 0; i--) {
        struct held held;

        choose(&worker->random, &held);
        held.len /= held.domain == GROUP ? 2 : 1;
        if (begin(&worker->random, &held)) {
            if (!worker->failed++)
                print_message("%s\n", hmreg_last_error()->text);
            continue;
        }
        end(&held);
    }
    return NULL;
}

TEST(room__threads__each_finds_room)
{
    struct worker workers[THREADS];

    open_all();
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.random = random_of(seed, i + 1)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    print_message("%ju regions gave way\n", (uintmax_t)evictions());
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].failed, 0);
}

int main(int argc, char **argv)
{
    seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    length = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    return test_main(argc, argv);
}
