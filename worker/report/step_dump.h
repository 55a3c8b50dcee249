// Ends a job whose loss or gradient is not finite. What the head was given in that step is written
// to disk first, so that the step can be examined (docs/replay.md).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "comm/comm.h"
#include "common/ids.h"
#include "worker/head/step_file.h"

namespace pfc {

/// Borrows ops, comm (of host memory) and head.
class StepDump {
 public:
  StepDump(Ops& ops, Comm& comm, Head& head, std::filesystem::path output, nlohmann::json job)
      : ops_(ops), comm_(comm), head_(head), output_(std::move(output)), job_(std::move(job)) {}

  struct Verdict {
    std::string not_finite;  ///< what is not finite: "the loss"
    double loss = 0;
    bool rows_moved = false;  ///< whether the head has updated its rows in this step
    Tensor d_embeddings;      ///< [M * B, D]; null when the step did not get so far
  };
  /// Each worker writes its part to OUTPUT/not-finite-step-%09d/head-%05d-of-%05d.safetensors. When
  /// all have, throws InputError that names what is not finite, the step, the learning rate and the
  /// folder, in the same words on all workers, or says why this worker's part could not be written.
  /// REQUIRES: all workers call it at the same place of the same step.
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
