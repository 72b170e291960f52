/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The thread's last error: what is recorded, by whom, and that it survives itself. */
#include "core/error.h"
#include "tests/support/test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static void fail__records_code_and_sentence(void **state)
{
    assert_int_equal(hmreg_fail(-EINVAL, "len is %d", 0), -EINVAL);
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
    assert_string_equal(hmreg_last_error()->text, "len is 0");
    assert_string_equal(hmreg_last_error()->source, "hmreg");
}

static void fail_vendor__keeps_vendor_words(void **state)
{
    hmreg_fail_vendor(-EIO, "cuda", 999, "CUDA_ERROR_UNKNOWN", "cuInit failed");
    assert_int_equal(hmreg_last_error()->vendor_code, 999);
    assert_string_equal(hmreg_last_error()->vendor_text, "CUDA_ERROR_UNKNOWN");
}

static void fail__may_quote_the_error_it_replaces(void **state)
{
    hmreg_fail(-EIO, "first");
    hmreg_fail(-EIO, "second, after: %s", hmreg_last_error()->text);
    assert_string_equal(hmreg_last_error()->text, "second, after: first");
}

static void *other_thread(void *arg)
{
    assert_int_equal(hmreg_last_error()->code, 0);
    hmreg_fail(-EPERM, "theirs");
    return NULL;
}

static void last_error__is_per_thread(void **state)
{
    pthread_t thread;

    hmreg_fail(-EINVAL, "ours");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(hmreg_last_error()->text, "ours");
}

static void strerror__knows_libfabrics_errors_in_both_signs(void **state)
{
    assert_string_equal(hmreg_strerror(-HMREG_ENOKEY), hmreg_strerror(HMREG_ENOKEY));
    assert_string_not_equal(hmreg_strerror(HMREG_EBADFLAGS), "Unknown error");
    assert_string_not_equal(hmreg_strerror(HMREG_EOPBADSTATE), "Unknown error");
    assert_string_equal(hmreg_strerror(0), "Success");
    assert_string_equal(hmreg_strerror(INT32_MIN), "Unknown error");
}

TEST_MAIN(TEST(fail__records_code_and_sentence), TEST(fail_vendor__keeps_vendor_words),
          TEST(fail__may_quote_the_error_it_replaces), TEST(last_error__is_per_thread),
          TEST(strerror__knows_libfabrics_errors_in_both_signs))
