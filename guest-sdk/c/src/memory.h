// The end of an action that has run out of memory.
#ifndef STRATA_MEMORY_H
#define STRATA_MEMORY_H

#include "../include/strata_text.h"

// Writes a message to the log, and ends the action. Allocates no memory. `size` is the number of bytes that were
// requested.
_Noreturn void strata_out_of_memory(size_t size);

#endif
