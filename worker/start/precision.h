// Chooses the precision of a job with "precision": "auto".
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "common/config/config.h"
#include "common/ids.h"

namespace pfc {

/// What a worker reports to the others about its device.
struct WorkerPrecisions {
  std::string host;
  std::vector<Precision> all;  ///< precisions_of() of its device (kernels/make_ops.h)
};

struct ChosenPrecision {
  Precision precision = Precision::kFp32;
  std::string message;  ///< one line for the log
};

/// Returns the fastest precision that all devices support. If some device does not support a faster
/// precision, the message names its worker. REQUIRES: `workers` is by rank, and not empty. Pure.
ChosenPrecision choose_precision(std::span<const WorkerPrecisions> workers);

/// Exchanges the precisions of all workers and returns the same choice on each. A null store means
/// a single worker. Collective. Throws CommError that names the ranks that have not reported
/// within the timeout.
ChosenPrecision agree_on_precision(KeyValueStore* store, const Membership& me,
                                   const WorkerPrecisions& mine, std::chrono::milliseconds timeout);

}  // namespace pfc
