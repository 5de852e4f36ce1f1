// What becomes of a call for which there is no memory left.
#ifndef STRATA_MEMORY_H
#define STRATA_MEMORY_H

#include "../include/strata_text.h"

// Says so, and ends it. Needs no memory itself.
_Noreturn void strata_out_of_memory(size_t size);

#endif
