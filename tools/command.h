/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a command of the tool is: a name, words that explain it, options, a function. From these
 * come its --help, the checks of its command line and its line in the list of commands; a new
 * command is one file and one line in main.c.
 *
 * A command collects a JSON document first and then prints it, as it is (--json) or as tables,
 * so that both always say the same.
 */
#ifndef HMREG_TOOLS_COMMAND_H
#define HMREG_TOOLS_COMMAND_H

#include <stdbool.h>

enum exit_status {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_TROUBLE = 3, /* of commands whose 1 and 2 are verdicts: all that is none */
    EXIT_GO_ON = -1,  /* of options_parse() only */
};

struct option_def {
    const char *name;     /* without dashes; NULL ends a list */
    const char *argument; /* what --help calls its value; NULL: it takes none */
    const char *help;
    /* Takes the value (NULL if none) into the command's options. NULL, or what is accepted. */
    const char *(*take)(const char *value, void *options);
};

struct command {
    const char *name;
    const char *summary;     /* for the list of commands */
    const char *description; /* lines for --help, as the other texts */
    const char *examples;
    const char *failed; /* what exit status 1 means */
    /* Of a command whose statuses are its own: what they mean, as lines, and the status for a
     * wrong command line or lost output; else NULL and 0. */
    const char *statuses;
    int trouble;
    /* What --help calls the one argument that is no option, and what takes it (as an option's
     * take()); NULL: there is none. */
    const char *operand;
    const char *(*take_operand)(const char *value, void *options);
    const struct option_def *options;
    int (*run)(const struct command *self, int argc, char **argv);
};

extern const struct command command_doctor;
extern const struct command command_info;
extern const struct command command_query;
extern const struct command command_topo;
extern const struct command command_stats;

/* Reads a command line: each option's take() is called; --help is answered. EXIT_GO_ON, or the
 * status to exit with, everything having been said. */
int options_parse(const struct command *command, int argc, char **argv, void *options);

/* The whole help of a command, to stdout. */
void command_help(const struct command *command);

#endif
