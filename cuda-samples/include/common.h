/* What every sample has in common whatever API it is written for: one way to fail, options, time,
 * the path of a file beside the executable. */
#ifndef COMMON_H
#define COMMON_H

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void failed(const char *why, ...) __attribute__((format(printf, 1, 2), noreturn));

static inline void failed(const char *why, ...)
{
    va_list list;
    va_start(list, why);
    printf("FAILED ");
    vprintf(why, list);
    printf("\n");
    va_end(list);
    exit(1);
}

static inline double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* An option is a number, a number of bytes, or (takes is NULL) a switch that sets it to 1. */
struct sample_option {
    const char *name;
    const char *takes;
    double *value;
    const char *help;
};

static inline void print_help(const char *program, const char *about,
                              const struct sample_option *options, size_t count)
{
    printf("usage: %s [OPTIONS]\n%s\n\n", program, about);
    for (size_t i = 0; i < count; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", options[i].name,
                 options[i].takes ? options[i].takes : "");
        printf("  %-20s %s", left, options[i].help);
        printf(options[i].takes ? " [default: %.0f]\n" : "\n", *options[i].value);
    }
    printf("  %-20s show this\n", "--help");
}

static inline double read_number(const struct sample_option *option, const char *text)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    char *end = NULL;
    double number = text ? strtod(text, &end) : -1;
    if (text && end != text && strcmp(option->takes, "BYTES") == 0)
        for (int i = 0; i < 4; i++)
            if (strcmp(end, units[i]) == 0) {
                number *= (double)(1ull << (10 * (i + 1)));
                end += 3;
            }
    if (!text || end == text || *end != '\0' || !(number >= 0 && number < 1e15)) {
        fprintf(stderr, "--%s takes %s, not %s\n", option->name,
                strcmp(option->takes, "BYTES") == 0 ? "bytes, for example 256MiB" : "a number",
                text ? text : "nothing");
        exit(2);
    }
    return number;
}

static inline void read_options(int argc, char **argv, const char *about,
                                const struct sample_option *options, size_t count)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        size_t k = 0;
        if (strcmp(word, "--help") == 0) {
            print_help(argv[0], about, options, count);
            exit(0);
        }
        const char *equals = strchr(word, '=');
        size_t length = equals ? (size_t)(equals - word) : strlen(word);
        while (k < count && !(length == strlen(options[k].name) + 2 && word[0] == '-' &&
                              word[1] == '-' && strncmp(word + 2, options[k].name, length - 2) == 0))
            k++;
        if (k == count || (equals && !options[k].takes)) {
            fprintf(stderr, "%s: no option %s; see --help\n", argv[0], word);
            exit(2);
        }
        if (!options[k].takes)
            *options[k].value = 1;
        else if (equals)
            *options[k].value = read_number(&options[k], equals + 1);
        else
            *options[k].value = read_number(&options[k], i + 1 < argc ? argv[++i] : NULL);
    }
}

#define OPTION_COUNT(options) (sizeof(options) / sizeof((options)[0]))

/* Writes the path of NAME.ptx beside the executable. */
static inline void path_of_ptx(char *path, size_t bytes, const char *name)
{
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    char *slash;
    if (length < 0)
        failed("finding the executable's own file");
    path[length] = '\0';
    slash = strrchr(path, '/');
    snprintf(slash + 1, bytes - (size_t)(slash + 1 - path), "%s.ptx", name);
}

/* Rounds until `iterations` are done or, if `seconds` is not 0, that time is over. */
static inline int goes_on(unsigned long round, double iterations, double begun, double seconds)
{
    return seconds > 0 ? now_seconds() - begun < seconds : (double)round < iterations;
}

#endif
