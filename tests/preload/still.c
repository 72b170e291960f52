/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A program that is linked statically. */
int main(void)
{
    return 0;
}
