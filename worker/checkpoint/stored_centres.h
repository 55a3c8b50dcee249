// Reads the class centres of a checkpoint, written by any number of workers, as one table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/class_positions.h"
#include "comm/shard.h"
#include "common/files/safetensors.h"
#include "kernels/margin/update_history.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/head/paging/kept_pages.h"

namespace pfc {

/// The updates so far, and the number of them that each row of a shard has seen.
struct SeenUpdates {
  std::vector<PastUpdate> updates;
  std::vector<std::int32_t> updated;  ///< [rows of the shard]
};

/// How tables in a file of pages (KeptPages) are used.
enum class KeptRows {
  kRead,    ///< they are read
  kInHead,  ///< the head has taken over the file; read() must not be called
};

/// The class centres in a checkpoint's files, which stay mapped. The caller numbers rows by
/// positions of its own, which may differ from the checkpoint's; a row is then found by its label.
/// Reading is thread-safe.
class StoredCentres {
 public:
  /// Opens the file of this name after checking it against the manifest.
  using Open = std::function<SafetensorsFile(const std::string& name)>;

  /// Opens the files that hold the rows at these positions. Throws InputError that names the file
  /// if a tensor is missing, or its type or shape is not what a job with this optimizer writes.
  StoredCentres(const checkpoint_format::Identity& identity, const ClassPositions& positions,
                RowRange rows, OptimizerKind optimizer, const Open& open,
                KeptRows kept = KeptRows::kRead);

  /// Reads rows [begin, begin + count) as float32. They are stored in any type, because a job may
  /// resume with another centre_precision. If the momentum was not stored, it is read as zeros. out
  /// [count, D]. REQUIRES: the rows were opened.
  void read(const std::string& tensor, std::int64_t begin, std::span<float> out) const;
  /// Returns the updates seen by the shard's rows. Throws InputError if the files disagree, or
  /// hold impossible numbers. REQUIRES: the shard's rows were opened.
  [[nodiscard]] SeenUpdates seen(RowRange shard) const;
  /// Copies the scales of a tensor of one-byte numbers, [shard, sub-centres]. REQUIRES: one file
  /// has the rows of the shard and no others.
  void read_scales(const std::string& tensor, RowRange shard, std::span<float> out) const;

 private:
  struct File {
    /// A table in a file of pages has an entry without bytes, with its offset in that file.
    SafetensorsFile content;
    RowRange rows;
    std::unique_ptr<const PagesOfCheckpoint> pages;  ///< null: the tables are in `content`

    /// Returns numbers of a table from index `first` on, as stored. May use `buffer`.
    [[nodiscard]] std::span<const std::byte> numbers(const SafetensorsFile::Tensor& table,
                                                     std::size_t first, std::size_t count,
                                                     std::vector<std::byte>& buffer) const;
  };
  /// Returns the row in the files at one of the caller's positions.
  [[nodiscard]] std::int64_t stored_row(std::int64_t position) const {
    return stored_.position_of(wanted_.label_at(position));
  }
  void read_stored(const std::string& tensor, std::int64_t begin, std::span<float> out) const;

  const std::int64_t dimension_;
  const OptimizerKind optimizer_;
  const ClassPositions stored_, wanted_;  ///< of the files, and of the caller
  std::vector<File> files_;               ///< ordered by row
};

/// Reads rows of `tensor`, from row `begin` of the whole table on, as float32 [count, D].
using ReadRows =
    std::function<void(const std::string& tensor, std::int64_t begin, std::span<float> rows)>;

/// Returns the ranges of a shard's rows that are read in one call of ReadRows each, in order.
std::vector<RowRange> pieces_of(RowRange shard, std::int64_t dimension);
/// Returns the names of the tensors of an optimizer's centres, in reading order.
std::vector<std::string> centre_tensors(OptimizerKind optimizer);

/// Computes rows of centres, and their moments, as they are after all updates.
class CaughtUpRows {
 public:
  /// Borrows the centres, whose `rows` were opened, and the history of their updates.
  CaughtUpRows(const StoredCentres& centres, const UpdateHistory& history, RowRange rows,
               std::int64_t dimension);
  /// updated: of seen(rows), if it is known. StoredCentres::seen() reads the numbers of all rows of
  /// a file.
  CaughtUpRows(const StoredCentres& centres, const UpdateHistory& history, RowRange rows,
               std::int64_t dimension, std::span<const std::int32_t> updated);

  /// Returns the rows of element `which` of centre_tensors(), float32 [rows, D]: a view, valid
  /// until the next call.
  [[nodiscard]] std::span<const std::byte> tensor(std::size_t which);
  /// Returns the rows of the weights [rows, D].
  [[nodiscard]] std::vector<float> take_weights() {
    static_cast<void>(tensor(0));
    return std::move(out_);
  }

 private:
  void catch_up(std::int64_t first, std::vector<std::vector<float>>& piece) const;

  const StoredCentres& centres_;
  const UpdateHistory& history_;
  const RowRange rows_;
  const std::int64_t dimension_;
  CatchUpPlan plan_;
  std::vector<float> out_;
};

/// Sets this worker's rows: calls `read` for each of pieces_of(shard, dimension) and each of
/// centre_tensors(). If the head keeps no momentum, applies the updates that a row has missed with
/// the stored momentum, and drops that momentum.
void fill_centres(const TrainingState& state, const SeenUpdates& seen, const ReadRows& read);
/// Sets everything but the tables, which the head has taken over.
void fill_beside_tables(const TrainingState& state, const SeenUpdates& seen,
                        const StoredCentres& centres);

}  // namespace pfc
