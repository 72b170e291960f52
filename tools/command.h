/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A command of the tool: a name, help texts, options and a function. --help, the checks of the
 * command line and the list of commands are made from these; a new command is one file and one line
 * in main.c.
 *
 * A command first builds a JSON document and then prints it, either as JSON (--json) or as tables,
 * so both always have the same content.
 */
#ifndef HMREG_TOOLS_COMMAND_H
#define HMREG_TOOLS_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct hmreg;

enum exit_status {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_ERROR = 3,     /* for commands with verdicts 1 and 2: every other failure */
    EXIT_CONTINUE = -1, /* of options_parse() only */
};

struct option_def {
    const char *name;     /* without dashes; NULL ends a list */
    const char *argument; /* the value's name in --help, such as "BYTES"; "[=WORD]": it may be left
                             out; NULL: no value */
    const char *help;
    /* Stores the value (NULL if none) in the command's options. Returns NULL, or for a wrong value
     * a text that names the accepted values. take NULL: the value is stored at offset `field` of
     * the options, by this rule: accepted NULL: true; most 0: text that is not empty; else an int
     * from least to most. */
    const char *(*take)(const char *value, void *options);
    size_t field;
    const char *accepted;
    long least, most;
};

#define OPTION(name, argument, help, take)                                                         \
    {                                                                                              \
        name, argument, help, take, 0, NULL, 0, 0                                                  \
    }
#define OPTION_FLAG(name, help, field)                                                             \
    {                                                                                              \
        name, NULL, help, NULL, field, NULL, 0, 0                                                  \
    }
#define OPTION_TEXT(name, argument, help, field, accepted)                                         \
    {                                                                                              \
        name, argument, help, NULL, field, accepted, 0, 0                                          \
    }
#define OPTION_NUMBER(name, argument, help, field, least, most, accepted)                          \
    {                                                                                              \
        name, argument, help, NULL, field, accepted, least, most                                   \
    }
#define OPTION_JSON(help) OPTION_FLAG("json", help, 0) /* the options begin with `bool json` */

struct command {
    const char *name;
    const char *summary;     /* for the list of commands */
    const char *description; /* lines for --help, like the other texts */
    const char *examples;
    const char *failed; /* what exit status 1 means */
    /* For a command with its own exit statuses: lines that explain them, and the status for a
     * wrong command line or output that could not be written; else NULL and 0. */
    const char *statuses;
    int error_status;
    /* The name in --help of the one positional argument, and the function that stores it (like an
     * option's take()); NULL: the command has none. */
    const char *operand;
    const char *(*take_operand)(const char *value, void *options);
    bool operands; /* several positional arguments are accepted, each stored by take_operand() */
    bool rest;     /* options end before the first positional argument */
    const struct option_def *options;
    int (*run)(const struct command *self, int argc, char **argv);
    /* For command_run() and command_show(): the document, its text, and the exit status that it
     * means (NULL: good). */
    json_t *(*describe)(struct hmreg *lib, const void *options);
    void (*print)(const json_t *document);
    int (*status)(const json_t *document);
};

extern const struct command command_doctor;
extern const struct command command_info;
extern const struct command command_plan;
extern const struct command command_run_program;
extern const struct command command_topo;
extern const struct command command_stats;
extern const struct command command_verify;

/* Parses a command line: calls each option's take(), prints --help. Returns EXIT_CONTINUE, or the
 * exit status after printing help or an error. */
int options_parse(const struct command *command, int argc, char **argv, void *options);

/* Parses a number from least to most. False: it is not one. */
bool options_number(const char *value, long least, long most, long *out);
/* Parses bytes, with K, M, G, T or P, from least to most. False: they are not. */
bool options_size(const char *value, uint64_t least, uint64_t most, uint64_t *out);
/* Parses the name of an iface. False: it is not one; print OPTIONS_IFACES. */
bool options_iface(const char *value, int *out);
#define OPTIONS_IFACES  "accepted are system, cuda, rocr, ze"
#define OPTIONS_DEVICES "a device's index is accepted, from 0"

/* Opens the library and prints the command's document. options begin with `bool json`. */
int command_show(const struct command *command, const void *options);
/* The status() of a command whose document lists `failures`. */
int command_failures(const json_t *document);
/* The run() of a command whose only option is --json. */
int command_run(const struct command *command, int argc, char **argv);

/* Prints the full help of a command to stdout. */
void command_help(const struct command *command);

#endif
