/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The environment: each line is a byte for the variable and its value. A wrong value is an error
 * whose text names the variable; settings that were read are ones that the library can have.
 */
#include "core/context/settings.h"
#include "tests/fuzz/targets/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    "HMREG_IFACES",
    "HMREG_STATS",
    "HMREG_LOG",
    "HMREG_DEBUG",
    "HMREG_CACHE_CHECK",
    "HMREG_DMABUF_WAYS",
    "FI_MR_CACHE_MONITOR",
    "FI_MR_CACHE_MAX_COUNT",
    "FI_MR_CACHE_MAX_SIZE",
    "FI_MR_CUDA_CACHE_MONITOR_ENABLED",
    "FI_MR_ROCR_CACHE_MONITOR_ENABLED",
    "FI_MR_ZE_CACHE_MONITOR_ENABLED",
    "HMREG_CACHE_MAX_COUNT",
    "HMREG_CACHE_MAX_SIZE",
    "HMREG_SYSCALLS",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

/* Given to putenv(3), since setenv(3) frees nothing. */
static char variables[NAMES][600];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    return 0;
}

static void set_all(struct input *input)
{
    while (input->left) {
        size_t which = input_byte(input) % NAMES;
        const uint8_t *end = memchr(input->at, '\n', input->left);
        size_t length = end ? (size_t)(end - input->at) : input->left;
        int size = length < 512 ? (int)length : 512;

        snprintf(variables[which], sizeof(variables[which]), "%s=%.*s", names[which], size,
                 (const char *)input->at);
        putenv(variables[which]);
        input->at += length + !!end;
        input->left -= length + !!end;
    }
}

static int is_named(const char *text)
{
    for (size_t i = 0; i < NAMES; i++)
        if (strstr(text, names[i]) && getenv(names[i]))
            return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct settings settings, before;
    int rc;

    memset(&settings, 0x5a, sizeof(settings));
    before = settings;
    set_all(&input);
    rc = settings_read(NULL, &settings);
    PROMISED(rc <= 0);
    memcpy(&before.log, &settings.log, sizeof(before.log)); /* set in any case */
    if (rc)
        PROMISED(hmreg_last_error()->code == rc && is_named(hmreg_last_error()->text) &&
                 !memcmp(&settings, &before, sizeof(before)));
    else
        PROMISED((unsigned)settings.monitor < 16 && settings.ifaces < 1u << HMREG_IFACE_COUNT);
    for (size_t i = 0; i < NAMES; i++)
        unsetenv(names[i]);
    return 0;
}
