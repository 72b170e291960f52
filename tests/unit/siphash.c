/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * SipHash-2-4 against its authors' test vectors: key 00 01 02 ..., message 00 01 02 ... */
#include "providers/loopback/siphash.h"

#include "tests/support/test.h"

TEST(siphash__authors_vectors__as_published)
{
    static const struct {
        size_t size;
        uint64_t mac;
    } vectors[] = {
        {0, 0x726fdb47dd0e0e31},  {1, 0x74f839c593dc67fd},  {7, 0xab0200f58b01d137},
        {8, 0x93f5f5799a932462},  {15, 0xa129ca6149be45e5}, {16, 0x3f2acc7f57c29bdb},
        {48, 0xe612a3cb9ecba951}, {63, 0x958a324ceb064572},
    };
    uint8_t bytes[64];

    for (uint8_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = i;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        assert_int_equal(siphash(bytes, bytes, vectors[i].size), vectors[i].mac);
}

TEST_MAIN()
