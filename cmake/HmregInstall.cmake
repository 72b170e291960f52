# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What is installed: libraries, headers, package files. Consumers: tests/package.
