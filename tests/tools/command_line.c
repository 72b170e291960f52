/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The command line: accepted arguments, refused ones and the error texts. */
#include "tests/tools/tool.h"

#include <hmreg/hmreg.h>

/* The command refuses the argument: status 2, the argument and the accepted ones on stderr, nothing
 * on stdout. */
#define assert_refused(words, ...)                                                                 \
    do {                                                                                           \
        struct tool tool_ = tool_run(__VA_ARGS__);                                                 \
                                                                                                   \
        assert_int_equal(tool_.status, 2);                                                         \
        assert_says(tool_.err, words);                                                             \
        assert_says(tool_.err, "Try: hmreg help");                                                 \
        assert_string_equal(tool_.out, "");                                                        \
    } while (0)

static void assert_same_text(const char *const *one, const char *const *other)
{
    struct tool first = tool_run_list(0, one), second = tool_run_list(0, other);

    assert_int_equal(first.status, 0);
    assert_int_equal(second.status, 0);
    assert_string_equal(first.out, second.out);
}

TEST(nothing__usage_on_stderr)
{
    struct tool tool = tool_run_list(0, (const char *const[]){NULL});

    assert_int_equal(tool.status, 2);
    assert_says(tool.err, "usage: hmreg COMMAND");
    assert_string_equal(tool.out, "");
}

TEST(help__lists_commands_and_statuses)
{
    struct tool tool = tool_run("--help");

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "  info ");
    assert_says(tool.out, "  doctor ");
    assert_says(tool.out, "  topo ");
    assert_says(tool.out, "  stats ");
    assert_says(tool.out, "exit status");
    assert_string_equal(tool.err, "");
    assert_true(longest_line(tool.out) <= 80);
}

TEST(help__by_any_name__same)
{
    const char *const dashes[] = {"--help", NULL}, *const brief[] = {"-h", NULL};
    const char *const word[] = {"help", NULL}, *const twice[] = {"help", "help", NULL};

    assert_same_text(word, dashes);
    assert_same_text(word, brief);
    assert_same_text(word, twice);
}

TEST(help_of_a_command__options_examples_and_statuses)
{
    struct tool all = tool_run("help");
    char name[16];
    int commands = 0;

    for (const char *at = strstr(all.out, "\ncommands\n") + strlen("\ncommands\n");
         sscanf(at, "  %15[a-z] ", name) == 1; at = strchr(at, '\n') + 1) {
        struct tool tool;

        if (!strcmp(name, "help"))
            continue;
        commands++;
        tool = tool_run("help", name);

        assert_int_equal(tool.status, 0);
        assert_says(tool.out, "usage: hmreg ");
        assert_says(tool.out, "\noptions\n");
        assert_says(tool.out, "--json");
        assert_says(tool.out, "\nexamples\n");
        assert_says(tool.out, "\nexit status\n");
        if (longest_line(tool.out) > 80)
            fail_msg("a line of %zu columns in:\n%s", longest_line(tool.out), tool.out);
    }
    assert_true(commands >= 6);
}

/* 3 is doctor's alone, 125 that of run. */
TEST(help__names_every_exit_status)
{
    struct tool all = tool_run("help"), doctor = tool_run("help", "doctor");

    assert_says(all.out, "doctor's are its verdict, 3 if it has none");
    if (strstr(all.out, "\n  run "))
        assert_says(all.out, "run's are the program's, 125 if hmreg failed");
    assert_says(doctor.out, "  3  no verdict");
}

TEST(help_of_a_command__by_any_name__same)
{
    const char *const word[] = {"help", "plan", NULL};
    const char *const dashes[] = {"plan", "--help", NULL};
    const char *const brief[] = {"plan", "--json", "-h", NULL};

    assert_same_text(word, dashes);
    assert_same_text(word, brief);
}

TEST(version__is_the_librarys)
{
    static const char *const spellings[] = {"--version", "-V", "version"};
    char expected[64];

    snprintf(expected, sizeof(expected), "hmreg %s\n", hmreg_version());
    for (int i = 0; i < 3; i++) {
        struct tool tool = tool_run(spellings[i]);

        assert_int_equal(tool.status, 0);
        assert_string_equal(tool.out, expected);
    }
}

TEST(unknown_command__names_those_there_are)
{
    assert_refused("fly: no such command; accepted are info, plan, doctor, topo, stats, verify, ",
                   "fly");
    assert_refused("fly: no such command; accepted are info, plan, doctor, topo, stats, verify, ",
                   "help", "fly");
    assert_refused("--fly: no such command", "--fly");
}

TEST(mistyped_word__nearest_named)
{
    assert_refused("Did you mean info?\n", "inof");
    assert_refused("Did you mean doctor?\n", "help", "docter");
    assert_refused("Did you mean help?\n", "hepl");
    assert_refused("Did you mean --json?\n", "info", "--jsn");
    assert_refused("Did you mean --iface?\n", "plan", "--ifaces=cuda");
    assert_refused("-json: no such option; accepted are --fabric, --json, --help\n"
                   "Did you mean --json?\n",
                   "info", "-json");
}

TEST(word_far_from_all__none_named)
{
    static const char *const words[] = {"fly", "x", "", "a-word-longer-than-any-command-is"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct tool tool = tool_run(words[i]);

        assert_int_equal(tool.status, 2);
        assert_silent(tool.err, "Did you mean");
    }
}

TEST(unknown_option__names_those_there_are)
{
    assert_refused(
        "--fly: no such option; accepted are --fabric, --iface, --device, --json, --help", "plan",
        "--fly");
    assert_refused("-x: no such option; accepted are --fabric, --json, --help", "info", "-x");
    assert_refused("--iface=cuda: no such option", "info", "--iface=cuda");
}

TEST(option_without_its_value__says_so)
{
    assert_refused("--iface: needs a value", "plan", "--iface");
    assert_refused("-p: needs a value", "info", "-p");
    assert_refused("--fabric : a name in the columns", "plan", "-p", "");
}

TEST(option_with_a_value_too_many__says_so)
{
    assert_refused("--json=yes: takes no value", "info", "--json=yes");
    assert_refused("--help=me: takes no value", "info", "--help=me");
}

TEST(wrong_value__names_what_is_accepted)
{
    assert_refused("--iface opencl: accepted are system, cuda, rocr, ze", "plan", "--iface",
                   "opencl");
    assert_refused("--device -1: a device's index is accepted, from 0", "plan", "--device", "-1");
    assert_refused("--device 1x: a device's index", "plan", "--device", "1x");
    assert_refused("--device : a device's index", "plan", "--device", "");
}

TEST(wrong_process__names_what_is_accepted)
{
    static const char *const pids[] = {"", "0", "self", "12x", "+1", "2147483648", " 1"};

    for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++)
        assert_refused("the number of a process is accepted", "stats", pids[i]);
    assert_refused("--watch 0: whole seconds are accepted, from 1 to 86400", "stats", "--watch",
                   "0");
    assert_refused("--watch 1.5: whole seconds", "stats", "--watch=1.5");
}

TEST(argument_too_many__says_so)
{
    assert_refused("cuda: unexpected argument", "info", "cuda");
    assert_refused("cuda: unexpected argument", "topo", "--json", "cuda");
    assert_refused("2: unexpected argument; one is accepted", "stats", "1", "2");
    assert_refused("plan: unexpected argument", "help", "info", "plan");
}

TEST(wrong_environment__fails_and_names_it)
{
    struct tool tool;

    test_setenv("HMREG_IFACES", "system,opencl");
    tool = tool_run("info");
    assert_int_equal(tool.status, 1);
    assert_says(tool.err,
                "HMREG_IFACES=system,opencl: opencl is not one of system, cuda, rocr, ze");
    assert_string_equal(tool.out, "");
}

TEST(full_disk__fails)
{
    char command[4096];
    int status;

    snprintf(command, sizeof(command), "'%s' info --json >/dev/full 2>&1", getenv("HMREG_TOOL"));
    status = system(command);
    assert_int_equal(status, 1 << 8);
}

TEST_MAIN()
