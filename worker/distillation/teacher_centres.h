// Finds and reads the class centres of a job's teacher. Its logits are computed from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/class_positions.h"
#include "comm/shard.h"
#include "common/config/config.h"
#include "data/dataset.h"
#include "kernels/ops.h"
#include "model/files/model_file.h"

namespace pfc {

/// The place and size of the class centres of JobConfig::teacher. fill() reads the centres.
class TeacherCentres {
 public:
  /// Looks for centres, in this order: a tensor `centres` in the teacher's file; the checkpoint of
  /// pfc that contains the file, or the newest one in its folder; arcface_torch's files of all GPUs
  /// in its folder. Throws InputError that names the file if there are none, if their number is not
  /// num_classes, if their length is not the size of the teacher's embeddings, or if a class has
  /// another name in the data than in identities.txt beside the file. REQUIRES: the job has
  /// distill_logits.
  TeacherCentres(const JobConfig& job, const ModelFile& teacher, const Dataset& dataset);

  /// Returns the name of the file or folder with the centres, and its files' checksums. Hosts
  /// compare this text. Reads the files.
  [[nodiscard]] std::string brief() const;
  /// Returns the folder of the checkpoint of pfc that has the centres; nullopt if they are
  /// elsewhere.
  [[nodiscard]] std::optional<std::filesystem::path> checkpoint() const {
    return kind_ == Kind::kCheckpoint ? std::optional(source_) : std::nullopt;
  }
  /// Copies the centres of the classes at these positions, divided by their lengths, to rows
  /// [shard.size(), D], float32 or bfloat16. Throws InputError if a file is damaged.
  void fill(Ops& ops, const ClassPositions& positions, RowRange shard, const Tensor& rows) const;

 private:
  enum class Kind { kTensor, kCheckpoint, kArcface };
  /// Takes consecutive centres [n, D]; `first` is the position of the first one.
  using Take = std::function<void(std::int64_t first, std::span<const float> centres)>;

  void find();
  void check_names(const Dataset& dataset) const;
  void read(const ClassPositions& positions, RowRange shard, const Take& take) const;
  void read_checkpoint(const ClassPositions& positions, RowRange shard, const Take& take) const;

  const std::filesystem::path file_;  // the teacher
  Kind kind_ = Kind::kTensor;
  std::filesystem::path source_;  // file or folder of the centres
  /// Files whose checksums are compared between hosts. Empty for kTensor: the teacher's own
  /// checksum covers its centres.
  std::vector<std::filesystem::path> files_;
  std::int64_t classes_ = 0, dimension_ = 0;
};

}  // namespace pfc
