/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A layout: how a request is registered. It consists of parts, each of which becomes a registration
 * on every member of the domain. Nearly every layout has one part, on a domain that is no group.
 * The layout owns the physical segments under a range and the exports, which the registrations
 * share.
 */
#ifndef HMREG_CORE_MR_LAYOUT_H
#define HMREG_CORE_MR_LAYOUT_H

#include "core/mr/mr.h"
#include "core/mr/request.h"

#include <pthread.h>

/* Ranges and their memory. */
struct ranges {
    size_t count;
    struct iovec *iov;
    struct resolved *found;
};

/* A dmabuf that several registrations use, or the reason for its absence. */
struct layout_export {
    struct layout_export *next;
    struct iovec range;
    uint64_t flags; /* the export's flags: each mapping is a separate export */
    bool replaced;  /* layout_replace_export() */
    bool made;      /* else another thread makes it; the fields below are valid if made */
    int rc;
    struct hmreg_dmabuf dmabuf; /* if rc is 0; owned */
    struct hmreg_reason why;    /* else */
};

struct layout {
    struct request request;                 /* of the whole region; joined: of the single part */
    struct resolved whole;                  /* its memory */
    struct ranges ranges;                   /* each is a part, unless joined */
    const struct hmreg_mr_dmabuf **dmabufs; /* for each range, NULL: memory; or NULL: no range has
                                               one */
    bool joined;                            /* all ranges are one part */
    bool owned;                             /* layout_free() frees the ranges */
    struct iovec one;                       /* storage for most gathered lists */
    struct resolved found;
    bool assumed; /* the memory's mapping was not checked */
    bool modest;  /* no region gives way to it */
    bool shares;  /* parts, or members, share exports; else each registration makes its own */
    struct ranges segments; /* the physical segments under the single range, which no export
                               crosses; count 0: not looked for. Owned */
    pthread_mutex_t lock;   /* guards the exports' list and `made` of each; not held while exporting
                             */
    pthread_cond_t made;
    struct layout_export *exports;
};

/* The layout of a request's ranges as one part. found: the memory of each; both are borrowed. */
void layout_init(struct layout *layout, const struct request *request, struct resolved *found);

/* The layout of checked attributes, from which the request was made: `count` segments or, with
 * NULL, the request's ranges as one part. Checks the list, but does not resolve the memory. Call
 * layout_free() after a failure too. Errors of hmreg_mr_regattr() that it returns before it queries
 * any runtime. */
int layout_gather(struct hmreg_domain *domain, const struct hmreg_segment *segments, size_t count,
                  const struct request *request, struct layout *layout);

/* Finds the memory of each range of a gathered list. Segments become one part if they are host
 * memory and the fabric registers so many at once. Errors of request_resolve(), and -EINVAL: the
 * segments are of two ifaces or kinds; -EXDEV: HMREG_REG_SINGLE, but the segments need several
 * registrations.
 */
int layout_resolve(struct hmreg_domain *domain, struct layout *layout);

/* Divides a layout of one range into parts of piece_len bytes. Device memory is also divided where
 * its physical segments end, unless one dmabuf contains all of it. callers: piece_len is the
 * caller's choice. -EINVAL: piece_len makes too many parts. -EMSGSIZE: so does the domain's
 * max_len. -EOPNOTSUPP: so do the segments. -ENOMEM; errors of resolve(). */
int layout_cut(struct hmreg_domain *domain, struct layout *layout, uint64_t piece_len,
               bool callers);
/* Checks that the request's single range needs no more parts than a region can have, and only one
 * if it must be one registration. -EMSGSIZE. */
int layout_check_length(const struct hmreg_domain *domain, const struct request *request);
/* The longest part for a fabric that registers max_len bytes at once. */
uint64_t layout_longest(uint64_t max_len);
/* The length that the library chooses for the parts of a range: see struct hmreg_job_config. */
uint64_t layout_chosen(uint64_t len, uint64_t max_len);

/* Finds the physical segments under the layout's single range of device memory. -EXDEV, not
 * recorded: the borders of a segment cannot be found. */
int layout_find_segments(struct hmreg *lib, struct layout *layout);

size_t layout_parts(const struct layout *layout);
/* The request for a part of a layout that is not joined, or for a physical segment: `ranges` is the
 * layout's `ranges` or `segments`. */
struct request layout_part(const struct layout *layout, const struct ranges *ranges, size_t index);

/* The export that contains a range and has these flags. If *mine, the caller exports all of its
 * range and calls layout_exported(). Otherwise it exists; the call may have waited for another
 * thread to make it. NULL: no memory; not recorded. */
struct layout_export *layout_take_export(struct layout *layout, const struct iovec *range,
                                         uint64_t flags, bool *mine);
/* Keeps an export and owns its descriptor, or keeps its failure rc with the reason. */
void layout_exported(struct layout *layout, struct layout_export *made, int rc,
                     const struct hmreg_dmabuf *dmabuf, const struct hmreg_reason *why);

/* The import of an export was refused: later registrations export again. */
void layout_replace_export(struct layout *layout, const struct iovec *range, uint64_t flags);

/* An attempt to register has ended: closes all exports and forgets the segments. Imports and
 * mappings have references of their own. */
void layout_close(struct layout *layout);
/* Frees owned ranges too; a layout without any needs no call. */
void layout_free(struct layout *layout);

/* The ranges of a gathered list, for a cached region. NULL: no memory. Free it with free(). */
struct mr_list *layout_list(const struct layout *layout);

#endif
