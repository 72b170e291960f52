/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Plots, drawn by gnuplot as SVG, then recoloured to follow the reader's light or dark page. They
 * show medians, with the middle half of the values as an error bar. On a logarithmic axis each
 * value is a point: a bar would have no zero to begin at. Series without values, and plots without
 * series, are omitted.
 */
#include "bench/bench.h"
#include "bench/report.h"
#include "bench/series.h"
#include "bench/subject.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Dark and light blue, dark and light orange, grey, teal: visible on white and on black, and apart
 * for the colour-blind. Each has its own shape of points too. */
static const char *const colours[] = {"#0077bb", "#33bbee", "#d95f0e",
                                      "#f5b17b", "#8b949e", "#009988"};
static const int shapes[] = {7, 5, 9, 13, 11, 15};

#define MOST_SHADES 4

/* A group for each contestant, with a point or a bar for each measure. */
struct bars {
    const char *file, *title, *unit;
    bool linear; /* from 0, as bars */
    const char *who[6];
    struct {
        const char *measure, *suffix, *name; /* the series of contestant who + suffix */
    } bar[MOST_SHADES];
};

static const struct bars all_bars[] = {
    {"threads",
     "get + put by two threads, beside two processes",
     "ns per get + put",
     false,
     {WHO_DEFAULT, WHO_IMPORT, WHO_NOTICE, WHO_USERFAULT, WHO_UCX},
     {{"threads-distinct-1000", ", 2 threads", "2 threads, 1,000 regions each"},
      {"threads-distinct-1000", ", 2 processes", "2 processes, 1,000 regions each"},
      {"threads-same-1", ", 2 threads", "2 threads, the same region"},
      {"threads-same-1", ", 2 processes", "2 processes, 1 region each"}}},
    {"misses",
     "A miss beyond what the provider costs, 10,000 regions",
     "ns per get + put",
     false,
     {WHO_DEFAULT, WHO_IMPORT, WHO_NOTICE, WHO_USERFAULT, WHO_UCX},
     {{"miss-first", "", "into a new cache"},
      {"miss-again", "", "into a flushed cache"},
      {"miss-evicting", "", "evicting one each"}}},
    {"stalls",
     "Hits while another thread registers, 200 us each",
     "ns per get + put, mean",
     false,
     {WHO_DEFAULT, WHO_IMPORT, WHO_NOTICE, WHO_USERFAULT, WHO_UCX},
     {{"stall-mean-idle", "", "the other thread sleeps"},
      {"stall-mean-spinning", "", "the other thread spins"},
      {"stall-mean-registering", "", "the other thread registers"}}},
    {"memory",
     "Memory of a cached region, index included",
     "bytes",
     true,
     {WHO_DEFAULT, WHO_IMPORT, WHO_USERFAULT, WHO_UCX},
     {{"footprint-100000", "", "100,000 regions"}, {"footprint-1000000", "", "1,000,000 regions"}}},
};

/* ---- gnuplot ---------------------------------------------------------------------------- */

static const struct series *values_of(const char *measure, const char *who)
{
    const struct series *found = series_find(measure, who);

    return found && found->count && !found->absent[0] ? found : NULL;
}

/* Prints a string for gnuplot. '_' is escaped, which would set the "64" of "x86_64" as a subscript;
 * a new line begins after ", " if `folded`. */
static void print_words(FILE *to, const char *words, bool folded)
{
    for (; *words; words++)
        if (*words == '_')
            fputs("\\\\_", to);
        else if (folded && *words == ' ' && words[-1] == ',')
            fputs("\\n", to);
        else
            fputc(*words, to);
}

static FILE *begin(const char *path, const char *title, const char *unit,
                   const struct machine *machine)
{
    FILE *gnuplot = popen("gnuplot", "w"); /* NOLINT(cert-env33-c): a developer's program */
    char words[400];

    if (!gnuplot)
        die("gnuplot cannot be started");
    machine_words(machine, words, sizeof(words));
    fprintf(gnuplot,
            "set terminal svg size 900,520 dynamic enhanced font 'sans-serif,13'\n"
            "set output '%s'\n"
            "set title \"{/*1.15 %s}\\n{/*0.85 ",
            path, title);
    print_words(gnuplot, words, false);
    fprintf(gnuplot,
            "}\\n{/*0.85 revision %s%s; medians of all turns, error bars: the middle half of "
            "them}\"\n"
            "set ylabel '%s'\n"
            "set key at screen 0.5,0.01 bottom center horizontal Left reverse noenhanced maxcols 3 "
            "width 2 samplen 2\n"
            "set bmargin 7\nset errorbars small\nset pointintervalbox 0.1\n"
            "set border 3\n"
            "set tics nomirror\n"
            "set grid ytics lc rgb 'gray' lw 0.5 dt 3\n",
            machine->revision, plan.quick ? " (a quick run: no figures)" : "", unit);
    return gnuplot;
}

/* A logarithmic axis ('x' or 'y') over these powers of ten, labelled as in texts: 1,000,000. */
static void set_log_axis(FILE *gnuplot, char axis, const int powers[2])
{
    static const char *const labels[] = {"0.01",      "0.1",        "1",          "10",
                                         "100",       "1,000",      "10,000",     "100,000",
                                         "1,000,000", "10,000,000", "100,000,000"};

    fprintf(gnuplot, "set logscale %c\nset %ctics (", axis, axis);
    for (int power = -2; power <= 8; power++)
        fprintf(gnuplot, "%s\"%s\" 1e%d", power > -2 ? ", " : "", labels[power + 2], power);
    fprintf(gnuplot, ")\nset %crange [0.99e%d:1e%d]\n", axis, powers[0], powers[1]);
}

/* ---- recolouring its output -------------------------------------------------------------- */

static const char style[] =
    "<style>\n"
    "  svg { background: #ffffff }\n"
    "  [fill='black'] { fill: #1b1f24 } [stroke='black'] { stroke: #1b1f24 }\n"
    "  [color='black'] { color: #1b1f24 } [color='white'] { color: #ffffff }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    svg { background: #0d1117 }\n"
    "    [fill='black'] { fill: #e6edf3 } [stroke='black'] { stroke: #e6edf3 }\n"
    "    [color='black'] { color: #e6edf3 } [color='white'] { color: #0d1117 }\n"
    "    .gridline { stroke: #484f58 }\n"
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

/* Prints 1234.5 as 1,234. */
static void write_number(FILE *to, double value)
{
    char text[20];
    size_t left = strcspn(number(text, sizeof(text), value), ".");

    for (const char *at = text; *at; at++, left--)
        fprintf(to, "%s%c", at > text && left < 20 && left && left % 3 == 0 ? "," : "", *at);
}

/* Writes the block of a measure: place, median, low, high, the median as text. Extends the powers
 * of ten that hold all values. */
static size_t write_cells(FILE *to, const struct bars *bars, size_t bar, double shift,
                          int powers[2])
{
    size_t there = 0, place = 0;

    fprintf(to, "$cells%zu << END\n", bar);
    for (size_t w = 0; bars->who[w]; w++) {
        const struct series *series = cell(bars, w, bar);

        if (series) {
            struct spread spread = spread_of(series->values, series->count);

            fprintf(to, "%g %g %g %g ", (double)place + shift, spread.median, spread.low,
                    spread.high);
            write_number(to, spread.median);
            fputc('\n', to);
            powers[0] = (int)fmin(powers[0], floor(log10(spread.low)));
            powers[1] = (int)fmax(powers[1], ceil(log10(spread.high)));
            there++;
        }
        place += has_cells(bars, w);
    }
    fputs("END\n", to);
    return there;
}

/* Returns the number of contestants that have values. */
static size_t name_contestants(FILE *to, const struct bars *bars)
{
    size_t place = 0;

    for (size_t w = 0; bars->who[w]; w++) {
        if (!has_cells(bars, w))
            continue;
        fprintf(to, "%s\"", place ? ", " : "set xtics (");
        print_words(to, bars->who[w], true);
        fprintf(to, "\" %zu", place++);
    }
    fprintf(to, "%s\nset xrange [-0.6:%g]\n", place ? ")" : "", (double)place - 0.4);
    return place;
}

static void draw_cells(FILE *to, const struct bars *bars, size_t bar, bool first)
{
    fprintf(to, "%s $cells%zu using ", first ? "plot" : ",", bar);
    if (bars->linear)
        fputs("1:2:3:4:(0.2) with boxerrorbars fill solid", to);
    else
        fprintf(to, "1:2:3:4 with yerrorbars lw 2 pt %d ps 0.8", shapes[bar]);
    fprintf(to,
            " lc rgb '%s' title '%s', $cells%zu using 1:4:5 with labels offset 0,0.7 "
            "font ',10' notitle",
            colours[bar], bars->bar[bar].name, bar);
}

static void plot_bars(const struct bars *bars, const char *folder, const struct machine *machine)
{
    size_t there[MOST_SHADES] = {0}, all = 0, drawn = 0;
    int powers[2] = {9, -9};
    char path[400];
    FILE *gnuplot;

    snprintf(path, sizeof(path), "%s/%s.svg", folder, bars->file);
    gnuplot = begin(path, bars->title, bars->unit, machine);
    while (all < MOST_SHADES && bars->bar[all].measure)
        all++;
    for (size_t b = 0; b < all; b++)
        there[b] =
            write_cells(gnuplot, bars, b, ((double)b - (double)(all - 1) / 2) * 0.22, powers);
    if (!name_contestants(gnuplot, bars)) {
        pclose(gnuplot);
        return;
    }
    fputs("set bmargin 5\n", gnuplot); /* no title of the axis */
    if (bars->linear)
        fputs("set yrange [0:*]\nset offsets 0, 0, graph 0.1, 0\n", gnuplot);
    else
        set_log_axis(gnuplot, 'y', powers);
    for (size_t b = 0; b < all; b++)
        if (there[b])
            draw_cells(gnuplot, bars, b, !drawn++);
    fputc('\n', gnuplot);
    end(gnuplot, path, bars->title);
}

/* ---- hits over the number of regions ------------------------------------------------------ */

/* notice and import are not drawn: their lines are the default's. */
static const char *const lines[] = {WHO_DEFAULT, WHO_USERFAULT, WHO_UCX, "libfabric tcp, no cache",
                                    WHO_EMPTY};
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
    set_log_axis(gnuplot, 'x', (const int[]){0, 6});
    set_log_axis(gnuplot, 'y', (const int[]){0, 4});
    fputs("set xlabel 'cached regions'\nset xrange [0.7:1.5e6]\nset yrange [1:*]\n", gnuplot);
    for (size_t i = 0; i < LINES; i++)
        if (points[i])
            fprintf(gnuplot,
                    "%s$line%zu using 1:2:3:4 with yerrorlines lw 2 pt %d ps 0.8 "
                    "lc rgb '%s' title '%s'",
                    there++ ? ", " : "plot ", i, shapes[i], colours[i], lines[i]);
    if (there && call)
        fprintf(gnuplot,
                ", %g with lines dt 2 lw 1.5 lc rgb '#009988' title 'a system call (getpid)'",
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
