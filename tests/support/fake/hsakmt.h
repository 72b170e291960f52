/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Shared by the files of the stand-in for libhsakmt; and the entry points that are newer than
 * Debian 12's hsakmt.h (5.2.3). Where the header has them too, the two must agree.
 */
#ifndef TESTS_HSAKMT_H
#define TESTS_HSAKMT_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#include <hsakmt.h>

HSAKMT_STATUS hsaKmtGetRuntimeCapabilities(HSAuint32 *capabilities);
HSAKMT_STATUS hsaKmtWaitOnEvent_Ext(HsaEvent *event, HSAuint32 milliseconds, uint64_t *age);
HSAKMT_STATUS hsaKmtWaitOnMultipleEvents_Ext(HsaEvent *list[], HSAuint32 count, bool all,
                                             HSAuint32 milliseconds, uint64_t *age);
HSAKMT_STATUS hsaKmtAvailableMemory(HSAuint32 node, HSAuint64 *bytes);
HSAKMT_STATUS hsaKmtExportDMABufHandle(void *addr, HSAuint64 len, int *fd, HSAuint64 *offset);
HSAKMT_STATUS hsaKmtGetAMDGPUDeviceHandle(HSAuint32 node, void **handle);

/* libdrm_amdgpu's and libdrm's, by the layouts of its amdgpu.h. */
struct kmt_bo;
struct kmt_import {
    struct kmt_bo *bo;
    uint64_t size;
};
int amdgpu_query_gpu_info(void *device, void *info);
int amdgpu_device_get_fd(void *device);
int amdgpu_bo_import(void *device, int type, uint32_t fd, struct kmt_import *out);
int amdgpu_bo_export(struct kmt_bo *bo, int type, uint32_t *handle);
int amdgpu_bo_va_op(struct kmt_bo *bo, uint64_t offset, uint64_t size, uint64_t addr,
                    uint64_t flags, uint32_t op);
int amdgpu_bo_cpu_map(struct kmt_bo *bo, void **cpu);
int amdgpu_bo_free(struct kmt_bo *bo);
int drmCommandWriteRead(int fd, unsigned long command, void *data, unsigned long size);
#pragma GCC visibility pop

#define KMT_MAX_NODES 9 /* the CPU's and eight GPUs' */

/* HsaMemFlags.Value: bits that the older header has no names for. */
#define KMT_NO_ADDRESS   (1u << 18) /* physical memory, named by a handle */
#define KMT_ONLY_ADDRESS (1u << 19) /* a reservation */

#endif
