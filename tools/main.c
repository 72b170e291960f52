/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The command `hmreg`: shows, by trying, which memory can be registered with which fabric on this
 * machine. Finds the named subcommand and runs it.
 */
#include "tools/command.h"
#include "tools/foreign.h"
#include "tools/nearest.h"
#include "tools/signals.h"

#include <hmreg/hmreg.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
    &command_info,        &command_plan,  &command_doctor,
    &command_topo,        &command_stats, &command_verify,
#ifdef HMREG_TOOL_RUN
    &command_run_program,
#endif
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *out)
{
    fprintf(out, "usage: hmreg COMMAND [OPTION]...\n"
                 "       hmreg help COMMAND\n"
                 "       hmreg --version | -V | version\n"
                 "\n"
                 "Shows which memory (host, CUDA, ROCm, Level Zero) can be registered with which\n"
                 "RDMA fabric on this machine, and why the rest cannot.\n"
                 "\n"
                 "commands\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-7s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "  %-7s explain a command\n", "help");
    fprintf(out, "\n"
                 "Every command prints tables, or JSON with --json. Start with: hmreg doctor\n"
                 "The manual is in hmreg(1), the library's in hmreg(7).\n"
                 "\n"
                 "exit status\n"
                 "  0  good\n"
                 "  1  something failed\n"
                 "  2  the command line is wrong\n"
                 "doctor's are its verdict, 3 if it has none: hmreg help doctor\n"
#ifdef HMREG_TOOL_RUN
                 "run's are the program's, 125 if hmreg failed: hmreg help run\n"
#endif
    );
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i];
    return NULL;
}

static int no_command(const char *name)
{
    struct nearest meant = {.typed = name, .length = strlen(name)};
    char accepted[256] = "";

    for (size_t i = 0; i < COMMANDS; i++) {
        nearest_try(&meant, commands[i]->name);
        strcat(accepted, commands[i]->name);
        strcat(accepted, ", ");
    }
    print_error("hmreg: %s: no such command; accepted are %shelp", name, accepted);
    nearest_try(&meant, "help");
    if (meant.found)
        print_error("Did you mean %s?", meant.found);
    print_error("Try: hmreg help");
    return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
    const struct command *command;

    if (argc > 2) {
        print_error("hmreg help: %s: unexpected argument; one command is accepted", argv[2]);
        print_error("Try: hmreg help");
        return EXIT_USAGE;
    }
    if (argc < 2 || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return EXIT_GOOD;
    }
    command = find(argv[1]);
    if (!command)
        return no_command(argv[1]);
    command_help(command);
    return EXIT_GOOD;
}

static int run(int argc, char **argv)
{
    const struct command *command;

    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version")) {
        printf("hmreg %s\n", hmreg_version());
        return EXIT_GOOD;
    }
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return help(argc - 1, argv + 1);
    command = find(argv[1]);
    return command ? command->run(command, argc - 1, argv + 1) : no_command(argv[1]);
}

/* Output that could not be written completely is a failure, whatever the command returned. */
int main(int argc, char **argv)
{
    int status;

    signals_restore();
    setlocale(LC_CTYPE, "C.UTF-8"); /* all texts are UTF-8, whatever the user's locale */
    status = run(argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        const struct command *command = argc > 1 ? find(argv[1]) : NULL;

        perror("hmreg: standard output");
        return command && command->error_status ? command->error_status : EXIT_FAILED;
    }
    return status;
}
