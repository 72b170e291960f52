/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See work.h.
 */
#include "core/base/work.h"

#ifndef NDEBUG
_Thread_local unsigned long work_counted;
#endif
