// Counts the work of a job's training step, without doing it.
#pragma once

#include <cstdint>

#include "worker/cost/work.h"
#include "worker/head/head.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// Of the classification layer in one micro-batch, on one worker (docs/head.md).
struct HeadWork {
  double flops = 0;   ///< of the matrix products, those that are computed again included
  double logits = 0;  ///< N * S: elements that go through the softmax
  double bytes = 0;   ///< of rows of centres and moments that are read and written
  double drawn = 0;   ///< classes of the shard, for each of which sampling draws a number
};

/// Of N samples, a shard of `rows` classes. Pure.
HeadWork head_work(const HeadOptions& options, std::int64_t samples, std::int64_t rows);

/// Of rank 0, whose shard is the largest.
struct StepWork {
  std::int64_t micro_batches = 1;
  OpWorks images, forward, backward;  ///< of one micro-batch
  OpWorks optimizer;                  ///< of the step
  HeadWork head;                      ///< of one micro-batch
  // Sizes of collectives in bytes, as the receiver has them; of one micro-batch, but the
  // gradients'.
  double embeddings = 0;  ///< all-gathered, and their gradients reduce-scattered
  double statistics = 0;  ///< of the softmax, all-gathered
  double gradients = 0;   ///< all-reduced
  int synced_norms = 0;   ///< batch norms that gather statistics, forward and backward (sync_bn)
};

/// Goes through the network once without computing. Takes about 0.3 s. REQUIRES: num_classes is
/// known. Throws as plan_backbone() does.
StepWork count_step(const PlannedJob& planned);

}  // namespace pfc
