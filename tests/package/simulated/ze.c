/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program of Level Zero, linked with the real loader (-lze_loader): on each device of each driver
 * allocates, copies there and back, asks what a pointer is, exports a dmabuf.
 */
#include "check.h"

#include <level_zero/ze_api.h>

static unsigned char sent[SIZE], received[SIZE];

static ze_command_list_handle_t copier(ze_context_handle_t context, ze_device_handle_t device)
{
    ze_command_queue_group_properties_t groups[16];
    ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .mode = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_command_list_handle_t list = NULL;
    uint32_t count = 16;

    memset(groups, 0, sizeof(groups));
    for (uint32_t i = 0; i < count; i++)
        groups[i].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    SUCCEEDS(zeDeviceGetCommandQueueGroupProperties(device, &count, groups));
    while (queue.ordinal < count &&
           !(groups[queue.ordinal].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY))
        queue.ordinal++;
    CHECK(queue.ordinal < count);
    SUCCEEDS(zeCommandListCreateImmediate(context, device, &queue, &list));
    return list;
}

static void ask(ze_context_handle_t context, ze_device_handle_t device, const char *memory)
{
    ze_external_memory_export_fd_t export = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
                                             .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_memory_allocation_properties_t about = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &export};
    ze_device_handle_t owner = NULL;
    void *base = NULL;
    size_t size = 0;

    SUCCEEDS(zeMemGetAllocProperties(context, memory, &about, &owner));
    CHECK(about.type == ZE_MEMORY_TYPE_DEVICE && owner == device);
    dmabuf_has(dup(export.fd), 0, sent);
    SUCCEEDS(zeMemGetAddressRange(context, memory + 100, &base, &size));
    CHECK(base == memory && size >= SIZE);
    about.pNext = NULL;
    SUCCEEDS(zeMemGetAllocProperties(context, sent, &about, &owner));
    CHECK(about.type == ZE_MEMORY_TYPE_UNKNOWN);
}

static void use(ze_context_handle_t context, ze_device_handle_t device)
{
    ze_external_memory_export_desc_t export = {.stype =
                                                   ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                       .pNext = &export};
    ze_command_list_handle_t list = copier(context, device);
    void *memory = NULL;

    SUCCEEDS(zeMemAllocDevice(context, &desc, SIZE, 0, device, &memory));
    SUCCEEDS(zeCommandListAppendMemoryCopy(list, memory, sent, SIZE, NULL, 0, NULL));
    memset(received, 0, SIZE);
    SUCCEEDS(zeCommandListAppendMemoryCopy(list, received, memory, SIZE, NULL, 0, NULL));
    CHECK(!memcmp(received, sent, SIZE));
    ask(context, device, memory);
    SUCCEEDS(zeMemFree(context, memory));
    SUCCEEDS(zeCommandListDestroy(list));
}

static uint32_t use_driver(ze_driver_handle_t driver)
{
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_context_handle_t context = NULL;
    ze_device_handle_t devices[8];
    uint32_t count = 8;

    SUCCEEDS(zeContextCreate(driver, &desc, &context));
    SUCCEEDS(zeDeviceGet(driver, &count, devices));
    for (uint32_t i = 0; i < count; i++) {
        ze_device_properties_t about = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};

        SUCCEEDS(zeDeviceGetProperties(devices[i], &about));
        use(context, devices[i]);
        printf("%s: right\n", about.name);
    }
    SUCCEEDS(zeContextDestroy(context));
    return count;
}

int main(void)
{
    ze_driver_handle_t drivers[4];
    uint32_t count = 4, devices = 0;

    SUCCEEDS(zeInit(ZE_INIT_FLAG_GPU_ONLY));
    SUCCEEDS(zeDriverGet(&count, drivers));
    fill(sent);
    for (uint32_t i = 0; i < count; i++)
        devices += use_driver(drivers[i]);
    printf("Level Zero: %u devices of %u drivers\n", devices, count);
    return 0;
}
