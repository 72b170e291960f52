/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See machine.h.
 */
#include "tools/machine.h"

#include "tools/child.h"
#include "tools/signals.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

json_t *machine_system(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct utsname name = {0};

    uname(&name);
    return doc_pack("{s:o, s:o, s:o, s:o}", "kernel", doc_text(name.release), "machine",
                    doc_text(name.machine), "page_size", doc_count(page, 0), "memory",
                    doc_count((uint64_t)sysconf(_SC_PHYS_PAGES) * page, 0));
}

/* ---- runtimes and devices --------------------------------------------------------------- */

static json_t *runtime(struct hmreg *lib, enum hmreg_iface iface)
{
    struct hmreg_runtime_info info = {.size = sizeof(info)};

    signals_after(hmreg_runtime_query(lib, iface, &info));
    return doc_pack("{s:s, s:b, s:i, s:o, s:o, s:o, s:o}", "iface", hmreg_iface_name(iface),
                    "usable", info.present, "devices", info.devices, "version",
                    doc_text(info.version), "library", doc_text(info.library), "why",
                    doc_text(info.why), "unreported", doc_text(info.unreported));
}

json_t *machine_runtimes(struct hmreg *lib)
{
    json_t *list = doc_array();

    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++)
        doc_add(list, runtime(lib, iface));
    return list;
}

int machine_device_count(struct hmreg *lib, enum hmreg_iface iface)
{
    struct hmreg_runtime_info info = {.size = sizeof(info)};

    return signals_after(hmreg_runtime_query(lib, iface, &info)) ? 0 : info.devices;
}

static json_t *device(struct hmreg *lib, enum hmreg_iface iface, int index)
{
    struct hmreg_device_info info = {.size = sizeof(info)};

    if (hmreg_device_query(lib, iface, index, &info))
        return json_null();
    return doc_pack("{s:s, s:i, s:o, s:o, s:o, s:b, s:b}", "iface", hmreg_iface_name(iface),
                    "device", index, "name", doc_text(info.name), "pci", doc_pci(&info.pci),
                    "memory", doc_count(info.memory, 0), "dmabuf",
                    !!(info.flags & HMREG_DEVICE_DMABUF), "simulated",
                    !!(info.flags & HMREG_DEVICE_SIMULATED));
}

json_t *machine_devices(struct hmreg *lib)
{
    json_t *list = doc_array();

    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++)
        for (int i = 0; i < machine_device_count(lib, iface); i++)
            doc_add(list, device(lib, iface, i));
    return list;
}

/* ---- limits ----------------------------------------------------------------------------- */

static json_t *process_limit(int resource)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    getrlimit(resource, &limit);
    return doc_pack("{s:o, s:o}", "soft", doc_count(limit.rlim_cur, RLIM_INFINITY), "hard",
                    doc_count(limit.rlim_max, RLIM_INFINITY));
}

/* The limits of a domain with a default config. */
json_t *machine_cache_limits(struct hmreg *lib)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    struct hmreg_domain *domain = NULL;
    json_t *limits;

    if (hmreg_domain_open_loopback(lib, NULL, NULL, &domain))
        return json_null();
    hmreg_domain_query(domain, &info);
    hmreg_domain_close(domain);
    limits = doc_object();
    doc_set(limits, "regions", doc_count(info.max_regions, HMREG_LIMIT_NONE));
    doc_set(limits, "bytes", doc_count(info.max_bytes, HMREG_LIMIT_NONE));
    return limits;
}

static int open_watching(struct hmreg **lib)
{
    struct hmreg_config config = {
        .size = sizeof(config),
        .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM),
        .monitor = HMREG_MONITOR_USERFAULTFD,
    };

    return hmreg_open(&config, lib);
}

/* A seccomp filter may kill a process that calls userfaultfd(2), so a child tries it. */
static bool is_killed_for_watching(void)
{
    struct hmreg *lib = NULL;
    int status = 0;
    pid_t parent = getpid(), child;

    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) <= 0)
        return false;
    child = fork();
    if (child == 0) {
        child_end_with(parent);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        open_watching(&lib);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

/* Determined by trying to open a userfaultfd. */
json_t *machine_monitor(void)
{
    struct hmreg_error killed = {
        .code = -EPERM,
        .source = "hmreg",
        .text = "a seccomp filter kills the process for calling userfaultfd(2)",
    };
    bool kills = is_killed_for_watching();
    struct hmreg *lib = NULL;
    int rc = kills ? -EPERM : open_watching(&lib);
    json_t *found = doc_pack("{s:b, s:o}", "available", rc == 0, "error",
                             rc ? doc_error(kills ? &killed : hmreg_last_error()) : json_null());

    hmreg_close(lib);
    return found;
}

/* The library chooses its default monitor when it first caches host memory. */
static void cache_host_memory(struct hmreg *lib)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;

    if (memory == MAP_FAILED)
        return;
    if (!hmreg_domain_open_loopback(lib, NULL, NULL, &domain) &&
        !hmreg_mr_get(domain, memory, size, HMREG_SEND, &mr))
        hmreg_mr_put(mr);
    hmreg_domain_close(domain);
    munmap(memory, size);
}

json_t *machine_active_monitor(struct hmreg *lib)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    cache_host_memory(lib);
    if (hmreg_monitor_query(lib, &info))
        return json_null();
    return doc_pack("{s:s, s:s, s:b, s:o}", "asked", hmreg_monitor_name(info.asked), "active",
                    hmreg_monitor_name(info.active), "userfaultfd", info.userfaultfd, "why",
                    doc_text(info.why));
}

json_t *machine_limits(struct hmreg *lib)
{
    json_t *limits = doc_object();

    doc_set(limits, "memlock", process_limit(RLIMIT_MEMLOCK));
    doc_set(limits, "open_files", process_limit(RLIMIT_NOFILE));
    doc_set(limits, "cache", machine_cache_limits(lib));
    doc_set(limits, "monitor", machine_active_monitor(lib));
    doc_set(limits, "userfaultfd", machine_monitor());
    return limits;
}

json_t *machine_environment(void)
{
    static const char *const names[] = {"HMREG_IFACES",
                                        "HMREG_STATS",
                                        "HMREG_DEBUG",
                                        "HMREG_CACHE_CHECK",
                                        "HMREG_DEVICE_MONITOR",
                                        "HMREG_DMABUF_WAYS",
                                        "HMREG_SYNC_MEMOPS",
                                        "HMREG_SYSCALLS",
                                        "HMREG_CACHE_MAX_COUNT",
                                        "HMREG_CACHE_MAX_SIZE",
                                        "HMREG_FORK_MAX_SIZE",
                                        "FI_MR_CACHE_MONITOR",
                                        "FI_MR_CACHE_MAX_COUNT",
                                        "FI_MR_CACHE_MAX_SIZE",
                                        "FI_MR_CUDA_CACHE_MONITOR_ENABLED",
                                        "FI_MR_ROCR_CACHE_MONITOR_ENABLED",
                                        "FI_MR_ZE_CACHE_MONITOR_ENABLED"};
    json_t *set = doc_object();

    for (size_t i = 0; i < COUNT(names); i++)
        if (secure_getenv(names[i]))
            doc_set(set, names[i], doc_text(secure_getenv(names[i])));
    return set;
}
