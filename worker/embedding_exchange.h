// Sends embeddings and their gradients between the workers of a training step.
#pragma once

#include "comm/comm.h"
#include "common/config/config.h"
#include "kernels/owned_tensor.h"

namespace pfc {

/// With exchange_precision fp32, float32 is sent. With bf16, embeddings are rounded to the nearest
/// bf16 before they are sent, and each worker computes with the rounded embeddings of all workers,
/// also with its own. On CPUs, gradients are rounded too: each worker receives the parts of its own
/// gradients from all workers in bf16, and sums them in float64. On GPUs, NCCL sums gradients in
/// float32, first within each host and then over the network. With many GPUs per host, this sends
/// fewer bytes than a part in bf16 from every worker. A single worker rounds nothing.
class EmbeddingExchange {
 public:
  /// Borrows ops and comm. REQUIRES: exchange_precision bf16 only if ops.activation_type() is bf16.
  EmbeddingExchange(Ops& ops, Comm& comm, const JobConfig& job);

  /// Concatenates embeddings [B, D] of all workers in rank order: all [N, D]. Both are float32.
  void all_gather(const Tensor& embeddings, const Tensor& all);
  /// Sums gradients all [N, D] over the workers; own [B, D] receives this worker's slice. Both are
  /// float32.
  void reduce_scatter(const Tensor& all, const Tensor& own);

 private:
  Ops& ops_;
  Comm& comm_;
  OwnedTensor sent_, received_;  // bf16 [N, D]; null if float32 is sent
};

}  // namespace pfc
