/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What gone.c knows of the simulated fabric whose device goes: gone_verbs.c, gone_ofi.c.
 */
#ifndef TESTS_FAULT_GONE_H
#define TESTS_FAULT_GONE_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>

/* Each call of the device asks this, on the thread that makes it. True: the device is gone, and the
 * call fails. */
bool gone_asked(void);

/* Resets the fabric, whose device is there. */
void gone_begin(void);
/* Fails the case if the device has something left. */
void gone_end(void);
int gone_open(struct hmreg *lib, struct hmreg_domain **out);
/* The device's folder in /sys goes. */
void gone_vanish(void);

/* Makes the provider's own calls on a domain, from first to last, and undoes them. */
int gone_calls(struct hmreg_domain *domain, void *memory, size_t len);
/* Undoes what the device did not, once the domain is lost and no thread is in gone_calls(). */
void gone_rest(void);

/* An object of the provider's own on a region: a memory window, a mapped key. */
void *gone_object(struct hmreg_domain *domain, struct hmreg_mr *mr, void *memory, size_t len);
/* The domain is lost: such calls make nothing new, and end what is there. None waits. */
void gone_after(struct hmreg_domain *domain, struct hmreg_mr *mr, void *object, void *memory,
                size_t len);

#endif
