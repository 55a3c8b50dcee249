// Class centres as the files of a checkpoint hold them, read as one table whatever number of
// workers has written them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/shard.h"
#include "common/files/safetensors.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"

namespace pfc {

/// The updates so far, and how many of them each row of a shard has seen.
struct SeenUpdates {
  std::vector<PastUpdate> updates;
  std::vector<std::int32_t> updated;  ///< [rows of the shard]
};

/// The files stay mapped. Reading is thread-safe.
class StoredCentres {
 public:
  /// Opens the file of this name, after checking that it is what the manifest says.
  using Open = std::function<SafetensorsFile(const std::string& name)>;

  /// Opens the files that hold `rows`. Throws InputError that names the file when one lacks a
  /// tensor, or has one of another type or shape than a job with this optimizer writes.
  StoredCentres(const checkpoint_format::Identity& identity, RowRange rows, OptimizerKind optimizer,
                const Open& open);

  /// Rows [begin, begin + count) as float32; they are stored as float32 or bfloat16, because a job
  /// may go on with another centre_precision. out [count, D]. REQUIRES: the rows are among those
  /// that were opened.
  void read(const std::string& tensor, std::int64_t begin, std::span<float> out) const;
  /// REQUIRES: the shard's rows are among those that were opened. Throws InputError when the files
  /// disagree, or hold numbers that cannot be.
  [[nodiscard]] SeenUpdates seen(RowRange shard) const;

 private:
  struct File {
    SafetensorsFile content;
    RowRange rows;
  };
  const std::int64_t dimension_;
  const OptimizerKind optimizer_;
  std::vector<File> files_;  ///< in the order of their rows
};

/// Gives rows of `tensor`, from row `begin` of the whole table on, as float32 [count, D].
using ReadRows =
    std::function<void(const std::string& tensor, std::int64_t begin, std::span<float> rows)>;

/// Rows of a shard that are read in one call of ReadRows, in the order in which they are.
std::vector<RowRange> pieces_of(RowRange shard);
/// The tensors of an optimizer's centres, in the order in which they are read.
std::vector<std::string> centre_tensors(OptimizerKind optimizer);

/// Sets this worker's rows: calls `read` for each of centre_tensors(), and for each of pieces_of()
/// its shard.
void fill_centres(const TrainingState& state, const SeenUpdates& seen, const ReadRows& read);

}  // namespace pfc
