#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# In the guest: as-mlx5.sh COMMAND... runs the command with the RDMA device named mlx5_0. libfabric's
# verbs, which imports dmabufs from 1.20 on, grants FI_HMEM to devices by their names.
rdma dev set rxe0 name mlx5_0 || exit 1
HMREG_TEST_MLX5=1 "$@"
status=$?
rdma dev set mlx5_0 name rxe0 && exit $status
