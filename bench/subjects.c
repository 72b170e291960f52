/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * All subjects.
 */
#include "bench/subject.h"

#include <string.h>

static const struct subject *const subjects[] = {
    &subject_hmreg_notice,  &subject_hmreg_userfault, &subject_hmreg_import, &subject_hmreg_default,
    &subject_ucx,           &subject_ofi_tcp,         &subject_ofi_shm,      &subject_getpid,
    &subject_ioctl,         &subject_hmreg_disabled,  &subject_loop,         &subject_empty,
    &subject_hmreg_counter,
};

const struct subject *subject_at(size_t index)
{
    return index < sizeof(subjects) / sizeof(subjects[0]) ? subjects[index] : NULL;
}

const struct subject *subject_find(const char *who)
{
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
        if (!strcmp(subjects[i]->who, who))
            return subjects[i];
    return NULL;
}
