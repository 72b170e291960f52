/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Parses a command's line with getopt_long(3), prints its help from the same list of options, and
 * runs it.
 * getopt's own messages are off: ours say what is accepted.
 */
#include "tools/command.h"

#include "tools/document.h"
#include "tools/foreign.h"
#include "tools/nearest.h"
#include "tools/signals.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS  15
#define FIRST_OPTION 256 /* getopt's value for options[0]; above every character */
#define HELP         'h'

static int refuse_near(const struct command *command, const char *argument, const char *why,
                       const char *meant)
{
    print_error("hmreg %s: %s: %s", command->name, argument, why);
    if (meant)
        print_error("Did you mean --%s?", meant);
    print_error("Try: hmreg help %s", command->name);
    return command->error_status ? command->error_status : EXIT_USAGE;
}

static int refuse(const struct command *command, const char *argument, const char *why)
{
    return refuse_near(command, argument, why, NULL);
}

static int wants(const struct option_def *option)
{
    if (!option->argument)
        return no_argument;
    return option->argument[0] == '[' ? optional_argument : required_argument;
}

/* The one option with a short form has fi_info(1)'s. 0: this one has none. */
static char letter_of(const struct option_def *option)
{
    return strcmp(option->name, "fabric") ? '\0' : 'p';
}

/* Fills getopt's lists with the command's options and --help. */
static void list_options(const struct command *command, struct option *list, char *letters)
{
    int count = 0;

    letters += sprintf(letters, command->rest ? "+:h" : ":h");
    for (; command->options[count].name && count < MAX_OPTIONS; count++) {
        if (letter_of(&command->options[count]))
            letters += sprintf(letters, "%c:", letter_of(&command->options[count]));
        list[count] = (struct option){command->options[count].name, wants(&command->options[count]),
                                      NULL, FIRST_OPTION + count};
    }
    list[count] = (struct option){"help", no_argument, NULL, HELP};
    list[count + 1] = (struct option){0};
}

static int refuse_unknown(const struct command *command, const char *argument)
{
    const char *typed = argument + strspn(argument, "-");
    struct nearest meant = {.typed = typed, .length = strcspn(typed, "=")};
    char accepted[512] = "no such option; accepted are";
    size_t used = 28;

    for (const struct option_def *option = command->options; option->name; option++) {
        used += (size_t)snprintf(accepted + used, sizeof(accepted) - used, " --%s,", option->name);
        nearest_try(&meant, option->name);
    }
    nearest_try(&meant, "help");
    snprintf(accepted + used, sizeof(accepted) - used, " --help");
    return refuse_near(command, argument, accepted, meant.found);
}

static const char *store(const struct option_def *option, const char *value, void *options)
{
    void *field = (char *)options + option->field;
    long number;

    if (!option->accepted) {
        *(bool *)field = true;
        return NULL;
    }
    if (!option->most) {
        *(const char **)field = value;
        return value[0] ? NULL : option->accepted;
    }
    if (!options_number(value, option->least, option->most, &number))
        return option->accepted;
    *(int *)field = (int)number;
    return NULL;
}

/* got: getopt's value: the option's place in the list, or its letter. */
static int take_option(const struct command *command, int got, void *options)
{
    const struct option_def *option = command->options;
    const char *accepted;
    char named[256];

    while (got != FIRST_OPTION + (int)(option - command->options) && got != letter_of(option))
        option++;
    accepted = option->take ? option->take(optarg, options) : store(option, optarg, options);

    if (!accepted)
        return EXIT_CONTINUE;
    snprintf(named, sizeof(named), "--%s %s", option->name, optarg ? optarg : "");
    return refuse(command, named, accepted);
}

/* getopt has passed the word of an unknown option, but a word of letters only with its last. */
static const char *unknown_word(char **argv)
{
    const char *passed = argv[optind - 1];

    if (!optopt || (passed[0] == '-' && passed[1] != '-' && strchr(passed, '\0')[-1] == optopt))
        return passed;
    return argv[optind];
}

static int parse_one(const struct command *command, int got, char **argv, void *options)
{
    switch (got) {
    case HELP:
        command_help(command);
        return EXIT_GOOD;
    case ':':
        return refuse(command, argv[optind - 1], "needs a value");
    case '?':
        if (optopt >= FIRST_OPTION || (optopt == HELP && argv[optind - 1][1] == '-'))
            return refuse(command, argv[optind - 1], "takes no value");
        return refuse_unknown(command, unknown_word(argv));
    default:
        return take_option(command, got, options);
    }
}

/* Positional arguments: at most one, or any number, and only if the command takes any. */
static int parse_operands(const struct command *command, int argc, char **argv, void *options)
{
    const char *accepted;

    for (int taken = 0; optind < argc && command->operand && (!taken || command->operands);
         taken++, optind++) {
        accepted = command->take_operand(argv[optind], options);
        if (accepted)
            return refuse(command, argv[optind], accepted);
    }
    if (optind < argc)
        return refuse(command, argv[optind],
                      command->operand ? "unexpected argument; one is accepted"
                                       : "unexpected argument; only options are accepted");
    return EXIT_CONTINUE;
}

int options_parse(const struct command *command, int argc, char **argv, void *options)
{
    struct option list[MAX_OPTIONS + 2];
    char letters[8];
    int got, status;

    list_options(command, list, letters);
    opterr = 0;
    optind = 1;
    while ((got = getopt_long(argc, argv, letters, list, NULL)) != -1) {
        status = parse_one(command, got, argv, options);
        if (status != EXIT_CONTINUE)
            return status;
    }
    return parse_operands(command, argc, argv, options);
}

bool options_number(const char *value, long least, long most, long *out)
{
    char *end;

    *out = strtol(value, &end, 10);
    return value[0] >= '0' && value[0] <= '9' && !*end && *out >= least && *out <= most;
}

bool options_size(const char *value, uint64_t least, uint64_t most, uint64_t *out)
{
    static const char units[] = "KMGTP";
    char *end;
    unsigned long long size;
    const char *unit;
    int shift;

    errno = 0;
    size = strtoull(value, &end, 10);
    unit = *end ? strchr(units, *end) : NULL;
    shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (errno || value[0] < '0' || value[0] > '9' || (*end && (!unit || end[1])) ||
        size > most >> shift || size << shift < least)
        return false;
    *out = size << shift;
    return true;
}

bool options_iface(const char *value, int *out)
{
    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++) {
        if (strcmp(value, hmreg_iface_name((enum hmreg_iface)iface)))
            continue;
        *out = iface;
        return true;
    }
    return false;
}

int command_show(const struct command *command, const void *options)
{
    struct hmreg *lib;
    json_t *document;
    int status;

    if (signals_after(hmreg_open(NULL, &lib))) {
        print_error("hmreg %s: %s", command->name, hmreg_last_error()->text);
        return command->error_status ? command->error_status : EXIT_FAILED;
    }
    document = command->describe(lib, options);
    if (hmreg_close(lib) && json_object_get(document, "failures"))
        doc_add(json_object_get(document, "failures"), doc_text(hmreg_last_error()->text));
    if (*(const bool *)options)
        doc_print_json(document);
    else
        command->print(document);
    status = command->status ? command->status(document) : EXIT_GOOD;
    json_decref(document);
    return status;
}

int command_failures(const json_t *document)
{
    return json_array_size(json_object_get(document, "failures")) ? EXIT_FAILED : EXIT_GOOD;
}

int command_run(const struct command *command, int argc, char **argv)
{
    bool json = false;
    int status = options_parse(command, argc, argv, &json);

    return status == EXIT_CONTINUE ? command_show(command, &json) : status;
}

static void print_usage(const struct command *command)
{
    printf("usage: hmreg %s", command->name);
    if (command->rest)
        printf(" [OPTION]... [--] %s [ARGUMENT]...\n\n", command->operand);
    else if (command->operand)
        printf(" [%s] [OPTION]...\n\n", command->operand);
    else
        printf(" [OPTION]...\n\n");
}

/* "-p, --fabric NAME"; returns how long it is. */
static int option_words(const struct option_def *option, char words[64])
{
    char brief[] = {'-', letter_of(option), ',', ' ', '\0'};

    return snprintf(words, 64, "%s--%s%s%s", letter_of(option) ? brief : "", option->name,
                    wants(option) == required_argument ? " " : "",
                    option->argument ? option->argument : "");
}

void command_help(const struct command *command)
{
    int width = 16;
    char named[64];

    for (const struct option_def *option = command->options; option->name; option++)
        width = option_words(option, named) > width ? option_words(option, named) : width;
    print_usage(command);
    printf("%s\noptions\n", command->description);
    for (const struct option_def *option = command->options; option->name; option++) {
        option_words(option, named);
        printf("  %-*s %s\n", width, named, option->help);
    }
    printf("  %-*s %s\n\nexamples\n%s\n", width, "-h, --help", "this text", command->examples);
    if (command->statuses) {
        printf("exit status\n%s", command->statuses);
        return;
    }
    printf("exit status\n"
           "  0  good\n"
           "  1  %s\n"
           "  2  the command line is wrong\n",
           command->failed);
}
