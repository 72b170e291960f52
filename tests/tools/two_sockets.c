/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg doctor, topo and plan on the simulated machine of the documents: two CUDA
 * devices and eight NICs (MACHINE is the script that makes its files).
 */
#include "tests/tools/tool.h"

#include <sys/stat.h>

static char folder[64], picture[96];

static void end(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void begin(const char *file)
{
    char command[512];

    strcpy(folder, "/tmp/hmreg-picture-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(picture, sizeof(picture), "%s/%s", folder, file);
    snprintf(command, sizeof(command), "%s %s/machine", getenv("MACHINE"), folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof(command), "%s/machine", folder);
    test_setenv("HMREG_DOCTOR_ROOT", command);
    test_setenv("HMREG_FAKE_NICS", "mlx5_0,mlx5_4");
    test_setenv("HMREG_FAKE_NIC", "late");
    test_after(end);
}

/* Where the doctor's own libc cannot be hooked, as in a sanitized build, it says so. */
static void check_status(const struct tool *tool, int status)
{
    bool unhooked = strstr(tool->out, "memhooks-impossible");

    assert_int_equal(tool->status, status || !unhooked ? status : 1);
}

static void draw(int status)
{
    struct tool tool;

    tool_preload_nic(true);
    tool = tool_run("doctor", "--picture", picture);
    tool_preload_nic(false);
    assert_string_equal(tool.err, "");
    check_status(&tool, status);
}

static const char *drawn(void)
{
    static char text[1 << 16];
    FILE *file = fopen(picture, "r");

    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Graphviz's text: the tree, and what is broken, with the reason. */
TEST(picture__as_text__places_paths_and_what_is_broken)
{
    begin("machine.dot");
    draw(0);
    assert_says(drawn(), "label=\"pci0000:00, NUMA node 0\"");
    assert_says(drawn(), "\"bridge 0000:03:01.0\" -> \"member mlx5_0\"");
    assert_says(drawn(), "\"member cuda 0\" -> \"member mlx5_0\" [constraint=false");
    assert_says(drawn(), "label=\"cuda 0 to mlx5_0: dmabuf, proven\"");
    assert_silent(drawn(), "BROKEN");
    assert_says(drawn(), "\"member mlx5_0\" [style=filled shape=component fillcolor=\"#cfe4f3\" "
                         "label=\"NIC\nmlx5_0\n0000:42:00.0\"]");
    assert_says(drawn(), "the path of a pair, proven by a transfer</td>");
    test_setenv("HMREG_FAKE_NIC", "no-dmabuf");
    draw(2);
    assert_says(drawn(), "style=dashed arrowhead=tee arrowtail=tee label="
                         "\"cuda 0 to mlx5_0: BROKEN [1]\"");
    assert_says(drawn(), "[1] no path; dmabuf: nic-imports-no-dmabuf; peermem: no-peer-memory\\l");
}

/* Checks that each text between the two marks in what was drawn is one of the document's picture.
 */
static void check_sample(const char *document, const char *before, char end)
{
    unsigned checked = 0;

    for (const char *at = drawn(); (at = strstr(at, before)); checked++) {
        char words[128];

        at += strlen(before);
        snprintf(words, sizeof(words), ">%.*s</text>", (int)(strchr(at, end) - at), at);
        assert_says(document, words);
    }
    assert_true(checked >= 2);
}

/* docs/doctor.md shows this machine. */
TEST(picture__of_the_document__is_what_is_drawn)
{
    static char document[1 << 16];
    FILE *file = fopen(getenv("SAMPLE"), "r");

    assert_non_null(file);
    document[fread(document, 1, sizeof(document) - 1, file)] = '\0';
    fclose(file);
    begin("machine.dot");
    test_setenv("HMREG_FAKE_NICS", "mlx5_0,mlx5_4:dead");
    draw(2); /* FI_PROVIDER names none that could move the bytes instead */
    check_sample(document, "fontcolor=\"#005a8c\" style=solid label=\"", '"');
    check_sample(document, "<td align=\"left\">", '<');
    assert_says(document, ">cuda 0 to mlx5_4: BROKEN [1]</text>");
}

/* dot from PATH draws; without it, the command says what to do, before the proofs. */
TEST(picture__drawn_by_graphviz_or_refused)
{
    char dot[96], *path;
    struct tool tool;
    FILE *script;

    if (TEST_ASAN || TEST_TSAN)
        test_skip("a shell cannot load the sanitized library that makes the NICs");
    path = strdup(getenv("PATH"));
    begin("machine.svg");
    snprintf(dot, sizeof(dot), "%s/dot", folder);
    setenv("PATH", folder, 1);
    tool = tool_run("doctor", "--picture", picture);
    assert_int_equal(tool.status, 3);
    assert_string_equal(tool.out, "");
    assert_says(tool.err,
                "Graphviz' dot is missing: install graphviz, or name a file that ends in");
    assert_int_equal(access(picture, F_OK), -1);
    script = fopen(dot, "w");
    assert_non_null(script);
    fputs("#!/bin/sh\nwhile read -r line; do echo \"drawn: $line\"; done\n", script);
    fclose(script);
    assert_int_equal(chmod(dot, 0700), 0);
    draw(0);
    assert_says(drawn(), "drawn: digraph machine {");
    tool = tool_run("doctor", "--no-proof", "--picture", "machine.png");
    assert_int_equal(tool.status, 3);
    assert_says(tool.err, "a file that ends in .svg or .dot is accepted");
    setenv("PATH", path, 1);
    free(path);
}

/* Which of eight NICs is the nearest to a GPU, and which CPUs are beside it. */
TEST(topo__eight_nics__nearest_first)
{
    struct tool tool;

    begin("none");
    tool = tool_run("topo");
    assert_int_equal(tool.status, 0);
    assert_int_equal(strncmp(tool.out, "The NICs nearest to each device", 31), 0);
    assert_says(tool.out, "cuda 0  0000:41:00.0  pci0000:00   0-31          0  ");
    assert_says(tool.out, "cuda 0  X       SYS     PIX     PXB     PHB     PHB     SYS ");
    assert_says(tool.out, "cuda 0  mlx5_0 PIX   mlx5_1 PXB   mlx5_2 PHB   mlx5_3 PHB ");
    assert_says(tool.out, "cuda 1  mlx5_4 PIX   mlx5_5 PXB   mlx5_6 PHB   mlx5_7 PHB ");
    assert_true(longest_line(tool.out) <= 100);
    tool = tool_run_on(30, "topo"); /* where the matrix does not fit: in parts */
    assert_says(tool.out, "          cuda 0  cuda 1\r\n  cuda 0  X       SYS");
    assert_says(tool.out, "          mlx5_0  mlx5_1\r\n  cuda 0  PIX     PXB");
}

/* On a terminal of 60 columns. */
TEST(doctor__more_nics_than_fit__table_in_parts)
{
    struct tool tool;

    begin("none");
    test_setenv("HMREG_FAKE_NICS", "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7");
    tool_preload_nic(true);
    tool = tool_run_on(60, "doctor", "--no-proof");
    tool_preload_nic(false);
    check_status(&tool, 0);
    assert_says(tool.out, "  device             mlx5_0    mlx5_1    mlx5_2    mlx5_3\r\n"
                          "  cuda 0, simulated  dmabuf ?  dmabuf ?  dmabuf ?  dmabuf ?\r\n");
    assert_says(tool.out, "\r\n\r\n  device             mlx5_4    mlx5_5");
}

TEST(plan__longer_than_the_device__says_so)
{
    struct tool tool = tool_run("plan", "--iface", "cuda", "-p", "loopback", "500G");

    assert_says(tool.out, "Memory: cuda 0, 16 GiB in all");
    assert_says(tool.out, "cuda 0 has 16 GiB, so no longer range is possible.");
}

TEST_MAIN()
