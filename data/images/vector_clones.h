// Compiles loops over pixels for wider vectors, if the processor has them.
#pragma once

/// Goes before a function. The function is then compiled a second time, for AVX2, and one of the
/// two versions is chosen when the program is loaded. Their results are equal, because AVX2 alone
/// does not fuse multiplications with additions. Not used with sanitizers, because the choice runs
/// before they are initialised.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define PFC_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define PFC_VECTOR_CLONES
#endif
