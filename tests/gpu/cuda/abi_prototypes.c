/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Redeclares the vendor's functions with our prototypes: a difference fails to compile. The
 * vendor's struct tags replace ours, so that pointers to them are the same types; abi_layout.c
 * compares the structs themselves. The vendor declares the older versions of its functions, which
 * libcuda.so.1 keeps for ever, only for itself: the switch for that is set here, which also ends
 * its renaming.
 */
#ifdef HMREG_HAVE_CUDA_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define cuda_context         CUctx_st
#define cuda_stream          CUstream_st
#define cuda_pool            CUmemPoolHandle_st
#define cuda_memory_prop     CUmemAllocationProp_st
#define cuda_location        CUmemLocation_st
#define cuda_access          CUmemAccessDesc_st
#define cuda_pool_prop       CUmemPoolProps_st
#define cuda_ipc             CUipcMemHandle_st
#define cuda_graph           CUgraph_st
#define cuda_graph_exec      CUgraphExec_st
#define cuda_node            CUgraphNode_st
#define cuda_graphics        CUgraphicsResource_st
#define cuda_module          CUmod_st
#define cuda_event           CUevent_st
#define cuda_external        CUextMemory_st
#define cuda_external_handle CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st
#define cuda_external_buffer CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st
#define cuda_green           CUgreenCtx_st
#define cuda_library         CUlib_st
#define cuda_multicast_prop  CUmulticastObjectProp_st
#define cuda_resource        CUdevResource_st
#define cuda_resources       CUdevResourceDesc_st
#define CUDA_API_VENDORS_STRUCTS
#include "simulated/cuda/cuda_entries.h"

#define REDECLARE(member, name, parameters) unsigned name parameters;
CUDA_ENTRIES(REDECLARE, REDECLARE)
CUDA_TEST_ENTRIES(REDECLARE)

#else

extern int nothing_to_compare; /* ISO C requires a declaration */

#endif
