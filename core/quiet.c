/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See quiet.h.
 */
#include "core/quiet.h"

_Thread_local volatile unsigned quiet_depth __attribute__((tls_model("initial-exec")));
