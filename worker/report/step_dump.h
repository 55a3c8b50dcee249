// Ends a job whose loss or gradient is not finite. First writes the head's input of that step to
// disk, for analysis (docs/replay.md).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "comm/comm.h"
#include "common/ids.h"
#include "worker/head/step_file.h"

namespace pfc {

/// Borrows ops, comm (for host memory) and head.
class StepDump {
 public:
  StepDump(Ops& ops, Comm& comm, Head& head, std::filesystem::path output, nlohmann::json job)
      : ops_(ops), comm_(comm), head_(head), output_(std::move(output)), job_(std::move(job)) {}

  struct Verdict {
    std::string not_finite;  ///< name of the value that is not finite: "the loss"
    double loss = 0;
    bool rows_moved = false;  ///< the head has already updated its rows in this step
    Tensor d_embeddings;      ///< [M * B, D]; null if the step has not computed them yet
  };
  /// Writes this worker's part to OUTPUT/not-finite-step-%09d/head-%05d-of-%05d.safetensors. When
  /// all workers have written, throws InputError with the value that is not finite, the step, the
  /// learning rate and the folder. The text is the same on all workers, except that a worker which
  /// could not write its part says why. REQUIRES: all workers call it at the same point of the same
  /// step.
  [[noreturn]] void stop(const GivenToHead& given, const Verdict& verdict);

 private:
  std::string write(const GivenToHead& given, const Verdict& verdict);
  /// Returns the step of the newest published checkpoint; 0 if there is none.
  [[nodiscard]] std::int64_t newest_step() const;

  Ops& ops_;
  Comm& comm_;
  Head& head_;
  const std::filesystem::path output_;
  const nlohmann::json job_;
};

}  // namespace pfc
