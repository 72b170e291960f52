/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Four domains and a group at every limit at once, with gets, explicit regions and jobs, of host
 * and device memory. With one thread a model says which registrations must succeed: all that fit
 * once everything idle has given way that may. With several, each registration must succeed, since
 * what is held always fits. No region ends that has nothing of what is short. argv[2]: the seed;
 * argv[3]: a multiple of the usual length.
 */
#include "tests/support/queries.h"
#include "tests/support/random.h"
#include "tests/support/scarce.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/hmreg.h>
#include <hmreg/job.h>
#include <pthread.h>

#define PAGE    ((size_t)4096)
#define PAGES   256
#define WIDTH   4 /* pages of a region, at most */
#define HELD    12
#define DOMAINS 4
#define OWN     1 /* the domain that only the main thread may call */
#define ROUNDS  20000

static char memory[PAGES][PAGE] __attribute__((aligned(65536)));
static char *mapped[PAGES / 8];
static unsigned seed = 1, length = 1;

static struct hmreg *lib;
static struct hmreg_domain *domains[DOMAINS + 1]; /* the last one is the group, of 2 and 3 */

static void close_all(void)
{
    for (size_t i = DOMAINS + 1; i > 0; i--)
        assert_ok(hmreg_domain_close(domains[i - 1]));
    assert_ok(hmreg_close(lib));
    for (size_t i = 0; i < PAGES / 8; i++)
        vendor_memory_free(mapped[i]);
    assert_int_equal(atomic_load(&scarce.strayed), 0);
    assert_int_equal(atomic_load(&scarce.locked), 0);
}

static void open_all(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};

    vendors_reset();
    scarce_reset();
    scarce_limit_locked(20 * PAGE);
    scarce.most_window = 10 * PAGE;
    scarce.most_regions = 16;
    scarce.most_mappings = 5;
    vendors[HMREG_IFACE_CUDA].dmabuf = true;
    for (size_t i = 0; i < PAGES / 8; i++)
        mapped[i] = vendor_memory(HMREG_IFACE_CUDA, 1, HMREG_MEM_DEVICE, WIDTH * PAGE);
    vendor_claim(HMREG_IFACE_CUDA, memory[PAGES / 2], PAGES / 2 * PAGE, HMREG_MEM_DEVICE, 0)->fd =
        -1;
    assert_ok(hmreg_open(&config, &lib));
    for (unsigned i = 0; i < DOMAINS; i++)
        domains[i] = scarce_open(lib, i / 2, i != OWN, NULL);
    assert_ok(hmreg_group_open(lib, domains + 2, 2, NULL, &domains[DOMAINS]));
    test_after(close_all);
}

/* ---- one thread's work ---------------------------------------------------------------------- */

enum memory_kind { HOST, WINDOW, MAPPED };

struct held {
    struct hmreg_mr *mr; /* NULL: none */
    unsigned domain, pages;
    enum memory_kind kind;
    bool explicit;
};

/* Memory of a kind: a few places are used again and again. */
static void *place_of(struct random *random, enum memory_kind kind)
{
    if (kind == MAPPED)
        return mapped[draw(random, PAGES / 8)];
    return memory[kind * PAGES / 2 + draw(random, PAGES / 2 - WIDTH)];
}

static void choose(struct random *random, struct held *out)
{
    *out = (struct held){
        .domain = draw(random, DOMAINS + 1),
        .kind = (enum memory_kind)draw(random, 3),
        .pages = 1 + draw(random, WIDTH),
        .explicit = draw(random, 2),
    };
}

static int begin(struct random *random, struct held *held)
{
    struct hmreg_job_config pieces = {.size = sizeof(pieces), .piece_len = 2 * PAGE};
    struct hmreg_domain *domain = domains[held->domain];
    void *place = place_of(random, held->kind);
    size_t len = held->pages * PAGE;

    if (!held->explicit)
        return hmreg_mr_get(domain, place, len, HMREG_SEND, &held->mr);
    if (draw(random, 4) || held->kind != HOST)
        return hmreg_mr_reg(domain, place, len, HMREG_SEND, 0, 0, 0, &held->mr, NULL);
    pieces.workers = scarce.several ? 2 : 1;
    return hmreg_mr_reg_large(domain, place, len, HMREG_SEND, &pieces, &held->mr);
}

/* A get may be served by a longer region. */
static void measure(struct held *held)
{
    held->pages = (unsigned)(test_info_of(held->mr).len / PAGE);
}

static void end(struct held *held)
{
    if (held->explicit)
        assert_ok(hmreg_mr_close(held->mr));
    else if (held->mr)
        hmreg_mr_put(held->mr);
    held->mr = NULL;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* What a region takes: of locked memory and the window bytes, of mappings and NICs regions. A job's
 * region may be two on each NIC. */
struct use {
    uint64_t locked, window;
    unsigned mappings, regions[SCARCE_NICS];
};

static void add(struct use *use, const struct held *held)
{
    unsigned rails = held->domain == DOMAINS ? 2 : 1;
    unsigned nic = held->domain == DOMAINS ? 1 : held->domain / 2;
    unsigned parts = held->explicit && held->kind == HOST ? 2 : 1;

    use->locked += held->kind == HOST ? rails * held->pages * PAGE : 0;
    use->window += held->kind == WINDOW ? rails * held->pages * PAGE : 0;
    use->mappings += held->kind == MAPPED ? rails : 0;
    use->regions[nic] += rails * parts;
}

static bool fits(const struct use *use)
{
    return use->locked <= scarce.most_locked && use->window <= scarce.most_window &&
           use->mappings <= scarce.most_mappings && use->regions[0] <= scarce.most_regions &&
           use->regions[1] <= scarce.most_regions;
}

/* Idle regions of the domain that only its own thread may call do not give way to others in time.
 */
static void add_promised(struct use *use, const struct held *held, unsigned count)
{
    struct use mine = {.locked = 0};
    struct scarce_use all = scarce_use_of(domains[OWN]);

    for (unsigned i = 0; i < count; i++)
        if (held[i].mr && held[i].domain == OWN)
            add(&mine, &held[i]);
    use->locked += all.locked > mine.locked ? all.locked - mine.locked : 0;
    use->window += all.window > mine.window ? all.window - mine.window : 0;
    use->mappings += all.mappings > mine.mappings ? all.mappings - mine.mappings : 0;
    use->regions[0] += all.regions > mine.regions[0] ? all.regions - mine.regions[0] : 0;
}

static bool must_succeed(const struct held *held, unsigned count, const struct held *wanted)
{
    struct use use = {.locked = 0};

    for (unsigned i = 0; i < count; i++)
        if (held[i].mr)
            add(&use, &held[i]);
    add(&use, wanted);
    if (wanted->domain != OWN)
        add_promised(&use, held, count);
    return fits(&use);
}

TEST(room__one_thread__whatever_can_fit_does)
{
    struct held held[HELD] = {{NULL, 0, 0, HOST, false}};
    struct random random = random_of(seed, 0);
    unsigned done = 0, failed = 0;

    open_all();
    for (unsigned i = 0; i < ROUNDS * length; i++) {
        unsigned slot = draw(&random, HELD);
        int rc;

        scarce_begin();
        if (held[slot].mr)
            end(&held[slot]);
        if (draw(&random, 3) == 0)
            continue;
        choose(&random, &held[slot]);
        rc = begin(&random, &held[slot]);
        done += !rc;
        if (!rc)
            measure(&held[slot]);
        failed += rc != 0;
        if (rc && must_succeed(held, HELD, &held[slot]))
            fail_msg("seed %u, round %u: %s", seed, i, hmreg_last_error()->text);
        assert_int_equal(atomic_load(&scarce.useless), 0);
        if (rc)
            assert_ok(hmreg_domain_progress(domains[OWN]));
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].mr)
            end(&held[i]);
    print_message("%u succeeded, %u did not fit, %u regions ended\n", done, failed,
                  atomic_load(&scarce.deregs));
    assert_true(done > ROUNDS / 3 && failed);
}

/* ---- threads -------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct random random;
    unsigned failed;
};

/* Of each kind at most one region is held by each thread: four of them fit. */
static void *work(void *arg)
{
    struct worker *worker = arg;
    struct held held = {NULL, 0, 0, HOST, false};

    for (unsigned i = 0; i < ROUNDS / 4 * length; i++) {
        choose(&worker->random, &held);
        held.domain = held.domain == OWN || held.domain == DOMAINS ? 0 : held.domain;
        held.pages = held.kind == WINDOW ? 1 + held.pages % 2 : held.pages;
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
    struct worker workers[4];

    open_all();
    scarce.several = true;
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker){.random = random_of(seed, i + 1)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(workers[i].failed, 0);
}

int main(int argc, char **argv)
{
    seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    length = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    return test_main(argc, argv);
}
