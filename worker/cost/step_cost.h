// Predicts how long a training step takes, phase by phase (docs/capacity.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/cost/machine_profile.h"

namespace pfc {

/// The machines that a job runs on: all alike.
struct Cluster {
  MachineProfile machine;
  int workers = 1;
  int workers_of_host = 1;
  /// Of one host, in and out, all its ports together. Not used for one host.
  Link network;
  std::int64_t decoding_threads = 2;  ///< of a worker (the job's num_workers)
  [[nodiscard]] int hosts() const { return (workers + workers_of_host - 1) / workers_of_host; }
};

/// A phase of a step (docs/training-step.md), and how long it takes.
struct PhaseCost {
  std::string phase;
  double seconds = 0;  ///< of all micro-batches
};

struct StepCost {
  std::vector<PhaseCost> phases;  ///< in the order of the step
  double input = 0;               ///< seconds of one core to prepare a worker's inputs
  [[nodiscard]] double seconds() const;
  /// 0 where there is no such phase.
  [[nodiscard]] double of(const std::string& phase) const;
};

/// The part that limits the speed of a step, and its share of the step's time.
struct Bottleneck {
  std::string what;  ///< "decoding", "backbone", "classification layer" or "communication"
  double share = 0;
};
/// Returns decoding if a worker waits for its inputs, otherwise the longest part. Pure.
Bottleneck bottleneck_of(const StepCost& step);

/// How many times as long a phase takes as the model says; 1 for those that it does not have.
using Corrections = std::map<std::string, double>;

/// Of a batch of `batch` images of `pixels` pixels each a worker. Pure.
StepCost predict_step(const StepWork& work, std::int64_t batch, std::int64_t pixels,
                      const Cluster& cluster, const Corrections& corrections = {});

/// What a short run of a job says of the model: measured over predicted, of each phase that took
/// longer than a thousandth of the step in both. The phases of communication are corrected
/// together, because workers wait there for each other.
Corrections corrections(const StepCost& predicted, const StepCost& measured);

}  // namespace pfc
