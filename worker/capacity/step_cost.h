// Predicts the duration of a training step, phase by phase (docs/capacity.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/capacity/machine_profile.h"

namespace pfc {

/// The machines of a job as the cost model describes them: all are equal.
struct ClusterModel {
  MachineProfile machine;
  int workers = 1;
  int workers_of_host = 1;
  /// Network of one host: the same in both directions, for all ports together. Unused with a single
  /// host.
  Link network;
  std::int64_t decoding_threads = 2;  ///< per worker (num_workers of the job)
  [[nodiscard]] int hosts() const { return (workers + workers_of_host - 1) / workers_of_host; }
};

/// A phase of a step (docs/training-step.md) and its duration.
struct PhaseCost {
  std::string phase;
  double seconds = 0;  ///< sum over all micro-batches
};

struct StepCost {
  std::vector<PhaseCost> phases;  ///< in the order of the step
  double input = 0;               ///< seconds on one core to prepare a worker's inputs
  [[nodiscard]] double seconds() const;
  /// Returns the seconds of a phase; 0 if there is no such phase.
  [[nodiscard]] double of(const std::string& phase) const;
};

/// The part that limits the speed of a step, and its share of the step's time.
struct Bottleneck {
  /// "decoding", "backbone", "teacher", "classification layer" or "communication".
  std::string what;
  double share = 0;
};
/// Returns decoding if a worker waits for its inputs, otherwise the longest part. Pure.
Bottleneck bottleneck_of(const StepCost& step);

/// Actual time of each phase divided by the predicted time; 1 for phases that are not listed.
using Corrections = std::map<std::string, double>;

/// Predicts a step with `batch` images of `pixels` pixels each per worker. Pure.
StepCost predict_step(const StepWork& work, std::int64_t batch, std::int64_t pixels,
                      const ClusterModel& cluster, const Corrections& corrections = {});

/// Compares a short run with the model: measured over predicted time for each phase that took more
/// than a thousandth of the step in both. All phases of communication have the same factor, because
/// workers wait for each other in them.
Corrections corrections(const StepCost& predicted, const StepCost& measured);

}  // namespace pfc
