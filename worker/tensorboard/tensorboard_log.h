// Rank 0's output for TensorBoard (docs/tensorboard.md lists the tags).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "model/evaluation/evaluation.h"
#include "worker/report/training_log.h"
#include "worker/tensorboard/event_file.h"
#include "worker/tensorboard/step_sampler.h"

namespace pfc {

struct TensorBoardOptions {
  std::filesystem::path folder;  ///< holds the event files of all starts of the job
  std::int64_t first_step = 1;   ///< 1 for a fresh run
};

/// All members throw StorageError when the file cannot be written.
class TensorBoardLog {
 public:
  /// Starts a file. If the job was resumed, first removes from the existing files the events of
  /// steps that will be trained again (event_folder.h). Throws InputError if one of these files
  /// cannot be read.
  explicit TensorBoardLog(const TensorBoardOptions& options);

  /// Adds a step to the means that the next line() writes.
  void step(const StepRecord& record);
  /// Writes means over the steps since the last call of line(), with the values of the log line.
  void line(const LogWindow& window);
  void evaluation(std::int64_t step, const VerificationResult& result);
  void evaluation(std::int64_t step, const RetrievalResult& result);
  void evaluation(std::int64_t step, const ClassificationResult& result);
  /// Writes two histograms with their means, and the images.
  void sample(std::int64_t step, const StepSample& sample);

 private:
  /// Sums over the steps since the last call of line().
  struct Sums {
    double steps = 0;
    double step_seconds = 0;
    double data_wait_seconds = 0;
    double gradient_norm = 0, gradient_norms = 0;  ///< sum over the finite ones, and their number
    std::map<std::string, double> phases;
  };

  EventFile file_;
  Sums sums_;
};

}  // namespace pfc
