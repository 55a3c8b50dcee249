// The file of one step of the classification layer (docs/replay.md). A worker writes it when a loss
// or gradient is not finite; `pfcctl replay head` reads it.
//
//   embeddings [M * N, D] F32                of all workers; M micro-batches, in order
//   labels [M * N] I64                       in the same order; [M * N, L] if a sample has up to L
//                                            labels, padded with -1
//   centres [R, D] F32
//   momentum, second [R, D] F32              optional; zeros if missing
//   classes [R] I64                          optional: the label of each row's class. The rows are
//                                            then the active ones, in the order of the job's
//                                            positions (comm/class_positions.h): with sample_unit 1
//                                            the labels rise. If missing, row c is class c
//   active [M, R] U8                         optional, needs classes: 1 if the row takes part in
//                                            the micro-batch. If missing, every row takes part in
//                                            all micro-batches
//   d_embeddings [M * B, D] F32              optional: the gradients that the job computed for the
//                                            worker's part of each micro-batch
//
// The metadata are optional. They name the job and step that wrote the file: see step_file below.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "comm/shard.h"
#include "common/files/safetensors.h"
#include "common/ids.h"
#include "worker/head/head.h"

namespace pfc {

/// Keys of the metadata.
namespace step_file {
/// The job file's keys, as JSON; margin and sample rate are those of the step.
inline constexpr const char* kJob = "job";
/// Step of the job, from 1; selects the sampled classes.
inline constexpr const char* kStep = "step";
/// Number of the update, from 1: the step minus the steps without an update.
inline constexpr const char* kUpdate = "update";
inline constexpr const char* kMicroBatches = "micro_batches";
/// The loss's state before the step (LossState), as JSON.
inline constexpr const char* kLossState = "loss_state";
inline constexpr const char* kLr = "lr";  ///< learning rate of this step
inline constexpr const char* kRank = "rank";
inline constexpr const char* kWorldSize = "world_size";
/// The value that was not finite: "the loss".
inline constexpr const char* kNotFinite = "not_finite";
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kRows = "rows";  ///< kBefore or kAfter
inline constexpr const char* kBefore = "before the update";
inline constexpr const char* kAfter = "after the update";
}  // namespace step_file

/// Inputs that a worker's head has received so far in a step.
struct GivenToHead {
  std::int64_t step = 1, update = 1;
  double lr = 0.1;
  std::int64_t micro_batches = 1;        ///< M
  Tensor embeddings;                     ///< [M * N, D], of all workers
  std::span<const std::int64_t> labels;  ///< [M * N, L], as positions of the classes
};

/// Values that a worker writes to its file in addition to the current values of its active rows.
struct HeadStepPart {
  const GivenToHead& given;
  const nlohmann::json& job;
  Rank rank = 0;
  int world_size = 1;
  std::string not_finite;
  double loss = 0;
  bool rows_moved = false;  ///< the step has already updated the rows
  Tensor d_embeddings;      ///< [M * B, D] of this worker's samples; null: not computed
};

/// Writes the rows that take part in any of the micro-batches (given by Head::sample()). Settles
/// them first (Head::settle), so that the file holds the values that the step computed with. The
/// memory needed does not depend on the number of rows. Throws StorageError.
void write_head_step_part(const std::filesystem::path& path, Ops& ops, Head& head,
                          const HeadStepPart& part);

/// Views of a float32 matrix that is stored in several pieces of memory, in order of rows.
struct RowTable {
  std::int64_t columns = 0;
  std::vector<std::span<const float>> pieces;  ///< each has whole rows

  /// Calls f(values, first_row) for each contiguous part of the rows, in order.
  template <typename F>
  void each_stretch(RowRange rows, const F& f) const {
    std::int64_t first = 0;
    for (const std::span<const float> piece : pieces) {
      const std::int64_t end = first + static_cast<std::int64_t>(piece.size()) / columns;
      const RowRange both{std::max(rows.begin, first), std::min(rows.end, end)};
      if (both.size() > 0) {
        f(piece.subspan(static_cast<std::size_t>((both.begin - first) * columns),
                        static_cast<std::size_t>(both.size() * columns)),
          both.begin);
      }
      first = end;
    }
  }
};

/// The input of one step, read from one file or merged from the parts of all workers.
struct HeadStepInput {
  std::vector<SafetensorsFile> files;  ///< memory-mapped; own the memory of the views below
  std::int64_t samples = 0, rows = 0, dimension = 0;  ///< samples: of all micro-batches, M * N
  std::int64_t micro_batches = 1;                     ///< M
  std::span<const float> embeddings;                  ///< [M * N, D]
  std::int64_t labels_per_image = 1;                  ///< L
  std::vector<std::int64_t> labels;                   ///< [M * N, L], as row numbers of the tables
  std::vector<std::int64_t> classes;                  ///< [R], labels; empty: row c is class c
  /// [M]: the rows of each micro-batch, sorted. Empty: all rows are active if `classes` is set;
  /// otherwise the job's keys select the rows.
  std::vector<std::vector<std::int64_t>> active;
  /// [R, D]; with K sub-centres [R, K D]; with a bias [R, D + 1]. No pieces: zeros.
  RowTable centres, momentum, second;
  RowTable job_d_embeddings;                      ///< [M * N, D]; no pieces if the files have none
  nlohmann::json job = nlohmann::json::object();  ///< keys of the job; lr is that of the step
  std::int64_t step = 1, update = 1;
  LossState loss_state;
  std::string story;  ///< one line: what was not finite in the job; empty: unknown

  /// Returns the path of the first file.
  [[nodiscard]] const std::filesystem::path& path() const { return files.front().path(); }
};

/// Reads the given files, and every *.safetensors of given folders. Throws InputError that names
/// the file and the tensor, what was found and what was expected. Rejects a label without a row,
/// and parts that are incomplete, belong to different steps or hold the same class.
HeadStepInput read_head_step(std::span<const std::filesystem::path> paths);

}  // namespace pfc
