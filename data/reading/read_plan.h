// Decides which images are read together, and for which batches.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/batch_plan.h"
#include "data/order/image_order.h"
#include "data/order/interleaving.h"
#include "data/order/sequential_order.h"

namespace pfc {

/// Images that are in memory together while a worker fills the batches up to end_batch - 1.
struct ReadUnit {
  std::int64_t end_batch = 0;
  std::vector<ImageRange> images;  ///< in ascending order
};

/// Returns the unit that a worker reads for this batch. A pure function; thread-safe.
using ReadPlan = std::function<ReadUnit(std::int64_t batch)>;

/// Reads each batch separately. Borrows the order.
ReadPlan plan_random_reads(const ImageOrder& order, const BatchPlan& batches);
/// Reads the worker's share of a window. Borrows the order. REQUIRES: the order is for the global
/// batch of `batches`, and `batches` starts at a multiple of the global batch.
ReadPlan plan_sequential_reads(const SequentialOrder& order, const BatchPlan& batches);

}  // namespace pfc
