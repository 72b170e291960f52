/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program of the CUDA driver API, with declarations from its documentation, linked with -lcuda:
 * allocates on each device, copies there and back, asks what a pointer is, exports a dmabuf.
 */
#include "check.h"

typedef unsigned CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef unsigned long long CUdeviceptr;

/* As cuda.h maps them. */
#define cuCtxCreate          cuCtxCreate_v2
#define cuCtxDestroy         cuCtxDestroy_v2
#define cuMemAlloc           cuMemAlloc_v2
#define cuMemFree            cuMemFree_v2
#define cuMemcpyHtoD         cuMemcpyHtoD_v2
#define cuMemcpyDtoH         cuMemcpyDtoH_v2
#define cuMemcpyDtoDAsync    cuMemcpyDtoDAsync_v2
#define cuStreamDestroy      cuStreamDestroy_v2
#define cuMemGetAddressRange cuMemGetAddressRange_v2

enum { CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9 };
enum { CU_MEMORYTYPE_DEVICE = 2 };
enum { CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1 };
enum { CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_NOT_INITIALIZED = 3 };

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetName(char *name, int len, CUdevice device);
CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy(CUcontext context);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuMemAlloc(CUdeviceptr *address, size_t size);
CUresult cuMemFree(CUdeviceptr address);
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size);
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size);
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr address);
CUresult cuPointerGetAttribute(void *value, unsigned attribute, CUdeviceptr address);
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
                                       unsigned type, unsigned long long flags);

static unsigned char sent[SIZE], received[SIZE];

static void ask(CUdeviceptr memory, CUdevice device)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    unsigned type = 0;
    int ordinal = -1;

    SUCCEEDS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 100));
    SUCCEEDS(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory + 100));
    SUCCEEDS(cuMemGetAddressRange(&base, &size, memory + 100));
    CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == device);
    CHECK(base == memory && size == SIZE);
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                (CUdeviceptr)(uintptr_t)sent) == CUDA_ERROR_INVALID_VALUE);
}

static void use(CUdevice device)
{
    CUcontext context = NULL;
    CUstream stream = NULL;
    CUdeviceptr one = 0, other = 0;
    int fd = -1;

    SUCCEEDS(cuCtxCreate(&context, 0, device));
    SUCCEEDS(cuMemAlloc(&one, SIZE));
    SUCCEEDS(cuMemAlloc(&other, SIZE));
    SUCCEEDS(cuMemcpyHtoD(one, sent, SIZE));
    SUCCEEDS(cuStreamCreate(&stream, 0));
    SUCCEEDS(cuMemcpyDtoDAsync(other, one, SIZE, stream));
    SUCCEEDS(cuStreamSynchronize(stream));
    SUCCEEDS(cuStreamDestroy(stream));
    memset(received, 0, SIZE);
    SUCCEEDS(cuMemcpyDtoH(received, other, SIZE));
    CHECK(!memcmp(received, sent, SIZE));
    ask(other, device);
    SUCCEEDS(
        cuMemGetHandleForAddressRange(&fd, other, SIZE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    dmabuf_has(fd, 0, sent);
    SUCCEEDS(cuMemFree(one));
    SUCCEEDS(cuMemFree(other));
    SUCCEEDS(cuCtxDestroy(context));
}

int main(void)
{
    int count = 0, version = 0;

    CHECK(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
    SUCCEEDS(cuInit(0));
    SUCCEEDS(cuDriverGetVersion(&version));
    SUCCEEDS(cuDeviceGetCount(&count));
    fill(sent);
    for (int i = 0; i < count; i++) {
        char name[100] = "";
        CUdevice device = -1;

        SUCCEEDS(cuDeviceGet(&device, i));
        SUCCEEDS(cuDeviceGetName(name, sizeof(name), device));
        use(device);
        printf("%s: right\n", name);
    }
    printf("CUDA %d.%d: %d devices\n", version / 1000, version % 1000 / 10, count);
    return 0;
}
