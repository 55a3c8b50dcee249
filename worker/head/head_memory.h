// The memory of the classification layer, by what it is for.
#pragma once

#include <cstdint>

#include "worker/head/head.h"

namespace pfc {

/// Bytes.
struct HeadMemory {
  std::uint64_t centres = 0;
  std::uint64_t momentum = 0;       ///< SGD's velocity or AdamW's m
  std::uint64_t second = 0;         ///< AdamW's v
  std::uint64_t inverse_norms = 0;  ///< one number a centre
  std::uint64_t updated = 0;    ///< one number a centre: the updates that it has seen; host memory
  std::uint64_t active = 0;     ///< indices of active rows, of all batches that are on their way
  std::uint64_t gradients = 0;  ///< of active rows, where gradient_acc is above 1
  std::uint64_t logits = 0;     ///< kept from forward to backward
  std::uint64_t buffers = 0;    ///< embeddings and their gradients, tiles, statistics
};

struct HeadMemoryOptions {
  HeadOptions head;
  int world_size = 1;
  std::int64_t samples = 1;  ///< N, of all workers
  int threads = 1;           ///< of this worker
  bool gpu = false;          ///< active rows are then counted with the buffers
};

/// Of rank 0, whose shard is the largest. Exact but for the active rows, which are counted as many
/// as are to be expected: those that sampling takes, and one for every sample.
HeadMemory head_memory(const HeadMemoryOptions& options);

}  // namespace pfc
