/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See vendor.h.
 */
#include "hmem/vendor.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Appends to a text that describes a runtime. */
static pthread_mutex_t words = PTHREAD_MUTEX_INITIALIZER;

static int fail_short(const struct vendor *vendor)
{
    return hmreg_fail(-ENOMEM, "hmreg has no memory to open %s", vendor->name);
}

int vendor_load_library(const struct vendor *vendor)
{
    struct hmem *self, *none = NULL;
    int rc;

    if (atomic_load(vendor->loaded))
        return 0;
    self = calloc(1, vendor->size);
    if (!self)
        return fail_short(vendor);
    self->vendor = vendor;
    rc = loader_open(vendor->source, vendor->soname, vendor->symbols, vendor->symbol_count,
                     (char *)self + vendor->api, &self->library, self->runtime.library,
                     sizeof(self->runtime.library));
    if (rc || !atomic_compare_exchange_strong(vendor->loaded, &none, self))
        free(self);
    return rc;
}

int vendor_load(const struct vendor *vendor, struct hmem **out)
{
    int rc = vendor_load_library(vendor);
    struct hmem *self = rc ? NULL : malloc(vendor->size);

    if (!self)
        return rc ? rc : fail_short(vendor);
    memcpy(self, atomic_load(vendor->loaded), vendor->size);
    rc = vendor_result(self, vendor->start(self), 0);
    if (rc)
        vendor_unload(self);
    else
        *out = self;
    return rc;
}

void vendor_unload(struct hmem *self)
{
    if (!self)
        return;
    self->vendor->stop(self);
    free(self);
}

void vendor_runtime(struct hmem *self, struct hmem_runtime *out)
{
    if (self->complete)
        self->complete(self);
    pthread_mutex_lock(&words);
    *out = self->runtime;
    pthread_mutex_unlock(&words);
}

int vendor_device_count(struct hmem *self)
{
    return self->device_count;
}

static void append(char *text, size_t size, const char *format, va_list args)
{
    char added[512];

    text_write_args(added, sizeof(added), format, args);
    pthread_mutex_lock(&words);
    text_write(text, size, "%s%s%s", text, *text ? "; " : "", added);
    pthread_mutex_unlock(&words);
}

void vendor_lacks(struct hmem *self, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    append(self->runtime.lacks, sizeof(self->runtime.lacks), format, args);
    va_end(args);
}

void vendor_unreported_begin(struct hmem *self)
{
    pthread_mutex_lock(&words);
    self->runtime.unreported[0] = '\0';
    pthread_mutex_unlock(&words);
}

void vendor_unreported(struct hmem *self, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    append(self->runtime.unreported, sizeof(self->runtime.unreported), format, args);
    va_end(args);
}

int vendor_fail(struct hmem *self, int code, int64_t result, const char *format, ...)
{
    char text[sizeof(((struct hmreg_error *)0)->text)];
    va_list args;

    if (result == self->vendor->shut_down)
        atomic_store(&self->shut_down, true);
    if (atomic_load(&self->shut_down))
        return -ESHUTDOWN;
    va_start(args, format);
    text_write_args(text, sizeof(text), format, args);
    va_end(args);
    return hmreg_fail_vendor(code, self->vendor->source, result,
                             self->vendor->result_name(self, result), "%s", text);
}

int vendor_result(struct hmem *self, int rc, uint64_t addr)
{
    if (rc == -HMEM_NOT_MINE)
        return hmreg_fail(-EFAULT,
                          "%#" PRIx64
                          " is no longer memory of %s: it was freed, or its context was reset",
                          addr, self->vendor->name);
    if (rc == -ESHUTDOWN)
        return hmreg_fail_vendor(-ENODEV, self->vendor->source, self->vendor->shut_down, NULL,
                                 "%s has shut down", self->vendor->name);
    return rc;
}

int vendor_check_contains(struct hmem *self, uint64_t addr, uint64_t base, size_t len)
{
    if (addr >= base && addr - base < len)
        return 0;
    return hmreg_fail(-EIO,
                      "%s reports that %#" PRIx64 " lies in %zu bytes at %#" PRIx64
                      ", which do not contain it",
                      self->vendor->name, addr, len, base);
}

int vendor_fail_leaves(uint64_t addr, size_t len, uint64_t end, const char *why)
{
    return hmreg_fail(-ERANGE,
                      "the range of %zu bytes at %#" PRIx64
                      " extends beyond its allocation at %#" PRIx64 ", after %" PRIu64 " bytes: %s",
                      len, addr, end, end - addr, why);
}
