#include "coordinator/journal/saved_state.h"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "proto/journal.pb.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <typename T, typename State>
concept Any = std::same_as<std::remove_const_t<T>, State>;

// visit_fields() names each saved field once, for FieldWriter and FieldReader, so they cannot
// differ. restart() names a time that is set to the current time at a takeover. If the time is
// optional, the journal contains only whether it is set.

void visit_fields(Any<Leaving> auto& leaving, auto& v) {
  v(leaving.reason, leaving.within);
  v.restart(leaving.at);
}

void visit_fields(Any<HostAddress> auto& address, auto& v) {
  v(address.interface, address.address, address.prefix, address.mtu);
}

void visit_fields(Any<HostState> auto& host, auto& v) {
  v(host.slots, host.counts_gpus, host.registered, host.agent_id, host.once, host.leaving,
    host.former_agents, host.peer, host.address, host.addresses, host.chosen, host.cores,
    host.devices, host.gpus, host.no_gpu, host.first_rank, host.workers, host.incarnation);
  v.restart(host.came_at), v.restart(host.last_heard);
}

void visit_fields(Any<WorkerReport> auto& report, auto& v) {
  v(report.outcome, report.message);
  v.restart(report.at);
}

void visit_fields(Any<ProcessExit> auto& exit, auto& v) { v(exit.code, exit.signal); }

void visit_fields(Any<WorkerState> auto& worker, auto& v) {
  v(worker.rank, worker.host, worker.slot, worker.incarnation, worker.pid, worker.stayed,
    worker.joined, worker.left, worker.paused, worker.training, worker.report, worker.exit);
  v.restart(worker.last_heard), v.restart(worker.last_moved);
}

void visit_fields(Any<Incident> auto& incident, auto& v) {
  v(incident.kind, incident.rank, incident.host, incident.who, incident.what, incident.at_start,
    incident.permanent);
  v.restart(incident.at);
}

void visit_fields(Any<StopRequest> auto& stop, auto& v) {
  v(stop.reason, stop.urgent, stop.leaving, stop.within);
  v.restart(stop.at);
}

void visit_fields(Any<Regroup> auto& regroup, auto& v) {
  v(regroup.reason, regroup.within);
  v.restart(regroup.at);
}

void visit_fields(Any<GenerationState> auto& generation, auto& v) {
  v(generation.number, generation.incidents, generation.counted, generation.regroup,
    generation.stop_sent, generation.lost);
  v.restart(generation.started_at);
}

void visit_fields(Any<FailureRecord> auto& record, auto& v) {
  v(record.host, record.slot, record.failures, record.last, record.times_left_out, record.until,
    record.cause);
}

void visit_fields(Any<CrashSite> auto& site, auto& v) { v(site.rank, site.workers, site.step); }

void visit_fields(Any<RestartBudget> auto& budget, auto& v) {
  v(budget.spent, budget.counted_at, budget.quick, budget.not_before, budget.last_crash,
    budget.same_crash);
}

void visit_fields(Any<SavedState> auto& saved, auto& v) {
  v(saved.generation, saved.step, saved.at, saved.memory_step, saved.memory_generation,
    saved.checkpoint_step, saved.checkpoint_writer, saved.checkpoint_host, saved.sharing_is_known,
    saved.planned_workers);
}

void visit_fields(Any<JobState> auto& job, auto& v) {
  v(job.id, job.started_at, job.current, job.restarts, job.last_restart, job.blame.records,
    job.budget, job.saved, job.most_workers, job.least_workers, job.stop);
  v.restart(job.terminated_at), v.restart(job.killed_at);
}

void visit_fields(Any<NetworkState> auto& network, auto& v) {
  v(network.agents, network.failed, network.changed, network.text, network.apart);
  v.restart(network.ended_at);
}

/// Converts times between the steady clock and the wall clock, to the second, because their
/// difference varies by a fraction of a second from call to call.
struct Times {
  TimePoint now;
  WallTime wall;

  [[nodiscard]] std::int64_t saved(TimePoint time) const {
    if (time == TimePoint()) return 0;
    return to_ms(std::chrono::round<seconds>(wall) - std::chrono::round<seconds>(now - time));
  }
  /// Limits times to one year ago and one day ahead, because the wall clock may have been changed.
  [[nodiscard]] TimePoint restored(std::int64_t ms) const {
    if (ms == 0) return {};
    constexpr milliseconds kLongest = std::chrono::hours{24 * 365}, kAhead = std::chrono::hours{24};
    const auto at_most = std::min(std::max(ms, std::int64_t{0}), to_ms(wall) + kAhead.count());
    return now - std::clamp(milliseconds{to_ms(wall) - at_most}, -kAhead, kLongest);
  }
};

/// Writes fields as texts and as numbers of variable length (7 bits per byte, low bits first).
class FieldWriter {
 public:
  explicit FieldWriter(Times times = {}) : times_(times) {}

  void operator()(const auto&... fields) { (write(fields), ...); }
  void restart(TimePoint) {}
  void restart(const std::optional<TimePoint>& time) { write(time.has_value()); }
  std::string take() { return std::move(bytes_); }

 private:
  template <typename Field>
  void write(const Field& field) {
    if constexpr (std::is_integral_v<Field> || std::is_enum_v<Field>) {
      auto rest = static_cast<std::uint64_t>(field);
      for (; rest >= 128; rest >>= 7) bytes_ += static_cast<char>(rest | 128);
      bytes_ += static_cast<char>(rest);
    } else {
      visit_fields(field, *this);
    }
  }
  void write(milliseconds time) { write(time.count()); }
  void write(TimePoint time) { write(times_.saved(time)); }
  void write(const std::string& text) {
    write(text.size());
    bytes_ += text;
  }
  template <typename Value>
  void write(const std::optional<Value>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <typename Value>
  void write(const std::vector<Value>& values) {
    write(values.size());
    for (const Value& value : values) write(value);
  }

  const Times times_;
  std::string bytes_;
};

/// Reads what FieldWriter has written. Fields after the end of the bytes become 0 or empty.
class FieldReader {
 public:
  /// Times that start again are set to `times.now`.
  FieldReader(std::string_view bytes, Times times) : rest_(bytes), times_(times) {}

  void operator()(auto&... fields) { (read(fields), ...); }
  void restart(TimePoint& time) { time = times_.now; }
  void restart(std::optional<TimePoint>& time) {
    time = number() != 0 ? std::optional(times_.now) : std::nullopt;
  }

 private:
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) break;
    }
    return value;
  }
  template <typename Field>
  void read(Field& field) {
    if constexpr (std::is_integral_v<Field> || std::is_enum_v<Field>) {
      field = static_cast<Field>(number());
    } else {
      visit_fields(field, *this);
    }
  }
  void read(milliseconds& time) { time = milliseconds{static_cast<std::int64_t>(number())}; }
  void read(TimePoint& time) { time = times_.restored(static_cast<std::int64_t>(number())); }
  void read(std::string& text) {
    text = rest_.substr(0, number());
    rest_.remove_prefix(text.size());
  }
  template <typename Value>
  void read(std::optional<Value>& value) {
    value.reset();
    if (number() != 0) read(value.emplace());
  }
  template <typename Value>
  void read(std::vector<Value>& values) {
    values.clear();
    for (std::uint64_t left = number(); left > 0 && !rest_.empty(); --left) {
      read(values.emplace_back());
    }
  }

  std::string_view rest_;
  const Times times_;
};

std::string bytes_of(const auto& state) {
  FieldWriter writer;
  writer(state);
  return writer.take();
}

}  // namespace

std::string saved(const HostState& host) { return bytes_of(host); }

void restore(HostState& host, std::string_view bytes, TimePoint heard) {
  FieldReader(bytes, {.now = heard, .wall = {}})(host);
}

std::string saved(const WorkerState& worker) { return bytes_of(worker); }

WorkerState worker_from(std::string_view bytes, TimePoint heard) {
  WorkerState worker;
  FieldReader(bytes, {.now = heard, .wall = {}})(worker);
  return worker;
}

std::string saved_run(const ClusterState& state, const Run& run, TimePoint now, WallTime wall) {
  FieldWriter writer({.now = now, .wall = wall});
  writer(state.job, state.network, run.cause, run.progress.generation(), run.progress.images_seen(),
         run.progress.images_lost());
  return writer.take();
}

void restore_run(ClusterState& state, Run& run, std::string_view bytes, TimePoint now,
                 WallTime wall) {
  state.job = {};
  JobState& job = state.job;
  Generation counted = 0;
  std::int64_t seen = 0, lost = 0;
  FieldReader reader(bytes, {.now = now, .wall = wall});
  reader(job, state.network, run.cause, counted, seen, lost);
  run.progress.count_on(counted, seen, lost);
  run.started = wall - std::chrono::duration_cast<milliseconds>(now - job.started_at);
  if (job.current.number > 0) {
    for (HostState& host : state.hosts) host.registered = host.registered && host.workers > 0;
  } else {
    job.started_at = now;
  }
  if (!state.network.ended_at) {  // measure it again
    state.network = {.changed = state.network.changed, .text = state.network.text};
  }
}

void restore(GenerationState& generation, std::vector<WorkerState> workers) {
  generation.joined =
      static_cast<std::size_t>(std::ranges::count(workers, true, &WorkerState::joined));
  const bool was_connecting = std::ranges::any_of(
      workers, [](const WorkerState& worker) { return !worker.training && !worker.report; });
  if (was_connecting && std::ranges::none_of(workers, has_ended_well)) generation.lost = true;
  generation.workers = std::move(workers);
}

std::string saved(const Job& job) {
  proto::SavedJob saved;
  saved.set_id(job.id);
  saved.set_file(job.file);
  saved.set_json(job.json);
  saved.set_device(static_cast<int>(job.device));
  saved.set_submitted_ms(to_ms(job.submitted));
  saved.set_name(job.name);
  saved.set_submitter(job.submitter);
  return saved.SerializeAsString();
}

Job job_from(std::string_view bytes) {
  proto::SavedJob saved;
  if (!saved.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return {};
  return {.id = saved.id(),
          .file = saved.file(),
          .json = saved.json(),
          .device = static_cast<DeviceChoice>(saved.device()),
          .submitted = from_ms(saved.submitted_ms()),
          .name = saved.name(),
          .submitter = saved.submitter(),
          .output = output_of(saved.json())};
}

}  // namespace pfc
