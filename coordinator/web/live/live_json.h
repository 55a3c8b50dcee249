// JSON for the page at /, read by coordinator/web/assets/page.js.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "coordinator/history/history.h"
#include "proto/coordinator.pb.h"

namespace pfc {

using LiveJson = nlohmann::ordered_json;

/// Returns the state of the job. Contains start times instead of durations, so that the text
/// changes only with the state.
LiveJson live_status(const proto::StatusReply& status, std::int64_t now_ms);
LiveJson live_hosts(const proto::StatusReply& status);
/// Returns an array per worker: rank, index of its host, slot, pid, state, step, phase, images per
/// second, bytes of memory, bytes of GPU memory, device, seconds of silence (0: less than 3),
/// slowness.
LiveJson live_workers(const proto::StatusReply& status);
/// Returns the job's keys and rank 0's start notes. `job_json`: empty without a job.
LiveJson live_plan(const std::string& job_json, const StartNotes& notes);
/// Returns seconds per step and phase, for all ranks or the kMostBars with the longest own work.
LiveJson live_phases(const PhaseTimes& phases);
inline constexpr std::size_t kMostBars = 32;
/// Returns the points from index `from` on as arrays: milliseconds, step, generation, loss, images
/// per second; for merged reports also the minimum and maximum of the
/// loss and of the images per second.
LiveJson live_curves(const Curve& curve, std::size_t from, bool cut);
/// Returns the events with a number above `after`.
LiveJson live_events(const EventLog& events, std::int64_t after);
/// Returns the waiting jobs, and the last ended ones.
LiveJson live_queue(const proto::QueueReply& queue);

}  // namespace pfc
