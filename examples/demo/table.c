/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The demo's table: one line per buffer; below it the reasons, numbered, each printed once.
 */
#include "demo.h"

#include <stdio.h>
#include <string.h>

#define WIDTH     100
#define MAX_NOTES 128

/* Reasons in the order of their first row. */
struct notes {
    size_t count;
    const struct hmreg_reason *list[MAX_NOTES];
};

static size_t note(struct notes *notes, const struct hmreg_reason *reason)
{
    size_t i = 0;

    while (i < notes->count &&
           (notes->list[i]->path != reason->path || strcmp(notes->list[i]->text, reason->text)))
        i++;
    if (i == notes->count && i < MAX_NOTES)
        notes->list[notes->count++] = reason;
    return i + 1;
}

static const char *duration(uint64_t ns, char *out, size_t size)
{
    if (ns < 1000)
        snprintf(out, size, "%llu ns", (unsigned long long)ns);
    else if (ns < 1000000)
        snprintf(out, size, "%.1f us", (double)ns / 1e3);
    else
        snprintf(out, size, "%.1f ms", (double)ns / 1e6);
    return out;
}

static const char *verdict_name(enum verdict verdict)
{
    switch (verdict) {
    case VERIFIED:
        return "yes";
    case REFUSED:
        return "refused";
    default:
        return "NO";
    }
}

static void print_pci(const struct row *row)
{
    char address[24] = "-";

    if (row->pci.valid)
        snprintf(address, sizeof(address), "%04x:%02x:%02x.%x", row->pci.domain, row->pci.bus,
                 row->pci.device, row->pci.function);
    printf(" %-12s", address);
}

static void print_device(const struct row *row)
{
    char device[16] = "-";

    if (row->device >= 0)
        snprintf(device, sizeof(device), "%d", row->device);
    printf("%-30.30s %-6s %-6s", row->buffer, hmreg_iface_name(row->iface), device);
    print_pci(row);
}

static void print_reasons(const struct row *row, struct notes *notes)
{
    if (!row->refused)
        printf(" -");
    for (uint32_t i = 0; i < row->refused; i++)
        printf("%s%zu", i ? "," : " ", note(notes, &row->reasons[i]));
}

static void print_row(const struct row *row, struct notes *notes)
{
    bool registered = row->path != HMREG_PATH_NONE;
    char first[16] = "-", again[16] = "-";

    if (registered) {
        duration(row->first_ns, first, sizeof(first));
        if (row->again_ns)
            duration(row->again_ns, again, sizeof(again));
    }
    print_device(row);
    printf(" %-7s %9s %9s%s %-8s", hmreg_path_name(row->path), first, again,
           registered && !row->cached ? "*" : " ", verdict_name(row->verdict));
    print_reasons(row, notes);
    putchar('\n');
}

/* Prints text in lines of WIDTH; indents all but the first. */
static void print_wrapped(const char *text, size_t used, size_t indent)
{
    while (*text) {
        size_t word = strcspn(text, " ");

        if (used + 1 + word > WIDTH) {
            printf("\n%*s", (int)indent, "");
            used = indent;
        } else {
            putchar(' ');
            used++;
        }
        printf("%.*s", (int)word, text);
        used += word;
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_notes(const struct notes *notes)
{
    for (size_t i = 0; i < notes->count; i++) {
        int used = printf("  %2zu  not %s:", i + 1, hmreg_path_name(notes->list[i]->path));

        print_wrapped(notes->list[i]->text, (size_t)used, 7);
    }
}

void table_print(const char *provider, const struct row *rows, size_t count)
{
    struct notes notes = {.count = 0};
    bool uncached = false;

    printf("\n%s: %d bytes each, two processes\n\n", provider, DEMO_BYTES);
    printf("%-30s %-6s %-6s %-12s %-7s %9s %9s  %-8s %s\n", "buffer", "iface", "device", "PCI",
           "path", "register", "get again", "verified", "reasons");
    for (size_t i = 0; i < count; i++) {
        print_row(&rows[i], &notes);
        uncached |= rows[i].path != HMREG_PATH_NONE && !rows[i].cached;
    }
    putchar('\n');
    print_notes(&notes);
    if (uncached)
        puts("   *  not remembered: registered anew each time");
    for (size_t i = 0; i < count; i++)
        if (rows[i].verdict == FAILED)
            printf("  %s: %s\n", rows[i].buffer, rows[i].text);
}
