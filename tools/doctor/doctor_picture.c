/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The picture of `hmreg doctor --picture`: devices and NICs below their bridges and host bridges,
 * and for each pair an edge that says which path its bytes take, or by which refusal it has none.
 * It is written in Graphviz's language; Graphviz's dot(1), where it is installed, draws it.
 *
 * The colours are from Okabe and Ito's palette, which the colour-blind can tell apart; a broken
 * edge is also dashed and labelled.
 */
#include "tools/doctor/doctor_picture.h"

#include "tools/child.h"
#include "tools/document.h"
#include "tools/foreign.h"
#include "tools/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WRAP      90
#define GPU_SHAPE "shape=box fillcolor=\"" GPU_COLOUR "\""
#define NIC_SHAPE "shape=component fillcolor=\"" NIC_COLOUR "\"" /* a card with its connectors */

#define GPU_COLOUR    "#fdf3c4"
#define NIC_COLOUR    "#cfe4f3"
#define PATH_COLOUR   "#0072b2"
#define BROKEN_COLOUR "#d55e00"
#define PCI_COLOUR    "#6e7781"

/* ---- Graphviz's language ---------------------------------------------------------------- */

/* A quoted string: the text may be a driver's. */
static void quote(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (strchr("\"\\", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void name_node(FILE *out, const char *kind, const char *name)
{
    char words[160];

    snprintf(words, sizeof(words), "%s %s", kind, name);
    quote(out, words);
}

/* ---- the PCI tree ----------------------------------------------------------------------- */

static const char *root_of(const json_t *member)
{
    return doc_has(member, "root") ? doc_words(member, "root") : "";
}

static void draw_member(FILE *out, const json_t *member)
{
    bool nic = doc_equals(member, "kind", "nic");
    char words[160];

    fputs("    ", out);
    name_node(out, "member", doc_words(member, "name"));
    fprintf(out, " [style=filled %s label=", nic ? NIC_SHAPE : GPU_SHAPE);
    snprintf(words, sizeof(words), "%s\n%.64s%s\n%.32s", nic ? "NIC" : "GPU",
             doc_words(member, "name"), doc_is(member, "simulated") ? ", simulated" : "",
             doc_has(member, "pci") ? doc_words(member, "pci") : "no PCI address");
    quote(out, words);
    fputs("]\n", out);
}

/* The bridges above a member, and the lines between them and to it. */
static void draw_place(FILE *out, const json_t *bridges, const json_t *member, json_t *drawn)
{
    const char *above = root_of(member);
    const json_t *bridge;
    bool first = true;

    doc_each(bridge, json_object_get(member, "bridges")) {
        const char *pci = json_string_value(bridge);
        bool redirects = doc_is(json_object_get(bridges, pci), "acs_redirect");

        if (!json_object_get(drawn, pci)) {
            doc_set(drawn, pci, json_true());
            fputs("    ", out);
            name_node(out, "bridge", pci);
            fputs(" [shape=ellipse label=", out);
            quote(out, pci);
            fprintf(out, "%s]\n",
                    redirects ? " xlabel=\"ACS: sends up\" color=\"" BROKEN_COLOUR "\"" : "");
            fputs("    ", out);
            name_node(out, first ? "root" : "bridge", above);
            fputs(" -> ", out);
            name_node(out, "bridge", pci);
            fputs(" [dir=none color=\"" PCI_COLOUR "\"]\n", out);
        }
        above = pci;
        first = false;
    }
    fputs("    ", out);
    name_node(out, first ? "root" : "bridge", above);
    fputs(" -> ", out);
    name_node(out, "member", doc_words(member, "name"));
    fputs(" [dir=none color=\"" PCI_COLOUR "\"]\n", out);
}

static void label_root(FILE *out, const json_t *member)
{
    char words[160];

    if (!root_of(member)[0])
        snprintf(words, sizeof(words), "no place in the PCI tree");
    else if (doc_has(member, "numa_node"))
        snprintf(words, sizeof(words), "%.64s, NUMA node %d", root_of(member),
                 (int)doc_number(member, "numa_node"));
    else
        snprintf(words, sizeof(words), "%.64s", root_of(member));
    quote(out, words);
}

/* A box for each host bridge, with all that is below it. */
static void draw_tree(FILE *out, const json_t *topology)
{
    const json_t *members = json_object_get(topology, "members"), *one, *other;
    json_t *roots = doc_object(), *drawn = doc_object();

    doc_each(one, members) {
        const char *root = root_of(one)[0] ? root_of(one) : "none";

        if (json_object_get(roots, root))
            continue;
        doc_set(roots, root, json_true());
        fprintf(out, "  subgraph cluster_%zu {\n    color=\"#8c959f\" label=", one_i);
        label_root(out, one);
        fputs("\n    ", out);
        name_node(out, "root", root_of(one));
        fputs(root_of(one)[0] ? " [shape=octagon label=\"CPU, host bridge\"]\n"
                              : " [shape=point style=invis]\n",
              out);
        doc_each(other, members)
            if (!strcmp(root_of(one), root_of(other))) {
                draw_member(out, other);
                draw_place(out, json_object_get(topology, "bridges"), other, drawn);
            }
        fputs("  }\n", out);
    }
    json_decref(roots);
    json_decref(drawn);
}

/* ---- paths ------------------------------------------------------------------------------ */

static const char *result_of(const json_t *pair)
{
    return doc_words(json_object_get(pair, "proof"), "result");
}

/* Why the pair moves no bytes; empty: it moves them. */
static void describe_break(const json_t *pair, char words[256])
{
    const char *result = result_of(pair);
    const json_t *reason;
    size_t used = 0;

    words[0] = '\0';
    if (doc_equals(pair, "path", "none")) {
        used = (size_t)snprintf(words, 256, "no path");
        doc_each(reason, json_object_get(pair, "refused"))
            if (!doc_equals(reason, "path", "mapped") && used < 160)
                used += (size_t)snprintf(words + used, 256 - used, "; %.16s: %.48s",
                                         doc_words(reason, "path"), doc_words(reason, "slug"));
    } else if (!strcmp(result, "failed") || !strcmp(result, "wrong-bytes")) {
        snprintf(words, 256, "%.16s: %s", doc_words(pair, "path"),
                 strcmp(result, "failed") ? "a transfer yields wrong bytes" : "a transfer fails");
    }
}

/* The number of these words in the list of broken pairs below the picture. */
static size_t note_of(json_t *notes, const char *words)
{
    json_t *note = doc_text(words);
    size_t i = 0;

    while (i < json_array_size(notes) && !json_equal(json_array_get(notes, i), note))
        i++;
    if (i == json_array_size(notes))
        doc_add(notes, json_incref(note));
    json_decref(note);
    return i + 1;
}

/* The label of an edge: edges cross and run in parallel. */
static void name_pair(const json_t *pair, const char *broken, json_t *notes, char words[192])
{
    int used =
        snprintf(words, 192, "%.64s to %.64s: ", doc_words(pair, "device"), doc_words(pair, "nic"));

    if (broken[0])
        snprintf(words + used, 192 - (size_t)used, "BROKEN [%zu]", note_of(notes, broken));
    else
        snprintf(words + used, 192 - (size_t)used, "%.16s, %sproven", doc_words(pair, "path"),
                 strcmp(result_of(pair), "proven") ? "not " : "");
}

static void draw_pair(FILE *out, const json_t *pair, json_t *notes)
{
    bool proven = !strcmp(result_of(pair), "proven");
    char broken[256], words[192];

    describe_break(pair, broken);
    name_pair(pair, broken, notes, words);
    fputs("  ", out);
    name_node(out, "member", doc_words(pair, "device"));
    fputs(" -> ", out);
    name_node(out, "member", doc_words(pair, "nic"));
    fprintf(out, " [constraint=false dir=both penwidth=2 color=\"%s\" fontcolor=\"%s\" %s label=",
            broken[0] ? BROKEN_COLOUR : PATH_COLOUR, broken[0] ? "#a33d00" : "#005a8c",
            broken[0] ? "style=dashed arrowhead=tee arrowtail=tee"
            : proven  ? "style=solid"
                      : "style=dotted");
    quote(out, words);
    fputs("]\n", out);
}

static void draw_pairs(FILE *out, const json_t *pairs)
{
    json_t *notes = doc_array(), *note;
    const json_t *pair;
    size_t i;

    doc_each(pair, pairs)
        draw_pair(out, pair, notes);
    if (json_array_size(notes))
        fputs("  notes [shape=note color=\"" BROKEN_COLOUR "\" label=\"", out);
    json_array_foreach(notes, i, note)
        fprintf(out, "[%zu] %s\\l", i + 1, json_string_value(note));
    if (json_array_size(notes))
        fputs("hmreg doctor --explain CODE says what to do\\l\"]\n", out);
    json_decref(notes);
}

/* ---- the picture ------------------------------------------------------------------------ */

/* The verdict above the picture, in lines. */
static void draw_title(FILE *out, const json_t *document)
{
    const json_t *kernel = json_object_get(json_object_get(document, "facts"), "kernel");
    char words[1200], *space = words;

    snprintf(words, sizeof(words), "%.900s", doc_words(document, "summary"));
    while (strlen(space) > WRAP) {
        char *at = space + WRAP;

        while (at > space && *at != ' ')
            at--;
        if (at == space)
            break;
        *at = '\n';
        space = at + 1;
    }
    snprintf(words + strlen(words), sizeof(words) - strlen(words),
             "\nhmreg doctor %.32s on Linux %.64s", doc_words(document, "hmreg"),
             doc_words(kernel, "release"));
    fputs("  label=", out);
    quote(out, words);
    fputc('\n', out);
}

static void draw_legend(FILE *out)
{
    static const struct {
        const char *sample, *colour, *behind, *words;
    } rows[] = {
        {"GPU", "black", GPU_COLOUR, "a device"},
        {"NIC", "black", NIC_COLOUR, "an RDMA device"},
        {"0000:01:00.0", "black", "white", "a PCI bridge"},
        {"────", PCI_COLOUR, "white", "PCI Express"},
        {"━━━━", PATH_COLOUR, "white", "the path of a pair, proven by a transfer"},
        {"┈┈┈┈", PATH_COLOUR, "white", "the path of a pair, not proven"},
        {"╌╌╌╌", BROKEN_COLOUR, "white", "no path, or a transfer failed: [1] has the reason"},
    };

    fputs("  legend [shape=plain label=<<table border=\"0\" cellborder=\"1\" cellspacing=\"0\">\n"
          "    <tr><td colspan=\"2\">Legend</td></tr>\n",
          out);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        fprintf(out,
                "    <tr><td bgcolor=\"%s\"><font color=\"%s\">%s</font></td>"
                "<td align=\"left\">%s</td></tr>\n",
                rows[i].behind, rows[i].colour, rows[i].sample, rows[i].words);
    fputs("  </table>>]\n", out);
}

static void draw(FILE *out, const json_t *document)
{
    const json_t *facts = json_object_get(document, "facts");

    fputs("digraph machine {\n"
          "  graph [bgcolor=white fontname=\"sans-serif\" labelloc=t forcelabels=true "
          "nodesep=0.9 ranksep=0.6]\n"
          "  node [fontname=\"sans-serif\" fontsize=12 margin=0.12]\n"
          "  edge [fontname=\"sans-serif\" fontsize=10]\n",
          out);
    draw_title(out, document);
    draw_tree(out, json_object_get(facts, "topology"));
    draw_pairs(out, json_object_get(facts, "pairs"));
    draw_legend(out);
    fputs("}\n", out);
}

/* ---- the file --------------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *ending)
{
    size_t length = strlen(name), end = strlen(ending);

    return length > end && !strcmp(name + length - end, ending);
}

bool picture_is_name(const char *name)
{
    return ends_in(name, ".svg") || ends_in(name, ".dot");
}

static bool refuse(const char *name, const char *why)
{
    print_error("hmreg doctor: --picture %s: %s", name, why);
    return false;
}

static bool has_dot(void)
{
    char dot[] = "dot", version[] = "-V";
    char *argv[] = {dot, version, NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int status = child_run(argv, null, null, null);

    close(null);
    return status == 0;
}

bool picture_try(const char *name)
{
    const char *refusal;

    if (!ends_in(name, ".dot") && !has_dot())
        return refuse(name, "Graphviz' dot is missing: install graphviz, or name a file that ends "
                            "in .dot and draw it elsewhere: dot -Tsvg FILE.dot >FILE.svg");
    if (output_try(name))
        return true;
    refusal = output_refusal(errno);
    return refuse(name, refusal ? refusal : strerror(errno));
}

/* Runs dot on the file's content and closes the file. dot's stderr is dropped: it warns about the
 * layout. NULL: it failed. */
static FILE *run_dot(FILE *in)
{
    char dot[] = "dot", svg[] = "-Tsvg";
    char *argv[] = {dot, svg, NULL};
    FILE *out = output_begin();
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool good = out && !fflush(in) && lseek(fileno(in), 0, SEEK_SET) == 0 &&
                child_run(argv, fileno(in), fileno(out), null) == 0;

    close(null);
    fclose(in);
    if (!good && out)
        fclose(out);
    return good ? out : NULL;
}

bool picture_write(const char *name, const json_t *document)
{
    bool by_dot = !ends_in(name, ".dot");
    FILE *file = output_begin();

    if (file)
        draw(file, document);
    if (file && by_dot)
        file = run_dot(file);
    return output_end(file, name) ||
           refuse(name, by_dot ? "dot failed, or the file cannot be written; use a file name that "
                                 "ends in .dot to keep dot's input"
                               : "the file cannot be written");
}
