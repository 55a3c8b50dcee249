// What "precision": "auto" stands for in a job.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "common/config/config.h"
#include "common/ids.h"

namespace pfc {

/// What a worker tells the others of its device.
struct WorkerPrecisions {
  std::string host;
  std::vector<Precision> all;  ///< precisions_of() its device (kernels/make_ops.h)
};

struct ChosenPrecision {
  Precision precision = Precision::kFp32;
  std::string message;  ///< one line for the log
};

/// The fastest precision that all devices have. The message names a worker that lacks a faster one
/// which others have. REQUIRES: `workers` is by rank, and not empty. Pure.
ChosenPrecision choose_precision(std::span<const WorkerPrecisions> workers);

/// All workers tell theirs, and all choose the same. A null store: this worker is alone.
/// Collective. Throws CommError that names the ranks that have told nothing after the timeout.
ChosenPrecision agree_on_precision(KeyValueStore* store, const Membership& me,
                                   const WorkerPrecisions& mine, std::chrono::milliseconds timeout);

}  // namespace pfc
