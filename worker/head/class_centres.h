// This worker's rows of the class centres, with the optimizer's state.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/config/config.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"
#include "worker/comm/shard.h"

namespace pfc {

struct CentreOptions {
  std::int64_t dimension = 512;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  CentrePrecision precision = CentrePrecision::kFp32;
  std::uint64_t seed = 0;
};

/// Device memory of a shard: D numbers a class each for centre and momentum, again for AdamW's
/// second moment, and 4 bytes for the centre's inverse length. Host memory: 4 bytes a class for the
/// updates that its row has seen, and the history of updates.
class ClassCentres {
 public:
  /// Centres start as 0.01 * N(0, 1) (a standard deviation of 0.01, as arcface_torch's
  /// PartialFC_V2), element i of class c drawn by a counter-based generator from (seed, c, i): the
  /// same for any number of workers; rounded to the nearest where they are kept as bf16. The
  /// optimizer's state starts as zeros.
  ClassCentres(Ops& ops, RowRange shard, const CentreOptions& options);

  [[nodiscard]] RowRange shard() const { return shard_; }
  /// Views; the inverse norms are not yet computed.
  [[nodiscard]] CentreTable table();

 private:
  void initialise(Ops& ops);

  const RowRange shard_;
  const CentreOptions options_;
  std::unique_ptr<Buffer> weight_, inverse_norm_, momentum_;
  std::unique_ptr<Buffer> second_;  // null for SGD
  std::vector<std::int32_t> updated_;
  UpdateHistory history_;
};

}  // namespace pfc
