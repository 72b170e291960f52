/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memhooks.h. Stubs (hook_stubs.h) call hook_call() for system calls that may touch a watched
 * range.
 *
 * open_lock (who is open) is taken by open, close, watch and fork, never by a hook: glibc's fork
 * takes malloc's locks after the fork handlers have run, and a hook may run inside malloc.
 */
#include "core/monitor/memhooks/memhooks.h"

#include "core/base/error.h"
#include "core/base/out_of_line.h"
#include "core/base/process.h"
#include "core/monitor/memhooks/bypass.h"
#include "core/monitor/memhooks/hook_arch.h"
#include "core/monitor/memhooks/hook_call.h"
#include "core/monitor/memhooks/hook_stubs.h"
#include "core/monitor/memhooks/own_calls.h"
#include "core/patch/modules.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    _Atomic uint64_t epoch; /* epoch of the process that installed the hooks; 0: none */
    struct hook_state *state;
    unsigned users;                 /* under open_lock */
    struct modules_count looked_at; /* the files at the last look; under open_lock */
    /* 1 + the number of loads at the last look, for looks by name (1) and others (0). 0: no look.
     */
    _Atomic uint64_t looked[2];
    atomic_bool walked; /* all files mapped before the hooks were installed are listed */
} hooks;

/* ---- open and close --------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&open_lock);
}

static atomic_int forks_handled;

static void in_child(void)
{
    process_once_done(&forks_handled);
    pthread_mutex_unlock(&open_lock);
}

static bool handle_forks(void)
{
    return pthread_atfork(before_fork, in_parent, in_child) == 0;
}

/* Installs the hooks; this process has none yet. */
static int start(const struct hook_sites *sites, uint64_t epoch, const struct modules_count *now)
{
    int rc;

    hooks.state = hook_state_get();
    if (!hooks.state)
        return hmreg_last_error()->code;
    hook_call_begin(hooks.state, (uint64_t)sysconf(_SC_PAGESIZE));
    hooks.users = 0;
    hooks.looked_at = *now;
    atomic_store(&hooks.looked[0], 0);
    atomic_store(&hooks.looked[1], 0);
    atomic_store(&hooks.walked, false);
    hook_state_name(hooks.state, epoch);
    atomic_store(&hooks.state->hook, hook_call);
    rc = hook_stubs_install(sites, hooks.state);
    if (!rc)
        atomic_store(&hooks.epoch, epoch);
    return rc;
}

/* 0: no code is known that changes mappings past the hooks. */
static int check_bypass(void)
{
    const char *file = "", *what = bypass_find(&file);

    return what ? hmreg_fail(-EOPNOTSUPP,
                             "memhooks: %s (%s) changes mappings past libc; use userfaultfd or "
                             "import, or choose memhooks by name",
                             what, file[0] ? file : "in this program")
                : own_calls_check(OWN_CALLS_EACH);
}

static int fail_unsettled(void)
{
    return hmreg_fail(-EBUSY, "memhooks: the dynamic linker is just loading or unloading files");
}

/* Has the linker listed the file that it mapped last? Without hooks in this process that is
 * unknown. */
static bool has_entered(void)
{
    uint64_t note = process_is(atomic_load(&hooks.epoch)) ? hook_call_linker_mapped() : 0;
    uint64_t address = HOOK_CALL_ADDRESS(note);
    bool gone, entered;

    if (!address)
        return !note;
    entered = modules_have(address, &gone);
    if (gone)
        hook_call_forget_mapped(note); /* if the linker has mapped nothing there since */
    return entered;
}

static int check_settled(struct modules_count *now)
{
    bool entered = has_entered(); /* first: then it is in a list that is read later */

    return modules_are_settled(now) && entered ? 0 : fail_unsettled();
}

#define UNLISTED_MOST 4096 /* looks in a row: each reads the list of mappings */

/* Code that stays unlisted was not mapped by the linker: its loader may have a libc of its own. */
static int check_unlisted(void)
{
    static atomic_uint looks;

    if (!modules_is_one_unlisted()) {
        atomic_store(&looks, 0);
        return 0;
    }
    return atomic_fetch_add(&looks, 1) < UNLISTED_MOST
               ? fail_unsettled()
               : hmreg_fail(-EOPNOTSUPP, "memhooks: a library is mapped that the dynamic linker "
                                         "does not know; use userfaultfd or import");
}

/* Checks for files that were being loaded when the hooks were installed: only their mappings show
 * them. */
static int check_walked(void)
{
    int rc = atomic_load(&hooks.walked) ? 0 : check_unlisted();

    if (!rc)
        atomic_store(&hooks.walked, true);
    return rc;
}

/* The look took place before the hooks were installed. It need not be repeated if no file was
 * loaded meanwhile: files loaded from now on are noticed. */
static void take_first_look(bool asked, const struct modules_count *before)
{
    uint64_t seen = hook_call_loads();
    struct hmreg_error last;
    struct modules_count now;

    hmreg_error_save(&last);
    if ((asked || !check_walked()) && !check_settled(&now) && now.added == before->added &&
        now.listed == before->listed)
        atomic_store(&hooks.looked[asked], seen + 1);
    hmreg_error_restore(&last);
}

/* The sites are found without the lock: that calls the dynamic linker, whose locks a forking thread
 * may hold. *joins: there are hooks. */
static int join_or_start(uint64_t epoch, const struct modules_count *now, bool *joins)
{
    struct hook_sites sites;
    int rc = hook_sites_find(&sites);

    if (rc)
        return rc;
    pthread_mutex_lock(&open_lock);
    *joins = atomic_load(&hooks.epoch) == epoch;
    rc = *joins ? 0 : start(&sites, epoch, now);
    hooks.users += !rc;
    pthread_mutex_unlock(&open_lock);
    return rc;
}

#define TRIES 64 /* while other code, such as another copy of this library, changes the same */

int memhooks_open(bool asked)
{
    uint64_t epoch = process_epoch_start();
    struct modules_count now;
    int settled, rc;
    bool joins = false;

    if (!epoch || !process_once(&forks_handled, handle_forks))
        return hmreg_fail(-ENOMEM, "hmreg has no memory for memhooks");
    if (code_refusal())
        return hmreg_fail(-EOPNOTSUPP, "memhooks: %s; use userfaultfd or import", code_refusal());
    settled = check_settled(&now);
    rc = asked ? 0 : settled ? settled : check_unlisted();
    rc = rc || asked ? rc : check_bypass();
    if (rc)
        return rc;
    rc = join_or_start(epoch, &now, &joins);
    for (int i = 0; rc == -EBUSY && i < TRIES; i++)
        rc = join_or_start(epoch, &now, &joins);
    if (!rc && !joins && !settled)
        take_first_look(asked, &now);
    return rc;
}

void memhooks_close(void)
{
    pthread_mutex_lock(&open_lock);
    if (!--hooks.users) {
        hook_stubs_remove(hooks.state);
        atomic_store(&hooks.epoch, 0);
    }
    pthread_mutex_unlock(&open_lock);
}

/* ---- watching --------------------------------------------------------------------------- */

/* Adds to the count of each granule that the range touches; to all granules if it touches more. */
static void count(uint64_t start, uint64_t end, uint32_t more)
{
    uint64_t at = start >> HOOK_GRANULE_SHIFT;
    uint64_t last = (end - 1) >> HOOK_GRANULE_SHIFT;

    if (last - at >= HOOK_GRANULES)
        last = at + HOOK_GRANULES - 1;
    for (; at <= last; at++)
        atomic_fetch_add(&hooks.state->granules[at % HOOK_GRANULES], more);
    atomic_fetch_add(&hooks.state->watched, more);
}

static bool are_whole(void)
{
    bool whole;

    if (hook_stubs_look_whole())
        return true;
    pthread_mutex_lock(&open_lock);
    whole = hook_stubs_are_whole();
    pthread_mutex_unlock(&open_lock);
    return whole;
}

/* All memory counts as changed: calls may have gone unnoticed. */
static void change_all(void)
{
    atomic_fetch_add(&hooks.state->begun, 1); /* as one call that may have changed any mapping */
    hook_call_push_all();
    atomic_fetch_add(&hooks.state->ended, 1);
}

/* Hooks the sites that are not hooked: new ones, and those that other hooks have replaced. */
static int hook_missing_sites(void)
{
    struct hook_sites sites;
    bool as_before = false;
    int rc;

    pthread_mutex_lock(&open_lock);
    hook_stubs_mend();
    pthread_mutex_unlock(&open_lock);
    rc = hook_sites_find(&sites);
    pthread_mutex_lock(&open_lock);
    if (!rc)
        as_before = hook_stubs_are_whole() && hook_stubs_have(&sites);
    if (!rc && !as_before)
        rc = hook_stubs_install(&sites, hooks.state);
    pthread_mutex_unlock(&open_lock);
    if (!as_before)
        change_all();
    return rc;
}

static OUT_OF_LINE int hook_anew(void)
{
    struct modules_count now;
    int rc = check_settled(&now);

    return rc ? rc : hook_missing_sites();
}

int memhooks_watch(uint64_t start, uint64_t end)
{
    int rc = are_whole() ? 0 : hook_anew();

    if (!rc)
        count(start, end, 1);
    return rc;
}

uint64_t memhooks_loads(void)
{
    return hook_call_loads();
}

/* Was a file loaded and unloaded since the last look? It may have changed memory past the hooks,
 * and cannot be searched any more. The counts do not tell which file was unloaded: any one counts.
 * seen: counts before this look's search; now: after it. */
static bool has_missed_one(const struct modules_count *seen, const struct modules_count *now)
{
    struct modules_count before;

    pthread_mutex_lock(&open_lock);
    before = hooks.looked_at;
    hooks.looked_at = *seen;
    pthread_mutex_unlock(&open_lock);
    return now->added != before.added && now->added - before.added != now->listed - before.listed;
}

/* asked: memhooks was chosen by name, and stays whatever is loaded. Such a look searches less, so
 * it does not count for others.
 */
int memhooks_look(bool asked, uint64_t *seen)
{
    struct modules_count before, now;
    int rc;

    *seen = hook_call_loads();
    if (atomic_load(&hooks.looked[asked]) == *seen + 1) /* for another domain */
        return 0;
    rc = asked ? 0 : check_walked();
    rc = rc ? rc : check_settled(&before);
    if (rc)
        return rc;
    if (!asked) {
        rc = check_bypass();
        if (rc == -EBUSY)
            return rc; /* return before the files count as searched */
        (void)modules_are_settled(&now);
        if (has_missed_one(&before, &now))
            change_all();
    }
    rc = rc ? rc : hook_missing_sites();
    if (!rc)
        atomic_store(&hooks.looked[asked], *seen + 1);
    return rc;
}

void memhooks_unwatch(uint64_t start, uint64_t end)
{
    count(start, end, UINT32_MAX);
}

uint64_t memhooks_calls(void)
{
    return hook_call_count();
}

/* ---- counted calls ---------------------------------------------------------------------- */

#define LOOKS_EACH 16 /* questions that find calls under way; each look costs a microsecond */

/* `ended` is read first. It never exceeds `begun`, so if the two are equal, no call was under way
 * when `ended` was read, and none began until `begun` was read. */
bool memhooks_is_quiet(uint64_t *when)
{
    static _Atomic unsigned busy;
    uint64_t ended = atomic_load(&hooks.state->ended);

    *when = atomic_load(&hooks.state->begun);
    if (HOOK_COUNTS_CALLS && *when != ended && atomic_fetch_add(&busy, 1) % LOOKS_EACH == 0)
        hook_call_end_abandoned(hooks.state);
    return HOOK_COUNTS_CALLS && *when == ended;
}

bool memhooks_none_since(uint64_t when)
{
    return atomic_load(&hooks.state->begun) == when;
}

void memhooks_count_notice(void)
{
    atomic_fetch_add(&hooks.state->begun, 1);
    atomic_fetch_add(&hooks.state->ended, 1);
}
