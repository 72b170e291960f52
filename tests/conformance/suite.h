/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The conformance suite: the same cases on every fabric, in every mr_mode that it offers. A case
 * gets a fixture: two domains of one fabric in this process, some memory behind the first, and RMA
 * from the second. A case asserts a rule of the manual; if the fabric does not follow the rule by
 * itself the case notes so, and why:
 *
 *     passed      the fabric follows it
 *     supplied    the fabric does not, hmreg does
 *     impossible  neither can; the case asserts the error
 *     n/a         the rule does not apply to this mode
 *
 * suite.sh combines the notes of all programs in a matrix.
 */
#ifndef TESTS_CONFORMANCE_SUITE_H
#define TESTS_CONFORMANCE_SUITE_H

#include "tests/support/test.h"

#include <hmreg/hmreg.h>
#include <sys/mman.h>

#define SUITE_BYTES     32768
#define SUITE_OBJECTS   8
#define SUITE_NO_NATIVE 1 /* this request cannot be made without hmreg */

struct suite_fabric;

struct suite_fixture {
    const struct suite_fabric *fabric;
    struct hmreg *lib;
    struct hmreg_domain *domain, *peer; /* the target's and the initiator's */
    uint32_t asked_mode;                /* the mr_mode that domain was opened with */
    struct hmreg_domain_info info;      /* of domain */
    unsigned char *memory;              /* SUITE_BYTES, zero, whole pages, all resident */
    unsigned char *local;               /* the same for the initiator */
    bool expects_denial;                /* the next operation must fail: it may never end */
    void *own;                          /* private to the fabric */
    struct {
        struct hmreg_mr *mr; /* NULL: free */
        void *ep;
    } bound[SUITE_OBJECTS]; /* endpoints that suite_ready() bound */
};

struct suite_fabric {
    char name[32];
    bool exact_errors;    /* a denial is immediate, with the manual's error */
    bool reports_denials; /* a denied initiator receives an error */
    bool free_reads;      /* a peer reads whatever it has a key of, with the right or without */
    unsigned variants;    /* ways to open its domains: modes, limits */
    /* Opens both domains and sets asked_mode; false: the fabric lacks this variant. */
    bool (*open)(struct suite_fixture *fixture, unsigned variant);
    /* Opens another domain next to the target's, on the same native domain. */
    int (*open_more)(struct suite_fixture *fixture, const struct hmreg_domain_config *config,
                     struct hmreg_domain **out);
    uint32_t domain_flags;    /* flags of a domain's config that only this provider has */
    uint64_t optional_access; /* bits of hmreg_mr_attr's that this provider passes on */
    /* Number of registrations in the fabric so far; NULL: unknown. */
    unsigned (*registrations)(void);
    void (*close)(struct suite_fixture *fixture);
    /* RMA by the initiator. If expects_denial, the target has processed it on return, whether or
     * not it has ended: -ETIMEDOUT if not. */
    int (*rma)(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write, void *local,
               size_t len, void *desc, uint64_t addr, uint64_t key);
    /* Adds amount to the 8 bytes at addr; fetch: stores their old value in the first of words, to
     * which desc belongs. -EOPNOTSUPP, or NULL: there are no such operations. */
    int (*add)(struct suite_fixture *fixture, bool fetch, uint64_t words[2], void *desc,
               uint64_t amount, uint64_t addr, uint64_t key);
    /* A message from the initiator's memory to the target's. -EOPNOTSUPP, or NULL: there are none
     * of this kind. */
    int (*message)(struct suite_fixture *fixture, bool tagged, const void *from, void *from_desc,
                   void *to, void *to_desc, size_t len);
    /* Makes the connection to the target usable again after a denial; NULL: it stays usable. */
    void (*recover)(struct suite_fixture *fixture);
    /* Replaces the initiator and keeps the target; NULL: a refusal ends the target's side too. */
    void (*replace)(struct suite_fixture *fixture);
    /* Drives the progress of a target that needs it; NULL: none does. */
    void (*progress)(struct suite_fixture *fixture);
    /* Returns when the bytes of all operations that have ended are in the target's memory; NULL:
     * they are when one ends. */
    void (*settle)(struct suite_fixture *fixture);
    /* Registers without hmreg and returns the fabric's result, or SUITE_NO_NATIVE; NULL: always
     * that. */
    int (*native)(struct suite_fixture *fixture, const void *addr, size_t len, uint64_t access,
                  uint64_t offset, uint64_t key, uint64_t flags);
    /* An endpoint, a counter of the target's domain; NULL: there are none. */
    void *(*ep_open)(struct hmreg_domain *domain);
    void (*ep_close)(void *ep);
    void *(*counter_open)(struct suite_fixture *fixture);
    uint64_t (*counter_read)(void *counter);
    void (*counter_close)(void *counter);
    /* Opens a domain next to the target's, on the same native domain, whose registrations complete
     * in a queue; false, or NULL: the fabric has none. */
    bool (*async_open)(struct suite_fixture *fixture, struct hmreg_domain **out);
    void (*async_close)(struct suite_fixture *fixture, struct hmreg_domain *domain);
    /* Reads an event, if there is one, and its context. */
    bool (*async_event)(struct suite_fixture *fixture, void **context);
    /* A dmabuf of so many bytes that the fabric imports, -1: there is none; NULL: any file works.
     */
    int (*dmabuf)(size_t bytes);
};

/* The fabric under test; defined by its harness. name: argv[1]. */
const struct suite_fabric *suite_fabric(const char *name);

/* ---- cases ------------------------------------------------------------------------------ */

typedef void suite_body(struct suite_fixture *fixture);

/* Runs a case in every mode. */
void suite_run(const char *name, suite_body *body);

#define CASE(name)                                                                                 \
    static suite_body name##_in;                                                                   \
    TEST(name)                                                                                     \
    {                                                                                              \
        suite_run(#name, name##_in);                                                               \
    }                                                                                              \
    static void name##_in(struct suite_fixture *fixture)

/* Notes another result than "passed"; the case continues. */
void suite_supplied(const char *format, ...) __attribute__((format(printf, 1, 2)));
void suite_impossible(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The rule does not apply to this mode. */
void suite_not_applicable(void);

/* Notes "supplied" if the fabric itself would have accepted what hmreg refused. */
void suite_refused(struct suite_fixture *fixture, const char *what, const void *addr, size_t len,
                   uint64_t access, uint64_t offset, uint64_t key, uint64_t flags);

/* ---- helpers of cases ------------------------------------------------------------------- */

bool suite_has(const struct suite_fixture *fixture, uint32_t mode);
/* The key to request: 0 where the provider chooses. */
uint64_t suite_key(const struct suite_fixture *fixture, uint64_t key);

/* hmreg_mr_reg(), then whatever the mode requires before the region can be used. */
struct hmreg_mr *suite_reg(struct suite_fixture *fixture, void *addr, size_t len, uint64_t access,
                           uint64_t key);
void suite_ready(struct suite_fixture *fixture, struct hmreg_domain *domain, struct hmreg_mr *mr);
/* Closes the endpoint that suite_ready() bound, and the region. */
void suite_close(struct suite_fixture *fixture, struct hmreg_mr *mr);
/* Before it the initiator's remote. */
void suite_end(struct suite_fixture *fixture, struct hmreg_remote *remote, struct hmreg_mr *mr);

/* A descriptor of so many bytes for a region, and a view of them, which the caller unmaps. The
 * fabric imports it or, if it imports none, reaches it by a mapping. */
int suite_dmabuf(struct suite_fixture *fixture, size_t bytes, unsigned char **view);
/* Registers two segments of it for peers, and closes the descriptor. NULL: no path to them, and the
 * view of so many bytes is unmapped. */
struct hmreg_mr *suite_reg_dmabufs(struct suite_fixture *fixture,
                                   const struct hmreg_segment segments[2], uint64_t key, int fd,
                                   unsigned char *view, size_t bytes);

/* Opens the region at the initiator. */
struct hmreg_remote *suite_peer(struct suite_fixture *fixture, const struct hmreg_mr *mr);

/* RMA between fixture->local and the region; local bytes are registered for it. */
int suite_rma(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write, uint64_t addr,
              uint64_t key, size_t len);
/* The same by offset. */
int suite_move(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write,
               uint64_t offset, size_t len);
/* Writes a pattern and checks that nothing else changes: at is the offset's place in memory. */
void suite_put(struct suite_fixture *fixture, struct hmreg_remote *remote, uint64_t offset,
               size_t len, const unsigned char *at);
void suite_get(struct suite_fixture *fixture, struct hmreg_remote *remote, uint64_t offset,
               size_t len, const unsigned char *at);
/* Puts once as a peer, and closes the region. */
void suite_reach(struct suite_fixture *fixture, struct hmreg_mr *mr, uint64_t offset, size_t len,
                 const unsigned char *at);
/* These bytes are at the target once the fabric has settled. */
void suite_check_arrived(struct suite_fixture *fixture, const void *at, const void *expected,
                         size_t len);
/* The access fails, with code if the fabric has exact errors, and moves no byte. */
void suite_denied(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write,
                  uint64_t addr, uint64_t key, size_t len, int code);
/* Checks the result rc of an initiator's operation that the target denied. */
void suite_check_report(struct suite_fixture *fixture, int rc, int code);
/* The same at offset 0 of the remote. */
void suite_denied_at(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write,
                     int code);

#endif
