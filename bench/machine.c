/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See machine.h.
 */
#include "bench/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* Reads the value of the first line "name ...: value" of a file. */
static int read_field(const char *path, const char *name, char *out, size_t room)
{
    FILE *file = fopen(path, "re");
    char line[4096];
    int found = 0;

    while (file && !found && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ':');

        if (strncmp(line, name, strlen(name)) || !value)
            continue;
        snprintf(out, room, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
        found = 1;
    }
    if (file)
        fclose(file);
    return found;
}

static int read_line(const char *path, char *out, size_t room)
{
    FILE *file = fopen(path, "re");
    int found = file && fgets(out, (int)room, file);

    if (file)
        fclose(file);
    if (found)
        out[strcspn(out, "\n")] = 0;
    return found;
}

static int is_virtual(void)
{
    char flags[4096];

    return read_field("/proc/cpuinfo", "flags", flags, sizeof(flags)) &&
           strstr(flags, "hypervisor");
}

void machine_read(struct machine *out, const char *revision)
{
    struct utsname kernel;
    cpu_set_t cores;
    time_t now = time(NULL);

    memset(out, 0, sizeof(*out));
    if (!read_field("/proc/cpuinfo", "model name", out->cpu, sizeof(out->cpu)))
        snprintf(out->cpu, sizeof(out->cpu), "unknown processor");
    sched_getaffinity(0, sizeof(cores), &cores);
    out->cores = CPU_COUNT(&cores);
    out->virtual = is_virtual();
    if (!read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", out->governor,
                   sizeof(out->governor)))
        snprintf(out->governor, sizeof(out->governor), "none to be seen");
    uname(&kernel);
    snprintf(out->kernel, sizeof(out->kernel), "%s %s %s", kernel.sysname, kernel.release,
             kernel.machine);
    read_line("/proc/loadavg", out->load, sizeof(out->load));
    strftime(out->date, sizeof(out->date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    snprintf(out->revision, sizeof(out->revision), "%s", revision);
}

void machine_words(const struct machine *machine, char *words, unsigned room)
{
    snprintf(words, room, "%s, %d cores%s, %s, %.10s", machine->cpu, machine->cores,
             machine->virtual ? ", virtual machine" : "", machine->kernel, machine->date);
}
