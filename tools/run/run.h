/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The parts of `hmreg run`: examines and starts a program with the libraries of preload/, and
 * reports what their trace files say.
 */
#ifndef HMREG_TOOLS_RUN_RUN_H
#define HMREG_TOOLS_RUN_RUN_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

enum run_status { RUN_FAILED = 125, RUN_NOT_EXECUTABLE = 126, RUN_NOT_FOUND = 127 };

struct run_options {
    bool json;  /* first */
    bool watch; /* with trace */
    bool trace, gpu;
    bool audit;       /* --by */
    unsigned seconds; /* between reports while the program runs; 0: none */
    const char *output;
    const char *dir;
    const char *report;
    int words; /* of the program and its arguments */
};

/* The program's file, as execvp(3) finds it. Returns 0, RUN_NOT_FOUND or RUN_NOT_EXECUTABLE, with
 * the reason in why. */
int program_find(const char *name, char path[PATH_MAX], char why[512]);

/* May libraries be loaded into the program? A script's interpreter decides. False: why has the
 * reason and the remedy. */
bool program_takes_libraries(const char *path, char why[512]);

/* Sets the environment that the libraries and the program need. folder: for trace files. False: why
 * says what is missing. */
bool environment_set(const struct run_options *options, const char *folder, char why[512]);

/* Starts the program and waits for it; on_report() is called every options->seconds, and when this
 * process receives SIGRTMIN. Returns the exit status for this process; *killed: if a signal
 * ended the program, its status of waitpid(2); else 0. */
int program_run(char **words, const char *path, unsigned seconds, void (*on_report)(void *),
                void *context, int *killed);

/* The document about the trace files in a folder, or about one file. */
json_t *report_of(const char *path);
/* As report_of(), for an open folder; path: its name in the document. */
json_t *report_of_folder(int folder, const char *path);
/* As report_of(), for one open file; path: its name in the document. */
json_t *report_of_descriptor(int fd, const char *path);

/* Makes the file in which processes without a trace file count themselves, unless it is there. */
void untraced_make(int folder);
/* Adds the file's processes to the array. False: it is not such a file. */
bool untraced_read(int fd, json_t *lost);

void report_print(const json_t *document);

#endif
