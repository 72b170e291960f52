/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Plots, drawn by gnuplot as SVG, then recoloured to follow the reader's light or dark page. They
 * show medians, with the middle half of the values as an error bar. Series without values, and
 * plots without series, are omitted.
 */
#include "bench/bench.h"
#include "bench/report.h"
#include "bench/series.h"
#include "bench/subject.h"

#include <stdlib.h>
#include <string.h>

/* Visible on white and on black. */
static const char *const colours[] = {"#2f81f7", "#2da44e", "#d9730d", "#a371f7",
                                      "#e5534b", "#8b949e", "#bf8700"};
#define COLOURS (sizeof(colours) / sizeof(colours[0]))

#define MOST_SHADES 4

/* A bar chart: a group for each contestant with a bar for each measure. */
struct bars {
    const char *file, *title, *unit;
    const char *who[6];
    struct {
        const char *measure, *suffix, *name; /* the series of contestant who + suffix */
    } bar[MOST_SHADES];
};

static const struct bars all_bars[] = {
    {"threads",
     "get + put by two threads, beside two processes",
     "ns per get + put",
     {WHO_NOTICE, WHO_IMPORT, WHO_DEFAULT, WHO_USERFAULT, WHO_UCX},
     {{"threads-distinct-1000", ", 2 threads", "2 threads, 1,000 regions each"},
      {"threads-distinct-1000", ", 2 processes", "2 processes, 1,000 regions each"},
      {"threads-same-1", ", 2 threads", "2 threads, the same region"},
      {"threads-same-1", ", 2 processes", "2 processes, 1 region each"}}},
    {"many",
     "64 buffers in one call, beside single calls, 1,024 cached regions",
     "ns a buffer",
     {WHO_DEFAULT, WHO_DEFAULT_MANY, WHO_USERFAULT, WHO_USERFAULT_MANY},
     {{"many-get-1024", "", "get"},
      {"many-put-1024", "", "put"},
      {"many-both-1024", "", "get + put"}}},
    {"misses",
     "A miss beyond what the provider costs, 10,000 regions",
     "ns per get + put",
     {WHO_NOTICE, WHO_IMPORT, WHO_DEFAULT, WHO_USERFAULT, WHO_UCX},
     {{"miss-first", "", "into a new cache"},
      {"miss-again", "", "into a flushed cache"},
      {"miss-evicting", "", "evicting one each"}}},
    {"stalls",
     "Hits while another thread registers, 200 us each",
     "ns per get + put, mean",
     {WHO_NOTICE, WHO_IMPORT, WHO_DEFAULT, WHO_USERFAULT, WHO_UCX},
     {{"stall-mean-idle", "", "the other thread sleeps"},
      {"stall-mean-spinning", "", "spins"},
      {"stall-mean-registering", "", "registers"}}},
    {"memory",
     "Memory of a cached region, index included",
     "bytes",
     {WHO_DEFAULT, WHO_IMPORT, WHO_USERFAULT, WHO_UCX},
     {{"footprint-100000", "", "100,000 regions"}, {"footprint-1000000", "", "1,000,000 regions"}}},
};

/* ---- gnuplot ---------------------------------------------------------------------------- */

static const struct series *values_of(const char *measure, const char *who)
{
    const struct series *found = series_find(measure, who);

    return found && found->count && !found->absent[0] ? found : NULL;
}

/* Escapes '_': gnuplot would set the "64" of "x86_64" as a subscript. */
static void escape(const char *words, char *escaped, size_t room)
{
    size_t at = 0;

    for (; *words && at + 4 < room; words++) {
        if (*words == '_')
            at += (size_t)sprintf(escaped + at, "\\\\");
        escaped[at++] = *words;
    }
    escaped[at] = 0;
}

static FILE *begin(const char *path, const char *title, const char *unit,
                   const struct machine *machine)
{
    FILE *gnuplot = popen("gnuplot", "w"); /* NOLINT(cert-env33-c): a developer's program */
    char words[400], escaped[500];

    if (!gnuplot)
        die("gnuplot cannot be started");
    machine_words(machine, words, sizeof(words));
    escape(words, escaped, sizeof(escaped));
    fprintf(gnuplot,
            "set terminal svg size 900,480 dynamic enhanced font 'DejaVu Sans,13'\n"
            "set output '%s'\n"
            "set title \"{/*1.1 %s}\\n{/*0.8 %s}\" enhanced\n"
            "set ylabel '%s'\n"
            "set key outside right top noenhanced\n"
            "set grid ytics lc rgb 'gray' lw 0.5 dt 3\n"
            "set datafile missing '?'\n",
            path, title, escaped, unit);
    return gnuplot;
}

/* ---- recolouring its output -------------------------------------------------------------- */

static const char style[] =
    "<style>\n"
    "  svg { background: #ffffff }\n"
    "  [fill='black'] { fill: #1b1f24 } [stroke='black'] { stroke: #1b1f24 }\n"
    "  [color='black'] { color: #1b1f24 }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    svg { background: #0d1117 }\n"
    "    [fill='black'] { fill: #e6edf3 } [stroke='black'] { stroke: #e6edf3 }\n"
    "    [color='black'] { color: #e6edf3 }\n"
    "  }\n"
    "</style>\n";

static void copy_line(FILE *to, const char *line, const char *title)
{
    if (!strncmp(line, "<title>", 7)) {
        fprintf(to, "<title>%s</title>\n", title);
        return;
    }
    if (strstr(line, "id=\"gnuplot_canvas\""))
        fputs(style, to);
    fputs(line, to);
    if (!strncmp(line, "<?xml", 5))
        fputs("<!-- SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only\n"
              "     Drawn by ./run bench from the values it measured. -->\n",
              to);
}

static void dress(const char *path, const char *title)
{
    char line[8192], ours[512];
    FILE *from = fopen(path, "re"), *to;

    snprintf(ours, sizeof(ours), "%s.new", path);
    to = from ? fopen(ours, "we") : NULL;
    if (!to) {
        if (from)
            fclose(from);
        return;
    }
    while (fgets(line, sizeof(line), from))
        copy_line(to, line, title);
    fclose(from);
    if (fclose(to) || rename(ours, path))
        die("%s: cannot be written", path);
    progress("plot: %s", path);
}

static void end(FILE *gnuplot, const char *path, const char *title)
{
    if (pclose(gnuplot))
        progress("plot: gnuplot is not installed, or failed: no %s", path);
    else
        dress(path, title);
}

/* ---- bars ------------------------------------------------------------------------------- */

static const struct series *cell(const struct bars *bars, size_t who, size_t bar)
{
    char name[80];

    snprintf(name, sizeof(name), "%s%s", bars->who[who], bars->bar[bar].suffix);
    return values_of(bars->bar[bar].measure, name);
}

static bool has_cells(const struct bars *bars, size_t who)
{
    for (size_t b = 0; b < MOST_SHADES && bars->bar[b].measure; b++)
        if (cell(bars, who, b))
            return true;
    return false;
}

static size_t write_cells(FILE *to, const struct bars *bars)
{
    size_t there = 0;

    fputs("$cells << END\n", to);
    for (size_t w = 0; bars->who[w]; w++) {
        if (!has_cells(bars, w))
            continue;
        fprintf(to, "\"%s\"", bars->who[w]);
        for (size_t b = 0; b < MOST_SHADES && bars->bar[b].measure; b++) {
            const struct series *series = cell(bars, w, b);

            if (series) {
                struct spread spread = spread_of(series->values, series->count);

                fprintf(to, " %g %g %g", spread.median, spread.low, spread.high);
                there++;
            } else {
                fputs(" ? ? ?", to);
            }
        }
        fputc('\n', to);
    }
    fputs("END\n", to);
    return there;
}

static void plot_bars(const struct bars *bars, const char *folder, const struct machine *machine)
{
    char path[400];
    FILE *gnuplot;
    size_t there;

    snprintf(path, sizeof(path), "%s/%s.svg", folder, bars->file);
    gnuplot = begin(path, bars->title, bars->unit, machine);
    there = write_cells(gnuplot, bars);
    fputs("set style data histogram\nset style histogram errorbars gap 2 lw 1\n"
          "set style fill solid 0.85\nset key below\nset logscale y\n",
          gnuplot);
    for (size_t b = 0; there && b < MOST_SHADES && bars->bar[b].measure; b++)
        fprintf(gnuplot, "%s using %zu:%zu:%zu:xtic(1) title '%s' lc rgb '%s'",
                b ? ", ''" : "plot $cells", 3 * b + 2, 3 * b + 3, 3 * b + 4, bars->bar[b].name,
                colours[b % COLOURS]);
    fputc('\n', gnuplot);
    if (there)
        end(gnuplot, path, bars->title);
    else
        pclose(gnuplot);
}

/* ---- hits over the number of regions ------------------------------------------------------ */

static const char *const lines[] = {
    WHO_NOTICE, WHO_IMPORT, WHO_USERFAULT, WHO_UCX, "libfabric tcp, no cache", WHO_DEFAULT};
#define LINES (sizeof(lines) / sizeof(lines[0]))

static const struct series *hits_of(size_t regions, const char *who)
{
    char measure[40];

    snprintf(measure, sizeof(measure), "hits-%zu", regions);
    return values_of(measure, who);
}

static size_t write_line(FILE *to, size_t number)
{
    size_t points = 0;

    fprintf(to, "$line%zu << END\n", number);
    for (size_t regions = 1; regions <= plan.most_regions; regions *= 10) {
        const struct series *series = hits_of(regions, lines[number]);
        struct spread spread;

        if (!series)
            continue;
        spread = spread_of(series->values, series->count);
        fprintf(to, "%zu %g %g %g\n", regions, spread.median, spread.low, spread.high);
        points++;
    }
    fputs("END\n", to);
    return points;
}

static void plot_hits(const char *folder, const struct machine *machine)
{
    static const char title[] = "get + put of cached regions of 4 KiB in random order, 1 thread";
    const struct series *call = hits_of(1, "bare getpid");
    size_t points[LINES], there = 0;
    char path[400];
    FILE *gnuplot;

    snprintf(path, sizeof(path), "%s/hits.svg", folder);
    gnuplot = begin(path, title, "ns per get + put", machine);
    for (size_t i = 0; i < LINES; i++)
        points[i] = write_line(gnuplot, i);
    fputs("set logscale xy\nset xlabel 'cached regions'\nset format x '10^{%T}'\n"
          "set xrange [0.7:1.5*10**6]\nset key below\n",
          gnuplot);
    for (size_t i = 0; i < LINES; i++)
        if (points[i])
            fprintf(gnuplot,
                    "%s$line%zu using 1:2:3:4 with yerrorlines lw 2 pt 7 ps 0.5 "
                    "lc rgb '%s' title '%s'",
                    there++ ? ", " : "plot ", i, colours[i % COLOURS], lines[i]);
    if (there && call)
        fprintf(gnuplot,
                ", %g with lines dt 2 lw 1.5 lc rgb '#8b949e' title 'a system call (getpid)'",
                spread_of(call->values, call->count).median);
    fputc('\n', gnuplot);
    if (there)
        end(gnuplot, path, title);
    else
        pclose(gnuplot);
}

void report_plots(const char *folder, const struct machine *machine)
{
    if (system("command -v gnuplot >/dev/null 2>&1")) { /* NOLINT(cert-env33-c): the same */
        progress("plots: gnuplot is not installed: none are drawn");
        return;
    }
    plot_hits(folder, machine);
    for (size_t i = 0; i < sizeof(all_bars) / sizeof(all_bars[0]); i++)
        plot_bars(&all_bars[i], folder, machine);
}
