// Decides which images are read together, and for which batches.
#pragma once

#include <cstdint>
#include <memory>
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

/// What a worker reads for its batches. A pure function; thread-safe.
class ReadPlan {
 public:
  virtual ~ReadPlan() = default;
  [[nodiscard]] virtual ReadUnit unit_with(std::int64_t batch) const = 0;
};

/// Reads each batch separately. Borrows both arguments.
std::unique_ptr<ReadPlan> plan_random_reads(const ImageOrder& order, const BatchPlan& batches);
/// Reads the worker's share of a window. Borrows both arguments. REQUIRES: the order is for the
/// global batch of `batches`, which start at a multiple of it.
std::unique_ptr<ReadPlan> plan_sequential_reads(const SequentialOrder& order,
                                                const BatchPlan& batches);

}  // namespace pfc
