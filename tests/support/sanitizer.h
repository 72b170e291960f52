/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The sanitizer that a test is built with: gcc defines a macro for each, clang before 20 has
 * features instead. Under a sanitizer tests do less, and some things not at all: ThreadSanitizer
 * does not support a fork of a process with threads, and AddressSanitizer does not reuse freed
 * memory at once.
 */
#ifndef TESTS_SANITIZER_H
#define TESTS_SANITIZER_H

#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#elif __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#endif

#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif
#ifndef TEST_ASAN
#define TEST_ASAN 0
#endif

#endif
