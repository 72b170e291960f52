#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# bounce.sh KERNEL PROGRAM: the program (emulated.c) in a guest whose kernel maps all memory by bounce buffers.
here=$(dirname "$(readlink -f "$0")")
"$here/../guest/suite" "$1" || exit
exec "$here/../guest/guest" --kernel "$1" --words swiotlb=force "$2"
