/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel: its build options, its page settings, and whether this is a container.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/root.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define SMALL_PAGE 4096

/* Build options that paths for device memory need. */
static const char *const options[] = {
    "CONFIG_DMA_SHARED_BUFFER",   "CONFIG_DMABUF_MOVE_NOTIFY", "CONFIG_PCI_P2PDMA",
    "CONFIG_INFINIBAND_USER_MEM", "CONFIG_HSA_AMD_P2P",
};

/* ---- the config file -------------------------------------------------------------------- */

#define CONFIG_BYTES (1 << 20)

/* The value of an option in a config's text: "y", "m" or "n". */
static json_t *option_value(const char *config, const char *option)
{
    size_t length = strlen(option);

    for (const char *at = config; (at = strstr(at, option)); at += length)
        if (at[length] == '=' && (at == config || at[-1] == '\n'))
            return doc_text(at[length + 1] == 'm' ? "m" : "y");
    return doc_text("n");
}

static void describe_options(json_t *kernel, const char *release)
{
    static const char *const places[] = {"/boot/config-", "/usr/lib/modules/", "/lib/modules/"};
    char *config = malloc(CONFIG_BYTES);
    json_t *found = doc_object();
    char path[256] = "";
    size_t got = 0;

    for (size_t i = 0; config && !got && i < COUNT(places); i++) {
        snprintf(path, sizeof(path), "%s%s%s", places[i], release, i ? "/config" : "");
        got = root_bytes(config, CONFIG_BYTES - 1, "%s", path);
    }
    if (got)
        config[got] = '\0';
    for (size_t i = 0; got && i < COUNT(options); i++)
        doc_set(found, options[i], option_value(config, options[i]));
    free(config);
    doc_set(kernel, "options", found);
    doc_set(kernel, "options_read_at", got ? doc_text(path) : json_null());
}

/* ---- the rest --------------------------------------------------------------------------- */

static json_t *numa_nodes(void)
{
    json_t *names = root_list("/sys/devices/system/node"), *name;
    int count = 0;

    doc_each(name, names) {
        const char *words = json_string_value(name);

        count += !strncmp(words, "node", 4) && isdigit((unsigned char)words[4]);
    }
    json_decref(names);
    return doc_made(json_integer(count));
}

/* Reserved huge pages, of all sizes. */
static json_t *huge_pages(void)
{
    json_t *sizes = root_list("/sys/kernel/mm/hugepages"), *size, *some;
    uint64_t all = 0;

    doc_each(size, sizes) {
        some =
            root_number_fact("/sys/kernel/mm/hugepages/%s/nr_hugepages", json_string_value(size));
        all += (uint64_t)json_integer_value(some);
        json_decref(some);
    }
    json_decref(sizes);
    return doc_count(all, UINT64_MAX);
}

/* The evidence that this is a container; null: none. */
static json_t *container(void)
{
    static const char *const files[] = {"/.dockerenv", "/run/.containerenv"};
    char words[64];

    for (size_t i = 0; i < COUNT(files); i++)
        if (root_exists("%s", files[i]))
            return doc_text(files[i]);
    if (root_read(words, sizeof(words), "/run/systemd/container") && words[0])
        return doc_text("/run/systemd/container");
    return json_null();
}

json_t *kernel_facts(void)
{
    json_t *kernel = doc_object();
    struct utsname name = {0};
    char release[128];

    uname(&name);
    if (!root_read(release, sizeof(release), "/proc/sys/kernel/osrelease"))
        snprintf(release, sizeof(release), "%s", name.release);
    doc_set(kernel, "release", doc_text(release));
    doc_set(kernel, "machine", doc_text(name.machine));
    doc_set(kernel, "page_size", doc_count((uint64_t)sysconf(_SC_PAGESIZE), 0));
    describe_options(kernel, release);
    doc_set(kernel, "numa_nodes", numa_nodes());
    doc_set(kernel, "numa_balancing", root_number_fact("/proc/sys/kernel/numa_balancing"));
    doc_set(kernel, "transparent_huge_pages",
            root_text_fact("/sys/kernel/mm/transparent_hugepage/enabled"));
    doc_set(kernel, "huge_pages", huge_pages());
    doc_set(kernel, "container", container());
    return kernel;
}

/* ---- judging ---------------------------------------------------------------------------- */

static void judge_pages(const json_t *kernel, json_t *findings)
{
    uint64_t page = doc_number(kernel, "page_size");
    char words[32];

    if (strstr(doc_words(kernel, "transparent_huge_pages"), "[never]") &&
        !doc_number(kernel, "huge_pages"))
        finding_add(findings, "huge-pages-off",
                    "/sys/kernel/mm/transparent_hugepage/enabled, /sys/kernel/mm/hugepages",
                    "Transparent huge pages are off (never), and no huge pages are reserved.");
    if (page && page != SMALL_PAGE)
        finding_add(findings, "page-size", "sysconf(_SC_PAGESIZE)", "Pages are of %s.",
                    doc_bytes_words(page, words));
}

void kernel_judge(const json_t *facts, json_t *findings)
{
    const json_t *kernel = json_object_get(facts, "kernel");

    if (doc_number(kernel, "numa_balancing") && doc_number(kernel, "numa_nodes") > 1)
        finding_add(findings, "numa-balancing", "/proc/sys/kernel/numa_balancing",
                    "Automatic NUMA balancing is on, and there are %d NUMA nodes.",
                    (int)doc_number(kernel, "numa_nodes"));
    judge_pages(kernel, findings);
    if (doc_has(kernel, "container"))
        finding_add(
            findings, "container", doc_words(kernel, "container"),
            "This is a container: it may lack modules, device files and limits that its host has.");
}
