/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef TESTS_REDIRECT_H
#define TESTS_REDIRECT_H

#define BY_REDIRECT 100000 /* what the other library adds */

#endif
