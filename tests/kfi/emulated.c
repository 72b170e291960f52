/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * kfi_mr(3) in the kernel on a device of the bus (kmod/device.c), for which memory is mapped in
 * earnest: with swiotlb=force on the kernel's command line by bounce buffers, else in place. */
#include "tests/kfi/peer.h"
#include "tests/support/test.h"

static bool bounces(void)
{
    FILE *file = fopen("/proc/cmdline", "r");
    char words[4096] = "";

    assert_non_null(file);
    assert_non_null(fgets(words, sizeof(words), file));
    fclose(file);
    return strstr(words, "swiotlb=force");
}

TEST(reg__each_memory__refused_where_the_device_has_a_copy)
{
    const int expected = bounces() ? -EOPNOTSUPP : 0;
    struct peer peer = {.client = peer_open_client_of("emulated0")};

    assert_int_equal(peer_open_domain(&peer, NULL), 0);
    for (unsigned memory = MEMORY_KMALLOC; memory <= MEMORY_LIST; memory++)
        for (unsigned remote = 0; remote < 2; remote++) {
            struct client_reg reg = peer_reg(&peer, memory, remote ? RIGHTS_BOTH : RIGHT_RECV);

            if (reg.rc != expected)
                fail_msg("memory %u: %d", memory, reg.rc);
            assert_int_equal(reg.output_untouched, reg.rc != 0);
            assert_int_equal(reg.rc ? 0 : peer_close_region(&peer, reg.index), 0);
        }
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    close(peer.client);
    assert_int_equal(peer_unload("hmreg_kfi_client"), 0);
    assert_int_equal(peer_unload("hmreg_kfi_device"), 0);
    assert_int_equal(peer_unload("hmreg_kfi"), 0);
}

TEST_MAIN()
