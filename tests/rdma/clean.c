/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * In the guest: no process holds device memory or a region of it now. Example 7's driver runs it
 * after each round.
 */
#include "tests/support/softgpu.h"
#include "tests/support/test.h"

TEST(device__after_a_round__no_buffer_and_no_region)
{
    softgpu_need();
    softgpu_assert_clean();
}

TEST_MAIN()
