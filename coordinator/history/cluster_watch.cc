#include "coordinator/history/cluster_watch.h"

#include <algorithm>
#include <utility>

#include "common/counted.h"

namespace pfc {
namespace {

ClusterEvent note(ClusterEvent::Kind kind, std::string text, Severity severity = Severity::kNote) {
  return {.kind = kind, .severity = severity, .rank = {}, .text = std::move(text)};
}

}  // namespace

std::vector<ClusterEvent> ClusterWatch::update(const ClusterState& state) {
  std::vector<ClusterEvent> found;
  see_hosts(state, found);
  see_job(state.job, found);
  see_generation(state.job.current, found);
  return found;
}

void ClusterWatch::see_hosts(const ClusterState& state, std::vector<ClusterEvent>& found) {
  hosts_.resize(state.hosts.size());
  for (std::size_t i = 0; i < state.hosts.size(); ++i) {
    const HostState& host = state.hosts[i];
    Host& known = hosts_[i];
    const bool is_new = host.registered && (!known.registered || known.agent_id != host.agent_id);
    if (is_new) {
      found.push_back(note(ClusterEvent::Kind::kHost, "host " + host.name + " has joined with " +
                                                          counted(host.slots, "slot")));
    } else if (known.registered && !host.registered) {
      found.push_back(note(ClusterEvent::Kind::kHost,
                           "host " + host.name + " is no longer registered", Severity::kWarning));
    }
    if (host.leaving && !std::exchange(known.leaving, true)) {
      found.push_back(note(ClusterEvent::Kind::kHost,
                           "host " + host.name + " is being drained (" + host.leaving->reason + ")",
                           Severity::kWarning));
    }
    known.leaving = host.leaving.has_value();
    known.registered = host.registered;
    if (is_new) known.agent_id = host.agent_id;
  }
}

void ClusterWatch::see_job(const JobState& job, std::vector<ClusterEvent>& found) {
  if (job.id != job_) {
    job_ = job.id;
    generation_ = 0;
    stops_ = false;
    saved_at_ = {};
  }
  if (job.stop && !std::exchange(stops_, true)) {
    found.push_back(note(ClusterEvent::Kind::kRequest, job.stop->leaving.empty()
                                                           ? "stop requested by " + job.stop->reason
                                                           : job.stop->reason + ": the job stops"));
  }
  // The time is empty if the generation has only resumed from this state.
  if (job.saved.at == TimePoint() || job.saved.at == saved_at_) return;
  if (saved_at_ != TimePoint() && job.saved.at - saved_at_ < kPause) return;
  saved_at_ = job.saved.at;
  found.push_back(note(ClusterEvent::Kind::kCheckpoint,
                       "the state of step " + std::to_string(job.saved.step) + " is saved"));
}

void ClusterWatch::see_generation(const GenerationState& current,
                                  std::vector<ClusterEvent>& found) {
  if (std::exchange(generation_, current.number) != current.number || current.number == 0) {
    incidents_ = failures_ = 0;
    lost_peers_ = begun_ = false;
  }
  if (current.begun && !std::exchange(begun_, true)) {
    found.push_back(note(ClusterEvent::Kind::kGeneration,
                         counted(std::ssize(current.workers), "worker") + " of generation " +
                             std::to_string(current.number) + " train together"));
  }
  for (; incidents_ < current.incidents.size(); ++incidents_) {
    const Incident& incident = current.incidents[incidents_];
    if (incident.kind == Incident::Kind::kPeerLost) {
      if (std::exchange(lost_peers_, true)) continue;
      ClusterEvent event = note(ClusterEvent::Kind::kFailure, incident.text(), Severity::kWarning);
      event.rank = incident.rank;
      found.push_back(std::move(event));
    } else if (failures_++ < kMostFailures) {
      ClusterEvent event = note(ClusterEvent::Kind::kFailure, incident.text(), Severity::kError);
      event.rank = incident.rank;
      found.push_back(std::move(event));
    }
  }
}

}  // namespace pfc
