/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * With --gpu, libhmreg in a program that does not use it: opened at the first call here and never
 * closed. Each ibv_pd or fid_domain that the program registers with has one hmreg domain. Each
 * library of preload/ has a copy of its own.
 *
 * A forked child finds nothing open and opens its own; it touches nothing of its parent's. Callers
 * are inside record_enter(), so that hmreg's own registrations are not recorded as the program's. A
 * failure is recorded as a reason (record_passed_on()); the caller passes the program's call on.
 */
#ifndef HMREG_PRELOAD_ENGINE_H
#define HMREG_PRELOAD_ENGINE_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

/* Opens a domain on object, as hmreg_domain_open_verbs() does. context: of engine_domain(). */
typedef int engine_open_call(struct hmreg *lib, void *object,
                             const struct hmreg_domain_config *config, const void *context,
                             struct hmreg_domain **out);

/* The library. NULL: it cannot be opened; later calls do not try again. */
struct hmreg *engine_library(void);

/*
 * The domain of object, opened by open() at the first call. NULL: it cannot be opened; later calls
 * do not try again. parent: the object whose closing ends object too (ibv_context, fid_fabric);
 * NULL: none. Takes no lock if the domain is open.
 */
struct hmreg_domain *engine_domain(void *object, const void *parent, engine_open_call *open,
                                   const void *context);

/* Closes the domain of object, if there is one. Call it before the program closes the object, which
 * our domain would keep busy. While the program has not released a region, the domain stays
 * open. */
void engine_flush(const void *object);
/* Calls engine_flush() for all objects of a parent. */
void engine_flush_children(const void *parent);

/* The program gave the object up, but the object still exists, and another may get its address. A
 * domain that engine_flush() could not close is closed with its parent. */
void engine_detach(const void *object);

/* Drops the domains that engine_flush() could not close, after their object has ended. The program
 * had to release their regions, so they are not touched any more. */
void engine_forget(const void *object);
void engine_forget_children(const void *parent);

/* Records that a call was passed on because hmreg's call failed with rc: each path's reason if
 * every path was refused, else the text of hmreg_last_error() with the slug `otherwise`. */
void engine_refused(int rc, const char *otherwise);

#endif
