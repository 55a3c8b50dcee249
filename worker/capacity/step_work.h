// Counts the work of a job's training step without executing it.
#pragma once

#include <cstdint>

#include "worker/capacity/recording_ops.h"
#include "worker/head/head.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// Work of the classification layer in one micro-batch, on one worker (docs/head.md).
struct HeadWork {
  double flops = 0;   ///< matrix products, including those computed twice
  double logits = 0;  ///< N * S: elements of the softmax
  double bytes = 0;   ///< rows of centres and moments that are read and written
  /// Random numbers of the sampling: one for each block of classes, or two with sample_hold.
  double drawn = 0;
};

/// Counts the work for N samples and a shard of `rows` classes. Pure.
HeadWork head_work(const HeadOptions& options, std::int64_t samples, std::int64_t rows);

/// Work of rank 0, whose shard is the largest.
struct StepWork {
  std::int64_t micro_batches = 1;
  OpWorks images, forward, backward;  ///< per micro-batch
  OpWorks teacher;                    ///< per micro-batch; empty without a teacher
  OpWorks optimizer;                  ///< per step
  HeadWork head;                      ///< per micro-batch
  // Sizes of collectives in bytes, on the receiver's side; per micro-batch, except the gradients'.
  double embeddings = 0;          ///< all-gathered
  double d_embeddings = 0;        ///< gradients of the embeddings; reduce-scattered
  double teacher_embeddings = 0;  ///< all-gathered; 0 without the teacher's logits
  double statistics = 0;          ///< of the softmax; sent in an all-to-all, then all-gathered
  double gradients = 0;           ///< all-reduced
  int synced_norms = 0;  ///< batch norms that gather statistics in forward and backward (sync_bn)
};

/// Traverses the network once without computing. Takes about 0.3 s. REQUIRES: num_classes is
/// known. Throws like plan_backbone().
StepWork count_step(const PlannedJob& planned);

}  // namespace pfc
