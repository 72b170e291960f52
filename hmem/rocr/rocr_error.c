/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Records failures of the ROCm runtime as our errors.
 */
#include "hmem/rocr/rocr.h"

const char *rocr_result_name(struct hmem *self, int64_t status)
{
    struct rocr_api *api = &((struct rocr_hmem *)self)->api;
    const char *words = NULL;

    return api->status_string((hsa_status_t)status, &words) ? NULL : words;
}
