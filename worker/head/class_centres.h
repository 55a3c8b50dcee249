// This worker's rows of the class centres, with the optimizer's state.
#pragma once

#include <cstdint>
#include <memory>

#include "common/config.h"
#include "common/shard.h"
#include "kernels/margin_softmax.h"
#include "kernels/ops.h"

namespace pfc {

/// Device memory of a shard: D * 4 bytes a class each for centre and momentum, again for AdamW's
/// second moment, and 4 for the centre's inverse length.
class ClassCentres {
 public:
  /// Centres start as 0.01 * N(0, 1) (a standard deviation of 0.01, as arcface_torch's
  /// PartialFC_V2), element i of class c drawn by a counter-based generator from (seed, c, i): the
  /// same for any number of workers. The optimizer's state starts as zeros.
  ClassCentres(Ops& ops, RowRange shard, std::int64_t dimension, OptimizerKind optimizer,
               std::uint64_t seed);

  [[nodiscard]] RowRange shard() const { return shard_; }
  /// Views; the inverse norms are not yet computed.
  [[nodiscard]] CentreTable table() const;

 private:
  void initialise(Ops& ops, std::uint64_t seed);

  RowRange shard_;
  std::int64_t dimension_;
  std::unique_ptr<Buffer> weight_, inverse_norm_, momentum_;
  std::unique_ptr<Buffer> second_;  // null for SGD
};

}  // namespace pfc
