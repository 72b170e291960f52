/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The GPUs on the PCI bus, known to a runtime or not: their driver, the device files that their
 * runtime needs, and the BAR for their memory. Also the versions of NVIDIA's kernel modules and of
 * libcuda, and whether the modules are the open ones.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/machine.h"
#include "tools/root.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOSED "not accessible to this user"

struct vendor {
    unsigned id;
    const char *name;
    enum hmreg_iface iface;
    const char *drivers[3];
    const char *files[3]; /* in /dev; a trailing '*' matches any suffix */
};

static const struct vendor vendors[] = {
    {0x10de, "NVIDIA", HMREG_IFACE_CUDA, {"nvidia"}, {"nvidiactl", "nvidia0*"}},
    {0x1002, "AMD", HMREG_IFACE_ROCR, {"amdgpu"}, {"kfd", "dri/renderD*"}},
    {0x8086, "Intel", HMREG_IFACE_ZE, {"xe", "i915"}, {"dri/renderD*"}},
};

static const struct vendor *vendor_named(const char *name)
{
    for (size_t i = 0; i < COUNT(vendors); i++)
        if (!strcmp(vendors[i].name, name))
            return &vendors[i];
    return NULL;
}

/* ---- facts ------------------------------------------------------------------------------ */

static uint64_t hexadecimal(const char *pci, const char *file)
{
    char words[32] = "";

    root_read(words, sizeof(words), "/sys/bus/pci/devices/%s/%s", pci, file);
    return strtoull(words, NULL, 16);
}

/* Is it integrated into the CPU or the chipset? Intel's is always at this address; AMD's, if ROCm
 * never supported it, has this driver. Being on the root bus proves nothing: clouds pass discrete
 * GPUs through to it. */
static bool is_integrated(const char *pci, const struct vendor *vendor)
{
    json_t *driver = root_target_fact("/sys/bus/pci/devices/%s/driver", pci);
    bool old = json_is_string(driver) && !strcmp(json_string_value(driver), "radeon");

    json_decref(driver);
    return vendor->iface == HMREG_IFACE_ZE ? !strcmp(pci, "0000:00:02.0") : old;
}

/* The vendor, if the device is a GPU of a vendor that we know: a display controller or accelerator
 * that is not integrated. */
static const struct vendor *gpu_vendor(const char *pci)
{
    unsigned class = (unsigned)(hexadecimal(pci, "class") >> 16);
    unsigned id = (unsigned)hexadecimal(pci, "vendor");

    if (class != 0x03 && class != 0x12)
        return NULL;
    for (size_t i = 0; i < COUNT(vendors); i++)
        if (vendors[i].id == id)
            return is_integrated(pci, &vendors[i]) ? NULL : &vendors[i];
    return NULL;
}

/* The first file of /dev that matches; "" if none does. */
static void fitting_file(const char *pattern, char *buf, size_t size)
{
    const char *slash = strrchr(pattern, '/'), *star = strchr(pattern, '*');
    const char *first = slash ? slash + 1 : pattern;
    size_t length = star ? (size_t)(star - first) : strlen(first);
    json_t *names = root_list("/dev/%.*s", (int)(first - pattern), pattern), *name;

    buf[0] = '\0';
    doc_each(name, names) {
        const char *words = json_string_value(name);

        if (strncmp(words, first, length) || (!star && words[length]) || buf[0])
            continue;
        snprintf(buf, size, "/dev/%.*s%s", (int)(first - pattern), pattern, words);
    }
    json_decref(names);
}

/* "/dev/kfd is root:render 0660, not accessible to this user" */
static json_t *closed_words(const char *path)
{
    json_t *access = root_access(path);
    json_t *words = doc_format("%s is %s:%s %s, " CLOSED, path, doc_words(access, "owner"),
                               doc_words(access, "group"), doc_words(access, "mode"));

    json_decref(access);
    return words;
}

/* The problems with the vendor's device files: an array like ["/dev/kfd is missing"]. */
static json_t *lacking_files(const struct vendor *vendor)
{
    json_t *lacking = doc_array();
    char path[128];

    for (size_t i = 0; i < 3 && vendor->files[i]; i++) {
        fitting_file(vendor->files[i], path, sizeof(path));
        if (!path[0])
            doc_add(lacking, doc_format("/dev/%s is missing", vendor->files[i]));
        else if (!root_opens("%s", path))
            doc_add(lacking, closed_words(path));
    }
    return lacking;
}

/* The size of a device's largest BAR, from sysfs lines of "start end flags". The first six lines
 * are BARs; the ROM, virtual functions and windows follow. */
static json_t *largest_bar(const char *pci)
{
    uint64_t largest = 0, from, to;
    char words[4096], *line, *rest;
    int bars = 6;

    if (!root_read(words, sizeof(words), "/sys/bus/pci/devices/%s/resource", pci))
        return json_null();
    for (line = strtok_r(words, "\n", &rest); line && bars--; line = strtok_r(NULL, "\n", &rest))
        if (sscanf(line, "%" SCNx64 " %" SCNx64, &from, &to) == 2 && to > from &&
            to - from >= largest)
            largest = to - from + 1;
    return doc_count(largest, 0);
}

static json_t *describe_gpu(const char *pci, const struct vendor *vendor)
{
    return doc_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "pci", pci, "vendor", vendor->name, "iface",
                    hmreg_iface_name(vendor->iface), "driver",
                    root_target_fact("/sys/bus/pci/devices/%s/driver", pci), "bar",
                    largest_bar(pci), "files_lacking", lacking_files(vendor));
}

json_t *gpus_facts(void)
{
    json_t *gpus = doc_array(), *names = root_list("/sys/bus/pci/devices"), *name;

    doc_each(name, names) {
        const char *pci = json_string_value(name);
        const struct vendor *vendor = strlen(pci) > 8 ? gpu_vendor(pci) : NULL;

        if (vendor)
            doc_add(gpus, describe_gpu(pci, vendor));
    }
    json_decref(names);
    return gpus;
}

/* ---- NVIDIA's driver -------------------------------------------------------------------- */

/* "550.54.15" for libcuda.so.550.54.15; null if the file's name has no version. */
static json_t *libcuda_version(const json_t *runtimes)
{
    static const char name[] = "libcuda.so.";
    char *path = realpath(doc_words(doc_find(runtimes, "iface", "cuda"), "library"), NULL);
    const char *at = path ? strstr(path, name) : NULL;
    bool known = at && strchr(at + sizeof(name) - 1, '.');
    json_t *version = known ? doc_text(at + sizeof(name) - 1) : json_null();

    free(path);
    return version;
}

json_t *nvidia_facts(const json_t *runtimes)
{
    json_t *nvidia = doc_object();
    char words[512];
    bool known = root_read(words, sizeof(words), "/proc/driver/nvidia/version");

    doc_set(nvidia, "module_version", root_text_fact("/sys/module/nvidia/version"));
    doc_set(nvidia, "open_modules",
            known ? json_boolean(strstr(words, "Open Kernel Module")) : json_null());
    doc_set(nvidia, "library_version", libcuda_version(runtimes));
    return nvidia;
}

/* ---- judging ---------------------------------------------------------------------------- */

static bool drives(const struct vendor *vendor, const char *driver)
{
    for (size_t i = 0; i < 3 && vendor->drivers[i]; i++)
        if (!strcmp(vendor->drivers[i], driver))
            return true;
    return false;
}

static const char *why_unusable(const json_t *facts, const char *iface)
{
    const char *why =
        doc_words(doc_find(json_object_get(facts, "runtimes"), "iface", iface), "why");

    return why[0] ? why : "it runs but does not list this GPU";
}

static void report(const json_t *gpu, const char *code, const char *where, const char *rest,
                   json_t *findings)
{
    char name[64];

    snprintf(name, sizeof(name), "%.20s GPU %.32s", doc_words(gpu, "vendor"),
             doc_words(gpu, "pci"));
    finding_add_about(findings, &(struct found){.code = code,
                                                .where = where,
                                                .device = name,
                                                .iface = doc_words(gpu, "iface"),
                                                .rest = rest});
}

static bool is_any_closed(const json_t *lacking)
{
    const json_t *file;

    doc_each(file, lacking)
        if (strstr(json_string_value(file), CLOSED))
            return true;
    return false;
}

static void judge_files(const json_t *facts, const json_t *gpu, json_t *findings)
{
    const json_t *process = json_object_get(facts, "process");
    const json_t *lacking = json_object_get(gpu, "files_lacking");
    struct names names = {.count = 0};
    char rest[400], you[80] = "";

    names_add_list(&names, lacking);
    if (is_any_closed(lacking))
        snprintf(you, sizeof(you), "; you are %.32s (uid %" PRIu64 ")", doc_words(process, "user"),
                 doc_number(process, "uid"));
    snprintf(rest, sizeof(rest), ": %.300s%s.", names_text(&names), you);
    report(gpu, "gpu-no-node", "/dev", rest, findings);
}

/* Finds why a runtime does not list a GPU: the lowest faulty layer is the cause. */
static void judge_absent(const json_t *facts, const json_t *gpu, json_t *findings)
{
    const char *pci = doc_words(gpu, "pci"), *driver = doc_words(gpu, "driver");
    const char *name = doc_words(gpu, "vendor"), *iface = doc_words(gpu, "iface");
    const struct vendor *vendor = vendor_named(name);
    char where[96], rest[900];

    snprintf(where, sizeof(where), "/sys/bus/pci/devices/%s/driver", pci);
    if (vendor && !drives(vendor, driver)) {
        snprintf(rest, sizeof(rest), ": bound to %s%.64s; %s needs %s%s%s.",
                 driver[0] ? "the driver " : "no driver", driver, iface, vendor->drivers[0],
                 vendor->drivers[1] ? " or " : "", vendor->drivers[1] ? vendor->drivers[1] : "");
        report(gpu, "gpu-no-driver", where, rest, findings);
    } else if (json_array_size(json_object_get(gpu, "files_lacking"))) {
        judge_files(facts, gpu, findings);
    } else {
        snprintf(rest, sizeof(rest), ": its driver is loaded, but %s cannot use it: %s.", iface,
                 why_unusable(facts, iface));
        report(gpu, "gpu-no-runtime", "the runtimes' libraries", rest, findings);
    }
}

static void judge_bar(const json_t *gpu, const json_t *device, json_t *findings)
{
    uint64_t bar = doc_number(gpu, "bar"), memory = doc_number(device, "memory");
    char where[96], window[32], all[32], rest[120], name[32];

    if (!bar || !memory || bar >= memory)
        return;
    snprintf(where, sizeof(where), "/sys/bus/pci/devices/%s/resource", doc_words(gpu, "pci"));
    snprintf(rest, sizeof(rest), ": its BAR covers %s of its %s of memory.",
             doc_bytes_words(bar, window), doc_bytes_words(memory, all));
    finding_add_about(findings, &(struct found){.code = "bar-small",
                                                .where = where,
                                                .device = doc_device_words(device, name),
                                                .rest = rest});
}

/* Does a CUDA device report no dmabuf export? Only then the flavour of the kernel modules (open or
 * proprietary) may be the cause. */
static bool cuda_exports_nothing(const json_t *facts)
{
    const json_t *device;

    doc_each(device, json_object_get(facts, "devices"))
        if (doc_equals(device, "iface", "cuda") && !doc_is(device, "dmabuf"))
            return true;
    return false;
}

static void judge_nvidia(const json_t *facts, json_t *findings)
{
    const json_t *nvidia = json_object_get(facts, "nvidia");
    const char *module = doc_words(nvidia, "module_version");
    const char *library = doc_words(nvidia, "library_version");
    char words[256];

    snprintf(words, sizeof(words), "NVIDIA's kernel module has version %.64s, libcuda has %.64s.",
             module, library);
    if (module[0] && library[0] && strcmp(module, library))
        finding_add_about(findings,
                          &(struct found){.code = "driver-mismatch",
                                          .where = "/sys/module/nvidia/version, libcuda.so.1",
                                          .iface = "cuda",
                                          .lead = words});
    if (json_is_false(json_object_get(nvidia, "open_modules")) && cuda_exports_nothing(facts))
        finding_add_about(
            findings,
            &(struct found){
                .code = "nvidia-closed-modules",
                .where = "/proc/driver/nvidia/version, the device's attribute for dmabufs",
                .iface = "cuda",
                .lead = "NVIDIA's closed kernel modules are loaded, and the device exports no "
                        "dmabuf."});
}

void gpus_judge(const json_t *facts, json_t *findings)
{
    const json_t *gpu;

    doc_each(gpu, json_object_get(facts, "gpus")) {
        const json_t *device =
            doc_find(json_object_get(facts, "devices"), "pci", doc_words(gpu, "pci"));

        if (device)
            judge_bar(gpu, device, findings);
        else
            judge_absent(facts, gpu, findings);
    }
    judge_nvidia(facts, findings);
}
