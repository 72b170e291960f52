/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See beside.h. The comparison ignores the results of gets: many are of unmapped memory. The number
 * of hits shows that the cache is in use.
 */
#include "tests/differential/beside.h"

#include "tests/differential/acts.h"
#include "tests/differential/space.h"
#include "tests/differential/witness.h"
#include "tests/support/code_filters.h"
#include "tests/support/pinning.h"

#include <hmreg/loopback.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <time.h>
#include <unistd.h>

#define HOLDS   16
#define DOMAINS 2

static const struct plan *plan; /* NULL: the run without the library */
static struct trace *trace;
static struct hmreg *lib;
static struct hmreg_domain *domains[DOMAINS]; /* NULL: not used by this plan */
static struct hmreg_mr *held[HOLDS];
static timer_t timer;
static bool in_child;                    /* of the process that opened the library */
static volatile sig_atomic_t *interrupt; /* set by a handler that changes memory; NULL: none will */

static void must(bool good, const char *what)
{
    if (good)
        return;
    snprintf(trace->wrong, sizeof(trace->wrong), "%s: %s", what, hmreg_last_error()->text);
    _exit(1);
}

/* Pages of the areas that a get asked for since the program reported them last. */
static bool asked[AREA_COUNT][SPACE_PAGES];

static bool *asked_at(const struct step *step)
{
    return &asked[step->area][step->page];
}

static void note_asked(const void *addr, size_t len)
{
    uint64_t from = space_offset(addr), last = space_offset((const char *)addr + len - 1);

    for (uint64_t at = from / space.page * space.page; from < last && at <= last; at += space.page)
        if (at / SPACE_SPACING < AREA_COUNT && at % SPACE_SPACING / space.page < SPACE_PAGES)
            asked[at / SPACE_SPACING][at % SPACE_SPACING / space.page] = true;
}

/* ---- life ------------------------------------------------------------------------------- */

static void open_library(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM),
                                  .monitor = plan->kind->monitor};

    must(hmreg_open(&config, &lib) == 0, "hmreg_open()");
    if (plan->fabrics & PLAN_PINNING)
        must(pinning_open(lib, NULL, &domains[0]) == 0, "opening the test's fabric");
    if (plan->fabrics & PLAN_LOOPBACK)
        must(hmreg_domain_open_loopback(lib, NULL, NULL, &domains[1]) == 0, "opening loopback");
}

static void put_all(void)
{
    for (unsigned i = 0; i < HOLDS; i++) {
        hmreg_mr_put(held[i]);
        held[i] = NULL;
    }
}

static void close_domain(struct hmreg_domain *domain)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    must(hmreg_domain_stats(domain, &stats) == 0, "hmreg_domain_stats()");
    trace->hits += stats.hits;
    must(hmreg_domain_close(domain) == 0, "hmreg_domain_close()");
}

static void close_library(void)
{
    put_all();
    for (unsigned i = 0; i < DOMAINS; i++)
        if (domains[i])
            close_domain(domains[i]);
    must(hmreg_close(lib) == 0, "hmreg_close()");
    must(atomic_load(&pinning.alive) == 0, "a region is left");
    must(!*pinning_complaint(), pinning_complaint());
}

/* A policy under which hooks cannot find out what shmat(2) and process_madvise(2) change. */
static void refuse_hooks(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_shmctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPC_STAT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    (void)CODE_FILTER(code);
}

void beside_open(const struct plan *for_plan, struct trace *for_trace)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};

    plan = for_plan;
    trace = for_trace;
    must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create()");
    if (plan->kind->witness)
        witness_open();
    if (plan->kind->witness && plan->kind->monitor == HMREG_MONITOR_MEMHOOKS && plan->episode % 2)
        refuse_hooks();
    open_library();
}

void beside_close(void)
{
    if (plan)
        close_library();
}

static void flush(void)
{
    for (unsigned i = 0; i < DOMAINS; i++)
        must(!domains[i] || hmreg_domain_flush(domains[i]) == 0, "hmreg_domain_flush()");
}

/* Memory that was moved may stay watched until the next region ends, so end one more. */
static void forget_all(void)
{
    static char other[1 << 16];

    put_all();
    flush();
    beside_use(other, sizeof(other));
    flush();
}

void beside_without(const struct step *step, void (*act)(struct outcome *out), struct outcome *out)
{
    bool close = plan && step->form % 4 == 0;

    if (close) {
        close_library();
    } else if (plan) {
        forget_all();
    }
    act(out);
    if (close)
        open_library();
}

/* ---- gets and puts ---------------------------------------------------------------------- */

static struct hmreg_domain *a_domain(unsigned number)
{
    number %= DOMAINS;
    return domains[number] ? domains[number] : domains[1 - number];
}

/* Memory that a handler has changed since the get began may be other memory. */
static void judge(const struct hmreg_mr *mr, const void *addr, size_t len, bool interrupted)
{
    const char *wrong = plan->kind->witness ? witness_judge(mr, addr, len) : NULL;

    if (!wrong || (interrupt && *interrupt != interrupted))
        return;
    snprintf(trace->wrong, sizeof(trace->wrong), "%s", wrong);
    _exit(1);
}

static struct hmreg_mr *get(unsigned number, void *addr, size_t len, uint64_t access)
{
    bool interrupted = interrupt && *interrupt;
    struct hmreg_mr *mr = NULL;

    trace->gets++;
    if (hmreg_mr_get(a_domain(number), addr, len, access, &mr))
        trace->failed_gets++;
    else
        judge(mr, addr, len, interrupted);
    note_asked(addr, len);
    return mr;
}

static uint64_t draw_access(const struct step *step)
{
    return step->form & 32 ? HMREG_ACCESS_ALL : HMREG_REMOTE_READ;
}

/* Mostly in an area; sometimes elsewhere, all of it or one page. */
static void *draw_range(const struct step *step, size_t *len)
{
    char *at = space_start(step);

    *len = space_len(step);
    if (step->form % 16 == 0) {
        at = objects_memory(step, len);
        if (at && step->r & 256 && *len > space.page) {
            at += *len / 2;
            *len = space.page / 2;
        }
    } else if (step->r & 1) {
        at += 100;
        *len -= 200;
    }
    return at;
}

static void get_one(const struct step *step)
{
    struct hmreg_mr **hold = &held[step->r >> 16 & (HOLDS - 1)];
    size_t len;
    void *at = draw_range(step, &len);

    hmreg_mr_put(*hold);
    *hold = at ? get(step->r >> 20, at, len, draw_access(step)) : NULL;
    if (step->form >> 6 != 3) { /* other regions are held */
        hmreg_mr_put(*hold);
        *hold = NULL;
    }
}

static void put_one(const struct step *step)
{
    struct hmreg_mr **hold = &held[step->r >> 16 & (HOLDS - 1)];

    hmreg_mr_put(*hold);
    *hold = NULL;
}

void beside_step(const struct step *step)
{
    if (!plan)
        return;
    switch (step->act) {
    case ACT_GET:
        get_one(step);
        break;
    case ACT_PUT:
        put_one(step);
        break;
    case ACT_FLUSH:
        flush();
        break;
    }
}

void beside_use(void *addr, size_t len)
{
    if (plan)
        for (unsigned i = 0; i < DOMAINS; i++)
            hmreg_mr_put(get(i, addr, len, HMREG_REMOTE_READ));
}

/* ---- what the program does -------------------------------------------------------------- */

/* Programs need not report that they unmap what they have never registered, as liburing does. */
static bool is_own_unmap(const struct step *step)
{
    return step->act == ACT_INLINE && step->form % 8 == 0 &&
           !memchr(asked_at(step), true, step->pages);
}

static bool is_missed_by_kernel(const struct step *step)
{
    return step->act == ACT_SHM || (step->act == ACT_ADVISE && calls_install_guards(step)) ||
           (step->act == ACT_INLINE && step->form % 8 == 5);
}

static bool is_missed(const struct step *step)
{
    switch (plan->kind->monitor) {
    case HMREG_MONITOR_MEMHOOKS:
        return step->act == ACT_INLINE;
    case HMREG_MONITOR_USERFAULTFD:
        return is_missed_by_kernel(step);
    case HMREG_MONITOR_DEFAULT:
        return step->act == ACT_INLINE || is_missed_by_kernel(step);
    default:
        return plan->kind->reports;
    }
}

void beside_report(const struct step *step)
{
    char *to;

    if (!plan || in_child || !is_missed(step) || is_own_unmap(step))
        return;
    memset(asked_at(step), false, step->pages);
    to = space_at(step->area, step->to);
    must(hmreg_invalidate(lib, space_start(step), space_len(step)) == 0, "invalidate");
    must(hmreg_invalidate(lib, to, 2 * space_len(step)) == 0, "invalidate");
}

void beside_interrupt(const struct step *step, volatile sig_atomic_t *handled)
{
    struct itimerspec when = {.it_value = {.tv_nsec = 1 + (long)(step->r % 64) * 500}};

    if (!plan)
        return;
    interrupt = handled;
    must(timer_settime(timer, 0, &when, NULL) == 0, "timer_settime()");
    for (struct step part = *step; !*handled; part.r += 1 << 16) {
        part.form &= 0x7f; /* put at once */
        if (plan->kind->spares && part.area == AREA_OWN)
            part.area = AREA_SMALL;
        get_one(&part);
    }
    interrupt = NULL;
}

/* The child must not use the parent's objects, but may open a library. */
void beside_in_child(const struct step *step)
{
    struct hmreg_mr *mr;

    if (!plan)
        return;
    in_child = true;
    witness_close();
    must(hmreg_mr_get(a_domain(0), space_start(step), space.page, HMREG_REMOTE_READ, &mr) == -EPERM,
         "a get of the parent's");
    if (step->form % 4)
        return;
    open_library();
    beside_use(space_start(step), space_len(step));
}
