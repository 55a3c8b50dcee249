// The class centres of one worker's shard, with the optimizer's state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/class_positions.h"
#include "comm/shard.h"
#include "common/config/config.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/ops.h"
#include "worker/head/paging/kept_pages.h"
#include "worker/head/paging/paged_memory.h"

namespace pfc {

/// Storage of weight, momentum and second moment in a file (docs/centre-storage.md).
struct CentreFile {
  std::filesystem::path folder;  ///< of the file
  std::size_t cache = 0;         ///< PagedMemoryOptions::limit; 0: the tables are in device memory
  /// KeptName::name of a file that is the base of checkpoints. Empty: a temporary file.
  std::string name = {};
  /// The tables are taken over from this checkpoint of the file. Empty: they are new.
  std::string checkpoint = {};
  std::string advice = {};  ///< added to InputErrors of taking the tables over
  [[nodiscard]] bool on() const { return cache > 0; }
  [[nodiscard]] bool kept() const { return !name.empty(); }
  [[nodiscard]] bool taken_over() const { return !checkpoint.empty(); }
};

/// The place of a table in the file of a shard.
struct FileTable {
  std::string name;  ///< "weight", "momentum", "second"
  DType dtype;
  Shape shape;               ///< [R, D]
  std::uint64_t offset = 0;  ///< bytes
};

struct CentreOptions {
  std::int64_t dimension = 512;  ///< of a row, which holds all centres of a class
  std::int64_t sub_centres = 1;  ///< centres of a class
  bool bias = false;             ///< the last element of a centre is a bias, which starts at 0
  OptimizerKind optimizer = OptimizerKind::kSgd;
  bool momentum = true;  ///< false: no momentum is kept; only for SGD
  CentrePrecision precision = CentrePrecision::kFp32;
  ClassPositions positions = {};  ///< labels of the shard's rows
  std::uint64_t seed = 0;
  CentreFile file = {};  ///< only for the CPU
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
  /// Bytes of the file, if there is one. It has no scales.
  [[nodiscard]] std::size_t file() const;
};

/// Owns the tables, in device memory or in a file. With a file, only the rows of read_ahead() and
/// pin() are in memory, and all other rows of table() must not be used. Scales are always in device
/// memory. Host memory holds the number of updates that each row has seen, and the history of
/// updates of the whole job: 12 bytes per update.
class ClassCentres {
 public:
  /// Returns what a shard of `rows` classes allocates, without the history.
  [[nodiscard]] static CentreBytes bytes(std::int64_t rows, const CentreOptions& options);
  /// Returns the tables that the file of a shard of `rows` classes has.
  [[nodiscard]] static std::vector<FileTable> file_tables(std::int64_t rows,
                                                          const CentreOptions& options);

  /// All tables start as zeros. If the file is taken over, it has centres and moments, and the
  /// caller sets everything else. Only uses `ops` now. Throws StorageError if the disk is too full
  /// for the file, and as KeptPages::take_over() does.
  ClassCentres(Ops& ops, RowRange shard, const CentreOptions& options);

  /// Sets the centres to normally distributed numbers of mean 0 and standard deviation 0.01, as in
  /// arcface_torch's PartialFC_V2. Element i of the class with label c is a function of (seed, c,
  /// i), so it is the same for any number of workers and any positions. Centres that are not
  /// float32 are rounded to the nearest value. Calls drawn(classes) for each part of the shard, in
  /// order, while the part is in memory. Throws StorageError.
  void draw(Ops& ops, const std::function<void(RowRange classes)>& drawn = {});

  [[nodiscard]] RowRange shard() const { return shard_; }
  /// Views, valid as long as this object. This class does not compute the inverse norms:
  /// MarginSoftmax::compute_inverse_norms() does.
  [[nodiscard]] CentreTable table();

  /// Begins to read the rows of these classes (sorted, of the shard) from the file. Returns null
  /// without a file. Thread-safe.
  [[nodiscard]] std::shared_ptr<PinnedPages> read_ahead(
      std::span<const std::int64_t> classes) const;
  /// Reads the rows of these classes from the file, and keeps them in memory while the result
  /// exists. `only` is a tensor of table(), or null for the rows of all tables. `use` says whether
  /// the caller changes them. Returns null without a file. REQUIRES: at most rows_at_once() rows.
  [[nodiscard]] std::unique_ptr<PinnedPages> pin(RowRange classes, PageUse use,
                                                 const Tensor& only = {}) const;
  /// Divides the classes (sorted) into parts, and calls f(part) for each in order, while the rows
  /// of the part are in memory. Without a file, calls f(classes).
  void in_pieces(std::span<const std::int64_t> classes,
                 const std::function<void(std::span<const std::int64_t>)>& f) const;
  /// Throws std::logic_error if a row of these classes (sorted) might not be in memory.
  void expect_pinned(std::span<const std::int64_t> classes) const;
  /// Writes all changed rows to the file, and makes it the base of a new checkpoint
  /// (KeptPages::add_checkpoint()). REQUIRES: CentreFile::kept().
  void keep(const std::string& checkpoint);
  /// Returns the numbers of pages read and written so far; zeros without a file.
  [[nodiscard]] PagingCounters paging() const;

  /// Copies the centres of these classes, all of the shard, to rows [n, D] in host memory, with the
  /// updates that they have missed. Does not change the tables.
  void read_current(Ops& ops, RowRange classes, std::span<float> rows);

 private:
  void allocate(Ops& ops);
  [[nodiscard]] std::unique_ptr<PageFile> open_file(std::size_t bytes);
  [[nodiscard]] std::vector<PageRange> pages_of(std::span<const std::int64_t> classes) const;
  void add_pages(RowRange classes, Buffer& table, std::vector<PageRange>& pages) const;
  template <typename F>
  void each_table(const F& f) const;
  void read_piece(Ops& ops, RowRange classes, std::span<float> rows);

  const RowRange shard_;
  const CentreOptions options_;
  KeptPages* kept_ = nullptr;           // the file of paged_, if it is the base of checkpoints
  std::unique_ptr<PagedMemory> paged_;  // memory of the tables with rows, if they are in a file
  std::unique_ptr<Buffer> weight_, inverse_norm_;
  std::unique_ptr<Buffer> momentum_, second_;                // null: the optimizer has none
  std::unique_ptr<Buffer> weight_scales_, momentum_scales_;  // null: not one-byte, or none
  std::vector<std::int32_t> updated_;
  UpdateHistory history_;
};

}  // namespace pfc
