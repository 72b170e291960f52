/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A memory region: the fields that hits and callers read, and its native registrations in one
 * array. There is one registration for each part on each member of the domain, so nearly always one
 * in all. An application may have very many cached regions of host memory, so fields that few
 * regions need are in an extension, mr_ext.
 */
#ifndef HMREG_CORE_MR_MR_H
#define HMREG_CORE_MR_MR_H

#include "core/base/clock_list.h"
#include "core/base/itree.h"
#include "core/context/lost.h"
#include "core/base/mapping.h"

/* The reasons why paths refused a range, in the order tried. */
struct refusals {
    uint32_t count;
    struct hmreg_reason *reasons; /* count of them, on the heap; NULL: none refused */
};

/* Only for a cached region that was got by a list of ranges or segments. */
struct mr_list {
    uint64_t len; /* of all segments together */
    size_t count; /* above 1 */
    struct mr_segment {
        uint64_t start, end; /* [start, end) */
        uint64_t identity;   /* of its allocation; 0: hits ask for none */
    } segment[];
};

/* The library's data of a native registration besides its keys. */
struct mr_note {
    struct natives *owner;
    struct mr_note *next; /* in the list of undone_retry() */
    uint64_t taken_key;   /* to give back to the domain's keys, if key_taken */
    uint8_t path, way;    /* enum hmreg_path, enum hmreg_way */
    bool key_taken;
    atomic_bool live; /* it is registered. Stored with release, after the keys */
    atomic_bool kept; /* it is in the list of undone_retry() */
};

/* A region's data for each member of its domain; a domain that is no group is its own member 0. */
struct mr_rail {
    _Atomic(struct hmreg_domain *) domain; /* the member; NULL: it was withdrawn */
    bool withdrawn;                        /* register on its replacement */
    unsigned tried;                        /* number of the replacement on which registering failed;
                                              0: none */
    struct refusals refused;     /* the first part's refusals, or the whole range's before it was
                                    divided */
    struct hmreg_error *missing; /* why it is not registered; NULL: it is, or was not requested. For
                                    a group's published region under the group's lock */
};

/* The native registrations of a region: one for each part on each member, in one array. Only a
 * single part can have several ranges. Allocated before the first registration, and never moved. */
struct natives {
    size_t members, parts, ranges;
    struct hmreg_mr_keys *made;    /* members x parts: [member * parts + part]; element -1 has
                                      `places` as its priv, for the public head */
    struct hmreg_mr_place *places; /* members x parts */
    struct mr_note *note;          /* members x parts */
    struct iovec *asked;           /* ranges: as the caller passed them */
    struct iovec *iov;             /* members x ranges, as registered; for MAPPED in the mappings */
    struct mapping *mappings;      /* members x ranges; NULL: plain host memory, which needs none */
    struct mr_rail *rail;          /* members */
    const struct nearest_order *order; /* how a group chose the members; NULL: all, or the caller
                                          chose */
    struct natives *next;              /* in mr_ext.left */
    bool counted;                      /* for a group: in the members' `columns` */
    atomic_size_t users; /* the region, and each registration that undone_retry() must end */
};

/* The extension of a region: fields that few regions need. */
struct mr_ext {
    /* A hit that began before a suspension may read these two after the resume, so the extension
     * never moves: */
    _Atomic uint64_t identity;         /* of the first range's allocation */
    struct mr_list *list;              /* NULL: got by one range, or explicit; owned */
    _Atomic(struct natives *) natives; /* owned; NULL: not registered yet */
    struct natives *before;    /* the natives before the last resume, for threads that still read
                                  them; owned; or NULL */
    struct natives *left;      /* registrations on withdrawn members, one column each; under the
                                  group's lock, owned */
    struct mr_handle *handles; /* of a group's region: one for each member; owned */
    int device;
    const char *asks_why;  /* with ask_identity, the reason; a static string */
    atomic_bool pending;   /* the asynchronous registration is not complete yet */
    atomic_bool published; /* async domains: mr_publish() is done */
    bool closing;          /* a close that found the fabric busy deregistered some of the
                              registrations */
    bool suspended;        /* suspended, or being suspended */
    bool has_iova;
    uint64_t iova; /* the caller's address of the first byte, if has_iova */
};

/* The head of a region: the fields that a hit, its put and the search tree read, and the public
 * head. The heads of 256 cached regions of a domain lie together, apart from their bodies
 * (stable_array.h), one per cache line. With one struct per region, a hit among 100,000 regions
 * would take three times as long. */
struct hmreg_mr {
    const struct hmreg_mr_keys *keys; /* these three: set once the region is registered */
    uint32_t count, generation;
    struct hmreg_domain *domain;
    atomic_uint sequence; /* cached regions: odd while thread caches may hold it (thread_cache.h) */
    uint32_t slot_offset; /* regions of hmreg_mr_get(): the pin slot's offset; 0: explicit region */
    struct itree_node node; /* starts at the first range, as long as all ranges together; with
                               ext->list, the smallest range that contains all segments */
};

/* The body of a region: fields that only calls out of line read. */
struct mr_body {
    union {
        struct hmreg_mr_keys made; /* for one range of plain host memory, registered as requested */
        struct mr_ext *ext;        /* for all other regions: if `extended` */
    };
    _Atomic(void *) context; /* the caller's */
    uint16_t access;         /* no bit-field: a search reads it of an entry that is being filled */
    uint8_t iface : 4;       /* enum hmreg_iface */
    uint8_t path : 3;        /* enum hmreg_path */
    bool extended : 1;
    bool cached : 1;     /* in the cache: serves other gets too */
    bool registered : 1; /* regions of hmreg_mr_get(): it is registered */
    bool key_taken : 1;  /* without an extension: made.key is from the domain's keys */
    /* Regions of hmreg_mr_get(); set before the region is published: */
    bool ask_monitor : 1;  /* each hit asks the monitor whether all events are read */
    bool ask_identity : 1; /* each hit queries the runtime for the memory's identity */
    bool monitored : 1;    /* valid until the monitor reports a change */
    bool watched : 1;      /* the monitor watches its memory, until monitor_unwatch() */
    bool announced : 1;    /* callback made was called for it, and ended was not */
    uint8_t : 0;           /* fields above are read without a lock, those below written under one */
    /* The cache's, under its lock: see enum cache_state and cache_pool.c. */
    uint8_t state : 3;
    bool cold : 1, changed : 1, unmapped : 1, retired : 1;
    bool used : 1;         /* a get has found it under the lock since eviction last looked */
    bool cooled : 1;       /* cache_empty() took it out of the threads' tables */
    bool announcing : 1;   /* pending, inside the application's callback, which may never return */
    bool refused_room : 1; /* registered, but unpublished because the cache was full */
    bool filling : 1;      /* its get registers it without publishing it */
    bool stuck : 1;        /* its deregistration failed with EBUSY */
    bool visited : 1;      /* a visit holds it (core/cache/visit.h) */
    bool unawaited : 1;    /* while pending no other thread waits for it: cache_leave_pending() */
    uint16_t : 0; /* fields above are written under the lock; those below are read without it, and
                     written only when the entry begins a use */
    uint16_t cache : 14; /* its cache's index */
    bool whole : 1;      /* serves only gets of exactly its range: changes of its memory are not
                            reported, so each holder must hold all of that memory */
    bool claimed : 1;    /* a trusted claim, not a runtime, says that its memory is the system's */
    struct clock_link place; /* live: in the clock list; else `next` in another list */
    /* These keep their values when the entry is reused: threads that remember the earlier use may
     * read them. */
    struct variant *variant; /* its attributes; NULL: none */
    union {
        uint32_t pins; /* pins in no thread's pin slot; thread_cache_pins() adds up the others */
        _Atomic uint64_t
            holders; /* for an entry that ends with its last put (core/cache/holders.h) */
    };
};

/* A region outside of the domain's array: not from hmreg_mr_get(). */
struct mr_on_heap {
    struct hmreg_mr mr; /* first; slot_offset 0 */
    struct mr_body body;
    struct origin *origin; /* for an explicit region */
};

/* hmreg_mr_rail(): a group's region as one member sees it. It has its own head; all other fields
 * are the region's. */
struct mr_handle {
    struct hmreg_mr mr; /* first; slot_offset 0, sequence MR_IS_HANDLE, domain the member; in node
                           only start is set, for the public head */
    struct hmreg_mr *whole;
    size_t member;
};
#define MR_IS_HANDLE                                                                               \
    2u /* no hot region has this sequence, nor one that ends with its last put                     \
          \ */

_Static_assert(HMREG_ACCESS_ALL <= UINT16_MAX, "access rights fit a region's");
_Static_assert(sizeof(((struct mr_body *)0)->access) == sizeof(uint16_t), "access is no bit-field");
_Static_assert(HMREG_PATH_COUNT <= 1 << 3, "a path fits");
_Static_assert(HMREG_IFACE_MAX < 1 << 4, "so does an iface");

/* A slot offset is an element's number in a domain's array, times MR_SLOT, of which the sizes of an
 * element's two parts are multiples: mr_at() and mr_body_in() find them without a multiplication.
 */
#define MR_SLOT       16
#define MR_SLOT_GROUP (STABLE_ARRAY_GROUP * MR_SLOT)

_Static_assert(sizeof(struct hmreg_mr) == 64, "a head is a cache line");
_Static_assert(offsetof(struct hmreg_mr, generation) ==
                       offsetof(struct hmreg_mr_head, generation) &&
                   offsetof(struct hmreg_mr, domain) == offsetof(struct hmreg_mr_head, domain) &&
                   offsetof(struct hmreg_mr, node) == offsetof(struct hmreg_mr_head, addr),
               "a region begins with its public head");
_Static_assert(sizeof(struct hmreg_mr) % MR_SLOT == 0 && sizeof(struct mr_body) % MR_SLOT == 0,
               "a slot offset times a number is the size of so many parts");

static inline struct hmreg_mr *mr_at(char *entries, uint32_t slot_offset)
{
    uint64_t before = slot_offset & ~(uint64_t)(MR_SLOT_GROUP - 1);

    return (struct hmreg_mr *)(entries + slot_offset * (sizeof(struct hmreg_mr) / MR_SLOT) +
                               before * (sizeof(struct mr_body) / MR_SLOT));
}

static inline struct mr_body *mr_body_in(char *entries, uint32_t slot_offset)
{
    uint64_t until = (slot_offset | (uint64_t)(MR_SLOT_GROUP - 1)) + 1;

    return (struct mr_body *)(entries + until * (sizeof(struct hmreg_mr) / MR_SLOT) +
                              slot_offset * (sizeof(struct mr_body) / MR_SLOT));
}

static inline bool mr_is_handle(const struct hmreg_mr *mr)
{
    return !mr->slot_offset &&
           atomic_load_explicit(&mr->sequence, memory_order_relaxed) == MR_IS_HANDLE;
}

/* A handle's region, else mr. */
static inline struct hmreg_mr *mr_whole(const struct hmreg_mr *mr)
{
    return mr_is_handle(mr) ? ((struct mr_handle *)mr)->whole : (struct hmreg_mr *)mr;
}

/* A handle's member, else 0. */
static inline size_t mr_member(const struct hmreg_mr *mr)
{
    return mr_is_handle(mr) ? ((struct mr_handle *)mr)->member : 0;
}

/* A handle returns the region's. */
static inline struct mr_body *mr_body(const struct hmreg_mr *mr)
{
    const struct hmreg_mr *whole = mr_whole(mr);

    if (!whole->slot_offset)
        return &((struct mr_on_heap *)whole)->body;
    return mr_body_in(whole->domain->entries, whole->slot_offset);
}

/* Allocates natives for so many parts, and copies these ranges; registers nothing. NULL: no
 * memory. */
struct natives *natives_new(size_t members, size_t parts, const struct iovec *ranges, size_t count);
/* Drops a user; the last one frees the natives. */
void natives_leave(struct natives *natives);
/* Sets the member's domain; NULL: the natives no longer register on it. */
void natives_set_domain(struct natives *natives, size_t member, struct hmreg_domain *domain);
/* The natives no longer count in any domain. */
void natives_uncount(struct natives *natives);
/* The region, or the call that allocated them, releases the natives. */
void natives_end(struct natives *natives);
/* Moves each member's refusals from the filling's old natives to its new ones. */
void natives_pass_on(struct natives *from, struct natives *to);
/* Frees an extension with its natives. NULL is accepted. */
void mr_ext_free(struct mr_ext *ext);

/* The extension; NULL: see struct mr_body. */
static inline struct mr_ext *mr_ext(const struct hmreg_mr *mr)
{
    const struct mr_body *body = mr_body(mr);

    return body->extended ? body->ext : NULL;
}

static inline int mr_device(const struct hmreg_mr *mr)
{
    return mr_ext(mr) ? mr_ext(mr)->device : -1;
}

/* A bit of a cached region's sequence, set as long as its slot exists: it ends with its last put
 * (core/cache/holders.h). */
#define MR_ENDS_WITH_PUT 0x40000000u

/* The region's policy; DEFAULT: it is explicit. */
static inline enum hmreg_policy mr_policy(const struct hmreg_mr *mr)
{
    if (!mr->slot_offset)
        return HMREG_POLICY_DEFAULT;
    return atomic_load(&mr->sequence) & MR_ENDS_WITH_PUT ? HMREG_POLICY_LAST_PUT
                                                         : HMREG_POLICY_KEEP;
}

/* HMREG_ASKS_* */
static inline uint32_t mr_asks(const struct hmreg_mr *mr)
{
    const struct mr_body *body = mr_body(mr);

    return (body->ask_identity ? HMREG_ASKS_RUNTIME : 0) |
           (body->ask_monitor && monitor_kind(mr->domain->lib->monitor) == HMREG_MONITOR_USERFAULTFD
                ? HMREG_ASKS_KERNEL
                : 0);
}

/* The list of a cached region; NULL: it is explicit, or was got by one range. */
static inline const struct mr_list *mr_list(const struct hmreg_mr *mr)
{
    return mr_ext(mr) ? mr_ext(mr)->list : NULL;
}

/* The address of the first byte of the first range. */
static inline uint64_t mr_start(const struct hmreg_mr *mr)
{
    return mr_list(mr) ? mr_list(mr)->segment[0].start : mr_whole(mr)->node.start;
}

static inline uint64_t mr_len(const struct hmreg_mr *mr)
{
    const struct itree_node *node = &mr_whole(mr)->node;

    return mr_list(mr) ? mr_list(mr)->len : node->end - node->start;
}

static inline uint64_t mr_identity(const struct hmreg_mr *mr)
{
    return mr_ext(mr) ? atomic_load_explicit(&mr_ext(mr)->identity, memory_order_relaxed) : 0;
}

/* The segments whose identities each hit asks for. */
static inline size_t mr_segment_count(const struct hmreg_mr *mr)
{
    const struct mr_list *list = mr_list(mr);

    return list ? list->count : 1;
}

static inline struct mr_segment mr_segment(const struct hmreg_mr *mr, size_t index)
{
    const struct mr_list *list = mr_list(mr);
    struct mr_segment all = {mr->node.start, mr->node.end, mr_identity(mr)};

    return list ? list->segment[index] : all;
}

/* The natives; NULL: the region has no extension, or is not registered yet. */
static inline struct natives *mr_natives(const struct hmreg_mr *mr)
{
    return mr_ext(mr) ? atomic_load_explicit(&mr_ext(mr)->natives, memory_order_acquire) : NULL;
}

/* Its ranges. */
static inline size_t mr_count(const struct hmreg_mr *mr)
{
    return mr_natives(mr) ? mr_natives(mr)->ranges : 1;
}

/* How many registrations it has on each member. */
static inline size_t mr_parts(const struct hmreg_mr *mr)
{
    return mr_natives(mr) ? mr_natives(mr)->parts : 1;
}

/* As mr->domain. A handle's changes while other threads use it: see set_handle(). */
static inline struct hmreg_domain *mr_domain(const struct hmreg_mr *mr)
{
    return __atomic_load_n(&mr->domain, __ATOMIC_ACQUIRE);
}

/* Is it a group's region itself, not a handle? */
static inline bool mr_of_group(const struct hmreg_mr *mr)
{
    return mr_domain(mr)->group;
}

/* How many registrations it has; a handle: those on its member. */
static inline size_t mr_native_count(const struct hmreg_mr *mr)
{
    return mr_of_group(mr) ? mr_natives(mr)->members * mr_parts(mr) : mr_parts(mr);
}

static inline struct hmreg_mr_keys *mr_native(const struct hmreg_mr *mr, size_t index)
{
    const struct natives *natives = mr_natives(mr);

    return natives ? &natives->made[mr_member(mr) * natives->parts + index] : &mr_body(mr)->made;
}

/* The domain of one of its registrations. NULL: it has none, or has lost it. */
struct hmreg_domain *mr_live(const struct hmreg_mr *mr, size_t index);

/* The member whose path and refusals describe the region: for a group the one with the most refused
 * paths. */
size_t mr_explained(const struct hmreg_mr *mr);

/* For a handle, the registration on its member. */
enum hmreg_path mr_path(const struct hmreg_mr *mr);

/* Stands for a missing registration. */
#define MR_NONE                                                                                    \
    ((struct hmreg_mr_keys){.key = HMREG_KEY_NOTAVAIL,                                             \
                            .lkey = HMREG_VERBS_KEY_NOTAVAIL,                                      \
                            .rkey = HMREG_VERBS_KEY_NOTAVAIL})

/* mr_body.made of a suspended region without an extension, an address that no provider's priv has.
 */
extern const char mr_suspended_mark;
#define MR_SUSPENDED                                                                               \
    ((struct hmreg_mr_keys){.key = HMREG_KEY_NOTAVAIL,                                             \
                            .lkey = HMREG_VERBS_KEY_NOTAVAIL,                                      \
                            .rkey = HMREG_VERBS_KEY_NOTAVAIL,                                      \
                            .priv = (void *)(uintptr_t)&mr_suspended_mark})

static inline bool mr_is_suspended(const struct hmreg_mr *mr)
{
    const struct mr_ext *ext = mr_ext(mr);

    return ext ? ext->suspended : mr_body(mr)->made.priv == &mr_suspended_mark;
}

/* A range as the caller passed it. */
static inline struct iovec mr_asked(const struct hmreg_mr *mr, size_t index)
{
    const struct natives *natives = mr_natives(mr);

    return natives ? natives->asked[index]
                   : (struct iovec){(void *)(uintptr_t)mr->node.start, mr_len(mr)};
}

/* A range as it was registered; for a group's region as the caller passed it. */
static inline struct iovec mr_iov(const struct hmreg_mr *mr, size_t index)
{
    const struct natives *natives = mr_natives(mr);

    return natives && !mr_of_group(mr) ? natives->iov[mr_member(mr) * natives->ranges + index]
                                       : mr_asked(mr, index);
}

/* One member's registrations have changed, in a group's region that other threads may read. Sets
 * their places, the handle's head, and the region's generation; under the group's lock. */
void mr_set_column(struct hmreg_mr *mr, size_t member);

/* The number of regions that this process has registered. */
extern _Atomic uint64_t mr_registrations;

/* Sets the public heads of the region and its handles: the region is registered, or suspended. */
void mr_set_head(struct hmreg_mr *mr);

/* The number of a region's registration. The head has its low bits, above the two that say where
 * its places are: valid while fewer than 2^30 registrations have followed. */
static inline uint64_t mr_generation(const struct hmreg_mr *mr)
{
    uint64_t now = atomic_load_explicit(&mr_registrations, memory_order_relaxed);

    uint32_t generation = __atomic_load_n(&mr->generation, __ATOMIC_RELAXED);

    return now - (((uint32_t)now - (generation >> 2)) & (UINT32_MAX >> 2));
}

/* Did the caller choose the address by which peers reach the first byte, ext->iova? */
static inline bool mr_has_iova(const struct hmreg_mr *mr)
{
    return mr_ext(mr) && mr_ext(mr)->has_iova;
}

/* The address of a range for the fabric's local operations. */
uint64_t mr_local_addr(const struct hmreg_mr *mr, size_t index);

/* Is the asynchronous registration not complete yet? Never true of a region of hmreg_mr_get(). */
static inline bool mr_is_pending(const struct hmreg_mr *mr)
{
    return mr_ext(mr) && atomic_load(&mr_ext(mr)->pending);
}

/* Counts an explicit region in its domain and notifies the provider. Called once, just before the
 * registering call returns the region. */
void mr_publish(struct hmreg_mr *mr);

/* Waits until mr_publish() is done. On an async domain another thread may read the completion event
 * before the registering call has stored what the fabric returned. */
void mr_settle(const struct hmreg_mr *mr);

/* One of its registrations, with its current desc and key. */
struct hmreg_mr_keys mr_current(const struct hmreg_mr *mr, size_t index);

/* Stops changes of the columns of a group's region. Returns the lock to release, or NULL. */
struct group *mr_lock_columns(const struct hmreg_mr *mr);
void mr_unlock_columns(struct group *group);

/* mr_current() for a region that other threads may change, and its domain. The registration stays
 * until the caller has released the region. NULL: its member is withdrawn by now. */
struct hmreg_domain *mr_copy_live(const struct hmreg_mr *mr, size_t index,
                                  struct hmreg_mr_keys *out);
/* Returns -EINVAL: mr is a handle, and its region lacks its member. */
int mr_fail_without(void);
/* As mr_copy_live(); 0 or -EINVAL. */
int mr_copy_keys(const struct hmreg_mr *mr, size_t index, struct hmreg_mr_keys *out);

/* Notifies the provider that the memory changed; the provider may forbid access at once. The
 * provider takes no lock, and this function only the columns' lock, so callers may hold the lock of
 * the domain's caches. */
void mr_revoke(struct hmreg_mr *mr);

/* Unbinds the region from endpoints that the library has bound it to, before it is deregistered. */
void mr_unbind(struct hmreg_mr *mr);
/* mr_unbind() for the remaining registrations of withdrawn members. */
void mr_unbind_left(struct hmreg_mr *mr);

/* Is an object bound to the region, or to a part of it? */
bool mr_is_bound(const struct hmreg_mr *mr);

/* -EAGAIN while a registration of a region with remote access is not complete. */
int mr_check_complete(const struct hmreg_mr *mr);

/* Checks that mr is not NULL, belongs to this process, and was not partly closed. -EINVAL,
 * -EPERM. */
int mr_check_open(const struct hmreg_mr *mr);
/* mr_check_open(), and that the region is not suspended (-EAGAIN) and has a handle's rail. */
int mr_check(const struct hmreg_mr *mr);
/* mr_check(), and that its domain is not lost (-ENODEV); a group's members are not checked. */
int mr_check_usable(const struct hmreg_mr *mr);
static inline struct log *mr_log(const struct hmreg_mr *mr)
{
    return mr ? domain_log(mr_domain(mr)) : NULL;
}

#endif
