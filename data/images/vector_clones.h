// Loops over pixels that use wider vectors where the processor has them.
#pragma once

/// Before a function: it is compiled for AVX2 as well, and the program chooses when it is loaded.
/// Results are the same: AVX2 alone does not fuse multiplications with additions. Sanitizers cannot
/// run the choice, which comes before they are set up.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define PFC_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define PFC_VECTOR_CLONES
#endif
