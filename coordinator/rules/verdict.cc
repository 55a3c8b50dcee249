#include "coordinator/rules/verdict.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/counted.h"

namespace pfc {
namespace {

/// Returns the ranks whose incident has this text.
std::set<Rank> ranks_with(const GenerationState& generation, const std::string& what) {
  std::set<Rank> ranks;
  for (const Incident& incident : generation.incidents) {
    if (incident.rank && incident.what == what) ranks.insert(*incident.rank);
  }
  return ranks;
}

/// Returns "ranks 0-2, 5".
std::string ranks_text(const std::set<Rank>& ranks) {
  std::string text;
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first;
    while (std::next(last) != ranks.end() && *std::next(last) == *last + 1) ++last;
    text += (text.empty() ? "ranks " : ", ") + std::to_string(*first);
    if (last != first) text += "-" + std::to_string(*last);
    first = std::next(last);
  }
  return text;
}

/// Returns " (host b)" if all ranks are on one host, but not all workers of the job are. A report
/// of all workers or several hosts does not concern one host.
std::string where(const GenerationState& generation, const std::set<Rank>& ranks) {
  const auto host = [&](Rank rank) {
    const auto i = static_cast<std::size_t>(rank);
    return i < generation.workers.size() ? generation.workers[i].host : std::string();
  };
  const std::string first = host(*ranks.begin());
  const bool same = std::ranges::all_of(ranks, [&](Rank rank) { return host(rank) == first; });
  const bool whole_job = std::ranges::all_of(
      generation.workers, [&](const WorkerState& worker) { return worker.host == first; });
  return same && !whole_job && !first.empty() ? " (host " + first + ")" : "";
}

/// Returns whether nothing is lost if the worker is killed.
bool has_saved(const WorkerState& worker) { return has_ended_well(worker) || worker.paused; }

/// Returns " (after 2 restarts)"; empty without restarts.
std::string after_restarts(const ClusterState& state) {
  if (state.job.restarts == 0) return {};
  return " (after " + counted(state.job.restarts, "restart") + ")";
}

/// Returns "; left out: slot 1 of host b after 2 failures, the last: killed by signal 9
/// (SIGKILL)", for all past and present exclusions; empty if there were none.
std::string left_out_text(const ClusterState& state) {
  constexpr std::ptrdiff_t kShown = 8;
  std::string text;
  std::ptrdiff_t count = 0;
  for (const FailureRecord& record : state.job.blame.records) {
    if (!record.until || ++count > kShown) continue;
    text += (count == 1 ? "; left out: " : "; ") + name_of(record) + " after " +
            counted(record.failures, "failure") + ", the last: " + record.cause;
  }
  return count > kShown ? text + "; and " + std::to_string(count - kShown) + " more" : text;
}

Verdict failed(const ClusterState& state) {
  const Incident& root = root_cause(state.job.current);
  Verdict result{.kind = Verdict::Kind::kFailed, .at_start = root.at_start, .rank = root.rank};
  if (root.rank && state.job.current.workers.at(*root.rank).exit) {
    result.worker_exit_code = state.job.current.workers.at(*root.rank).exit->code;
  }
  result.message = "job failed: " + line_of(state.job.current, root) + after_restarts(state);
  return result;
}

Verdict stopped(const ClusterState& state) {
  const std::vector<WorkerState>& workers = state.job.current.workers;
  Verdict result{.kind = Verdict::Kind::kStopped, .rank = {}};
  const auto& stop = state.job.stop;
  result.host_left = stop && !stop->leaving.empty();
  result.message = "job stopped" + (!stop              ? ""
                                    : result.host_left ? ": " + stop->reason
                                                       : " by " + stop->reason);
  if (!workers.empty() && std::ranges::all_of(workers, has_saved)) return result;
  if (!may_have_trained(state)) {
    result.message += state.job.restarts == 0
                          ? " before training began"
                          : " while generation " + std::to_string(state.job.current.number) +
                                " began; the newest checkpoint is from an earlier generation";
    return result;
  }
  const WorkerState& forced = *std::ranges::find_if_not(workers, has_saved);
  result.kind = Verdict::Kind::kFailed;
  result.rank = forced.rank;
  result.message += ", but " + name_of(forced) + " had to be ended by force";
  return result;
}

/// Returns whether a host was drained while the job was about to restart after a failure.
bool left_while_restarting(const ClusterState& state) {
  const auto& incidents = state.job.current.incidents;
  return state.job.stop && !state.job.stop->leaving.empty() && state.job.current.counted &&
         std::ranges::none_of(incidents, [&](const Incident& incident) {
           return incident.permanent || incident.at > state.job.stop->at;
         });
}

Verdict stopped_while_restarting(const ClusterState& state) {
  return {
      .kind = Verdict::Kind::kStopped,
      .rank = {},
      .host_left = true,
      .message = "job stopped: " + state.job.stop->reason + ", while the job restarted after " +
                 line_of(state.job.current, root_cause(state.job.current)) +
                 "; start it again with \"resume\": true to continue from its newest checkpoint"};
}

}  // namespace

const Incident& root_cause(const GenerationState& generation) {
  return *std::ranges::min_element(generation.incidents, {}, [](const Incident& incident) {
    return std::pair(incident.kind, !incident.permanent);
  });  // the first one, if several are equal
}

std::string line_of(const GenerationState& generation, const Incident& incident) {
  const std::set<Rank> ranks = ranks_with(generation, incident.what);
  if (ranks.size() < 2) return incident.text();
  return ranks_text(ranks) + where(generation, ranks) + ": " + incident.what;
}

std::vector<std::string> incident_lines(const GenerationState& generation) {
  std::vector<std::string> lines;
  for (const Incident& incident : generation.incidents) {
    std::string line = line_of(generation, incident);
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

bool may_have_trained(const ClusterState& state) {
  return all_joined(state) &&
         !std::ranges::all_of(state.job.current.workers,
                              [](const auto& worker) { return worker.progress.starting(); });
}

Verdict verdict(const ClusterState& state) {
  const std::vector<WorkerState>& workers = state.job.current.workers;
  Verdict result{.kind = Verdict::Kind::kCompleted, .rank = {}, .message = "job completed"};
  if (!state.job.current.incidents.empty()) {
    result = left_while_restarting(state) ? stopped_while_restarting(state) : failed(state);
  } else if (workers.empty() || !std::ranges::all_of(workers, has_completed)) {
    result = stopped(state);
  }
  result.message += left_out_text(state);
  return result;
}

}  // namespace pfc
