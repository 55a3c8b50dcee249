// Workers of one job as threads of a test.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/comm/ranks.h"
#include "worker/training_session.h"

namespace pfc::testing {

/// Returns the numbers of a float32 tensor; empty if it is null.
inline std::vector<float> on_host(Ops& ops, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor ? tensor.elements() : 0));
  if (tensor) ops.copy_to_host(values.data(), tensor);
  return values;
}

/// Creates the session of each of `workers` ranks on its own thread, and calls `use(rank, session)`
/// there. `asked_to_stop(rank)` answers SessionOptions::stop_requested; it may be null. If
/// `output_of` is not null, each rank is on its own host, and output_of(rank) is the job's `output`
/// there. `checkpoint_step`: the job's newest checkpoint known to the coordinator. Rethrows an
/// exception of a rank.
inline void with_sessions(const JobConfig& job, int workers,
                          const std::function<void(int rank, TrainingSession& session)>& use,
                          const std::function<bool(int rank)>& asked_to_stop = {},
                          const std::function<std::filesystem::path(int rank)>& output_of = {},
                          std::int64_t checkpoint_step = 0) {
  MemoryStore store;
  on_threads(workers, [&](int rank) {
    const auto stop_requested = [&] { return asked_to_stop && asked_to_stop(rank); };
    JobConfig own = job;
    if (output_of) own.output = output_of(rank);
    TrainingSession session(own, {.membership = {.rank = rank,
                                                 .world_size = workers,
                                                 .local_rank = output_of ? 0 : rank,
                                                 .local_world_size = output_of ? 1 : workers},
                                  .store = &store,
                                  .host = "host-" + std::to_string(rank),
                                  .stop_requested = stop_requested,
                                  .checkpoint_step = checkpoint_step});
    use(rank, session);
  });
}

}  // namespace pfc::testing
