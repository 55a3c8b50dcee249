// What the page at / shows, as JSON. coordinator/web/assets/page.js reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "coordinator/chronicle/chronicle.h"
#include "proto/coordinator.pb.h"

namespace pfc {

using LiveJson = nlohmann::ordered_json;

/// The job as a whole. Times that go on are not part of it, so that it is the same text until
/// something happens.
LiveJson live_status(const proto::StatusReply& status, std::int64_t now_ms);
LiveJson live_hosts(const proto::StatusReply& status);
/// An array for each worker: rank, number of its host, slot, pid, state, step, phase, images a
/// second, bytes of memory, bytes of its GPU's memory, device, seconds of silence (0: less than 3),
/// slowness.
LiveJson live_workers(const proto::StatusReply& status);
/// The job's keys, and what rank 0 has told at its start. `job_json`: empty: no job runs.
LiveJson live_plan(const std::string& job_json, const StartNotes& notes);
/// Seconds a step by phase: of all ranks, or of the kMostBars that have worked longest.
LiveJson live_phases(const PhaseTimes& phases);
inline constexpr std::size_t kMostBars = 32;
/// The points from number `from` on, each as an array: milliseconds, step, generation, loss, images
/// a second; where it is made of several reports, then least and most of both.
LiveJson live_curves(const History& history, std::size_t from, bool cut);
/// Those with a larger number.
LiveJson live_events(const EventLog& events, std::int64_t after);
/// The jobs that wait, and the last that have ended.
LiveJson live_queue(const proto::QueueReply& queue);

}  // namespace pfc
