/* What lib/runpath.c finds by its own RUNPATH: one at load, one opened by name. */
int needed_answer(void) { return 42; }
