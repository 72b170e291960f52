/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What no call of the library shows, for the cases that are about it: what its caches, its threads'
 * tables, its monitor and its own thread do between calls. inside.c is the one place that knows the
 * library's structs, so that another structure changes it and no test. A case that can see its rule
 * by the interface does not ask here.
 */
#ifndef TESTS_INSIDE_H
#define TESTS_INSIDE_H

#include <hmreg/hmreg.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

/* ---- the caches of a domain --------------------------------------------------------------- */

#define INSIDE_WORK_MOST                                                                           \
    2048                    /* steps of a get or put, and ranges cut at a time: CACHE_WORK_MOST    \
                             */
#define INSIDE_CUTS    8    /* CACHE_CUTS */
#define INSIDE_CHANGES 8192 /* of the queue: CHANGES_SIZE */

/* The lock of all of them. */
pthread_mutex_t *inside_lock(struct hmreg_domain *domain);
/* How many sets of attributes its regions have. */
unsigned inside_variants(struct hmreg_domain *domain);
/* Counts of the cache of a device, or with -1 of host memory; of the one that has the region. */
struct hmreg_stats inside_stats_of(struct hmreg_domain *domain, enum hmreg_iface iface, int device);
struct hmreg_stats inside_stats_with(struct hmreg_domain *domain, const struct hmreg_mr *mr);
/* Regions that the caches have, ended ones included. Any thread. */
unsigned inside_entries(const struct hmreg_domain *domain);
/* Regions of host memory that the cache may evict. */
unsigned inside_evictable(struct hmreg_domain *domain);
/* Ended regions that wait for a call of the domain. */
const atomic_uint *inside_to_free(struct hmreg_domain *domain);
/* Does the library's thread still make room? */
bool inside_makes_room(struct hmreg_domain *domain);
/* Are there changes that the domain has not read? */
bool inside_has_changes(struct hmreg_domain *domain);
/* Reads changes, as far as one call does. */
void inside_drain(struct hmreg_domain *domain);
/* hmreg_domain_flush(), but the library's threads stay. Returns how many regions do. */
unsigned inside_flush(struct hmreg_domain *domain);
/* What the library's thread does now and then: asks runtimes whether memory is what it was. True:
 * again later, since it asked about some. */
bool inside_sweep(struct hmreg_domain *domain);
/* Is the domain lost on the stats page? */
bool inside_shows_lost(const struct hmreg_domain *domain);
/* The domain is lost, and its regions have not ended yet. */
void inside_mark_lost(struct hmreg_domain *domain, const char *why);

/* ---- threads' tables ---------------------------------------------------------------------- */

#define INSIDE_VIEWS  4   /* domains that a thread has at hand: TLS_VIEWS */
#define INSIDE_LARGER 256 /* regions that it keeps for parts: RANGE_LIST_MOST */
#define INSIDE_MAPPED 4   /* mappings that it knows: MAPPED_KNOWN */

/* Do hits fence, since this system has no membarrier(2)? */
bool inside_is_fenced(const struct hmreg_domain *domain);
/* Threads' tables of the domain. The other calls are about the newest one. */
unsigned inside_tables(const struct hmreg_domain *domain);
size_t inside_table_size(const struct hmreg_domain *domain);
uint32_t inside_table_used(const struct hmreg_domain *domain);
/* Do hits of the region ask a runtime? */
bool inside_asks(const struct hmreg_domain *domain, const struct hmreg_mr *mr);
/* How often the thread knows the mapping [start, end). */
unsigned inside_mapped(const struct hmreg_domain *domain, uint64_t start, uint64_t end);
/* No search adds up the pins of any thread. */
void inside_hide_tables(struct hmreg_domain *domain);
void inside_show_tables(struct hmreg_domain *domain);
/* This thread's pins of a region that it has had. */
atomic_uint *inside_pins(const struct hmreg_domain *domain, const struct hmreg_mr *mr);
/* Do requests at these addresses begin at one slot of this thread's table? */
bool inside_shares_slot(const struct hmreg_domain *domain, const void *one, const void *other);
/* The number of a region's use, by which threads' tables know whether it is still the one that they
 * remember; and no number is left after this use. */
uint32_t inside_sequence(const struct hmreg_mr *mr);
void inside_use_last_sequence(struct hmreg_mr *mr);
/* Is the fabric's registration there? */
bool inside_is_registered(const struct hmreg_mr *mr);
/* The region that this thread's table has for the attributes, pinned, if a hit tries it first. */
struct hmreg_mr *inside_hit(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr);

/* What this thread's table has for the range with attributes that hash to the slot of a get
 * without; no region has such attributes. */
struct hmreg_mr *inside_remembered_in_slot(struct hmreg_domain *domain, const void *addr,
                                           size_t len, uint64_t access);

/* ---- the monitor -------------------------------------------------------------------------- */

/* Events are being read; the domain's changes are counted there (NULL: not). */
void inside_set_reading(struct hmreg_domain *domain, bool reading);
void inside_count_by(struct hmreg_domain *domain, const uint64_t *made);
/* Stops watching one mapping that no region needs. */
bool inside_tidy(struct hmreg *lib);
/* How often a call looks whether the kernel's events are read; UINT_MAX: the usual. */
void inside_set_tries(unsigned tries);
/* Are memory or descriptors short? The kernel has answered with this code. */
bool inside_is_short(struct hmreg *lib);
void inside_answered(struct hmreg *lib, int code);
/* The monitor on the stats page, and why it is no other. */
enum hmreg_monitor inside_shown_monitor(const struct hmreg *lib);
const char *inside_shown_why(const struct hmreg *lib);
/* Called in the children of each fork, with the lock of what libraries share. False: no memory. */
bool inside_forget_at_fork(void (*forget)(void));

/* ---- its userfaultfd ---------------------------------------------------------------------- */

#define INSIDE_STACK_BYTES ((size_t)192 << 10) /* of the library's threads: THREAD_STACK_BYTES */
#define INSIDE_WATCHED_LARGE                                                                       \
    (1 << 20)                 /* bytes of a mapping that may stay watched: WATCHING_LARGE */
#define INSIDE_WATCHED_KEPT 4 /* such mappings without a region: WATCHING_KEPT */

/* Opens one as the monitor does: userfaultfd(2) under a filter only if asked by name. A negative
 * error number. */
int inside_uffd_open(bool by_name, int *fd);
int inside_uffd_watch(int fd, uint64_t start, uint64_t end);
/* 0: the page is watched, by this userfaultfd or another; -ENOENT: it is not. */
int inside_uffd_ask(int fd, uint64_t at);
/* Does this kernel say exactly whether a change is under way? */
bool inside_uffd_is_exact(uint64_t features, const char *release);

/* ---- its hooks ---------------------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__LP64__)
#define INSIDE_COUNTS_CALLS                                                                        \
    1 /* hooks count the calls that may change mappings: HOOK_COUNTS_CALLS */
#else
#define INSIDE_COUNTS_CALLS 0
#endif

/* Changes that hooks have pushed, and files that were loaded, as hooks know. */
uint64_t inside_hook_calls(void);
uint64_t inside_hook_loads(void);
/* No call that may change mappings is under way. */
bool inside_is_quiet(void);
/* Calls that began are at least those that have ended. */
bool inside_counts_agree(void);
/* Threads inside a hook. */
_Atomic uint64_t *inside_hooks(void);
/* The first call of the kernel that code makes itself: where, and its name. NULL: none. */
const char *inside_inlined(const uint8_t *code, size_t size, size_t *at);
/* Places in code that hooks need; a negative error number. */
int inside_hook_sites(void);

/* ---- the library's own thread ------------------------------------------------------------- */

#define INSIDE_IDLE_NS 10000000000 /* REAPER_IDLE_NS */

bool inside_thread_runs(void);
/* Ends the thread if no domain needs it. */
void inside_thread_rest(void);
void inside_thread_wake(void);
/* How long the thread waits before it tidies; before the first domain needs it. */
void inside_set_idle(int64_t ns);
/* It does not serve this domain; again. */
void inside_pause(struct hmreg_domain *domain);
void inside_resume(struct hmreg_domain *domain);
/* As if it was long ago that the thread could not be started. */
void inside_may_retry(struct hmreg_domain *domain);
/* Is the domain noticed of changes? A peer asks so while the domain closes. */
struct gate;
struct gate *inside_gate(struct hmreg_domain *domain);
bool inside_is_noticed(const struct gate *gate);
void inside_settle(struct hmreg_domain *domain);

/* A client of the thread's besides the domains: struct reaper_client. NULL: no. */
struct inside_client {
    bool (*is_due)(void), (*examine)(void), (*reap)(void), (*tidy)(void);
    bool (*recurs)(void), (*recur)(void);
    bool (*sheds)(void), (*shed)(void);
};
/* One at a time; it stays until it leaves. paused: it joins between a pause and a resume. */
bool inside_join(const struct inside_client *client, bool paused);
void inside_resume_client(void);
void inside_leave(void);

/* ---- what else ---------------------------------------------------------------------------- */

/* What a provider said of its fabric once. NULL: as it was. */
void inside_set_names(struct hmreg_domain *domain, const char *fabric, const char *nic);
void inside_set_pinning(struct hmreg_domain *domain, bool pins);
void inside_set_caching(struct hmreg_domain *domain);
void inside_set_options(struct hmreg_domain *domain); /* it takes all, and callers' addresses */
/* Vendors are asked from now on. */
void inside_ask_vendors(struct hmreg *lib);
/* The vendor compares identities itself, by this function; what the library then answers. */
void inside_compare_by(struct hmreg *lib, enum hmreg_iface iface,
                       bool (*compare)(uint64_t addr, size_t len, uint64_t identity));
bool inside_is_same(struct hmreg *lib, enum hmreg_iface iface, uint64_t start, uint64_t end,
                    uint64_t identity);
/* Registrations of other threads are under way: one more, or one less. */
void inside_add_traffic(int more);
/* The library's steps of this thread's calls; false: a release build does not count them. */
bool inside_steps(unsigned long *steps);
size_t inside_domain_size(void);
/* May the library's thread end registrations of the domain? Does it keep which keys are in use? */
bool inside_any_thread(const struct hmreg_domain *domain);
bool inside_keeps_keys(const struct hmreg_domain *domain);
/* Is a member of the group being replaced? */
bool inside_is_replacing(const struct hmreg_domain *group);
/* The thread has what it keeps of a refusal. */
void inside_keep_refusal(void);
/* Is the process exempt from RLIMIT_MEMLOCK? */
bool inside_may_lock(void);
#define INSIDE_CAUSE_BYTES 256 /* FAULT_CAUSE_BYTES */
/* The library finds why the kernel did not pin the ranges, which a device was to write. */
bool inside_find_cause(const struct iovec *iov, size_t count, bool written, char *text);
/* Does the library keep the process's list of mappings open, as where the kernel answers questions
 * about it (Linux 6.11)? */
bool inside_keeps_list(void);
/* From now on the list of mappings is read as text. */
void inside_read_list_as_text(void);
/* How many bytes of memory the process can have, by files below root, and what limits it. */
uint64_t inside_memory_limit(const char *root, const char **what);

/* ---- lives -------------------------------------------------------------------------------- */

/* The number of this life; are both lives of one process? The process's epoch, which a child has
 * not. */
uint64_t inside_life(void);
bool inside_is_same_process(uint64_t one, uint64_t other);
uint64_t inside_epoch(void);
bool inside_is_epoch(uint64_t epoch);
/* Fails as the library does. Returns the code. */
int inside_fail(int code, const char *text);

#endif
