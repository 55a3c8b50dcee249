// The class centres of one worker's shard, with the optimizer's state.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/class_positions.h"
#include "comm/shard.h"
#include "common/config/config.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"

namespace pfc {

struct CentreOptions {
  std::int64_t dimension = 512;  ///< of a row, which holds all centres of a class
  std::int64_t sub_centres = 1;  ///< centres of a class
  bool bias = false;             ///< the last element of a centre is a bias, which starts at 0
  OptimizerKind optimizer = OptimizerKind::kSgd;
  bool momentum = true;  ///< false: no momentum is kept; only for SGD
  CentrePrecision precision = CentrePrecision::kFp32;
  ClassPositions positions = {};  ///< labels of the shard's rows
  std::uint64_t seed = 0;
};

/// Bytes of the tables of a shard.
struct CentreBytes {
  std::size_t weight = 0;        ///< [R, D]
  std::size_t momentum = 0;      ///< [R, D]; 0 without momentum
  std::size_t second = 0;        ///< [R, D]; 0 for SGD
  std::size_t scales = 0;        ///< of weight and momentum, each [R, sub_centres], if one-byte
  std::size_t inverse_norm = 0;  ///< [R, sub_centres]
  std::size_t updated = 0;       ///< [R], in host memory on every device
  /// Bytes of the data that a step reads and writes: weight, momentum, second moment and scales.
  [[nodiscard]] std::size_t rows() const { return weight + momentum + second + scales; }
};

/// Owns the tables in device memory. Host memory holds the number of updates that each row has
/// seen, and the history of updates of the whole job: 12 bytes per update.
class ClassCentres {
 public:
  /// Returns what a shard of `rows` classes allocates, without the history.
  [[nodiscard]] static CentreBytes bytes(std::int64_t rows, const CentreOptions& options);

  /// Centres start with normally distributed elements of mean 0 and standard deviation 0.01, as
  /// in arcface_torch's PartialFC_V2. Element i of the class with label c is a function of (seed,
  /// c, i), so it is the same for any number of workers and any positions. Centres that are not
  /// float32 are rounded to the nearest value. The optimizer's state starts as zeros. `ops`
  /// allocates and is not kept.
  ClassCentres(Ops& ops, RowRange shard, const CentreOptions& options);

  [[nodiscard]] RowRange shard() const { return shard_; }
  /// Views, valid as long as this object. The constructor does not compute the inverse norms:
  /// MarginSoftmax::compute_inverse_norms() does.
  [[nodiscard]] CentreTable table();

  /// Copies the centres of these classes, all of the shard, to rows [n, D] in host memory, with the
  /// updates that they have missed. Does not change the tables.
  void read_current(Ops& ops, RowRange classes, std::span<float> rows);

 private:
  void initialise(Ops& ops);

  const RowRange shard_;
  const CentreOptions options_;
  std::unique_ptr<Buffer> weight_, inverse_norm_;
  std::unique_ptr<Buffer> momentum_, second_;                // null: the optimizer has none
  std::unique_ptr<Buffer> weight_scales_, momentum_scales_;  // null: not one-byte, or none
  std::vector<std::int32_t> updated_;
  UpdateHistory history_;
};

}  // namespace pfc
