/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * SipHash-2-4 of Aumasson and Bernstein: a message authentication code of 64 bits under a key of
 * 128, for short messages. It is here because no library that loopback links has a MAC, and the
 * kernel's (AF_ALG) is often refused.
 */
#ifndef HMREG_PROVIDERS_LOOPBACK_SIPHASH_H
#define HMREG_PROVIDERS_LOOPBACK_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_BYTES 16

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t size);

#endif
