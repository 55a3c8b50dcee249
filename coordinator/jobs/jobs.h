// The coordinator's jobs: running, waiting and ended ones, and their logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "coordinator/cluster/agent_requests.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/jobs/job_queue.h"
#include "coordinator/rules/verdict.h"

namespace pfc {

/// Used on the event loop only. A job is named by its id or a prefix of it.
class Jobs {
 public:
  using LogRequests = AgentRequests<proto::LogChunk>;

  explicit Jobs(Cluster& cluster);

  // Requests.

  /// Appends a checked job to the queue.
  std::optional<Refusal> add(Job job);
  /// `submitter`: see Job::submitter.
  void submit(const proto::SubmitRequest& request, const std::string& submitter,
              const Answer<proto::SubmitReply>& answer);
  /// Returns Job::submitter of the job whose id begins with `begin`; an empty `begin` means
  /// last(). Returns nothing if there is no such job.
  [[nodiscard]] std::optional<std::string> submitter_of(const std::string& begin) const;
  void stop(const proto::StopRequest& request, const Answer<proto::StopReply>& answer);
  [[nodiscard]] proto::QueueReply list() const;
  /// Returns the running job, or else the last one that has ended; empty if there was none.
  [[nodiscard]] std::string last() const;
  void read_log(const proto::LogsRequest& request, const Answer<proto::LogsReply>& answer);

  // For the coordinator.

  /// Ends the running job, and a service (see Coordinator::stop()).
  void stop_all(const std::string& reason, bool urgent);
  /// Removes and returns the next job, if it may begin. Otherwise sets Cluster::reason.
  [[nodiscard]] std::optional<Job> take_next();
  /// Records the end of the running job.
  void remember(const Verdict& verdict);
  /// Returns who asked the service to end; empty: it is not ending.
  [[nodiscard]] const std::string& ending() const { return ending_; }
  /// Returns the result of the service. REQUIRES: it is ending.
  [[nodiscard]] Verdict end_of_service() const;
  [[nodiscard]] JobQueue& queue() { return queue_; }
  [[nodiscard]] const JobQueue& queue() const { return queue_; }
  [[nodiscard]] LogRequests& log_requests() { return log_requests_; }
  /// Number of refused submissions.
  [[nodiscard]] std::int64_t refused() const { return refused_; }
  void set_refused(std::int64_t count) { refused_ = count; }

 private:
  [[nodiscard]] std::string awaited_hosts() const;  ///< empty: the next job can begin
  void stop_running(const std::string& reason, bool urgent);
  void tell_waiting();
  /// Returns the id of the only job with this prefix.
  [[nodiscard]] std::variant<std::string, Refusal> find(const std::string& begin) const;
  void ask_for_log(const std::string& job_id, const std::string& host,
                   const proto::LogsRequest& request, const Answer<proto::LogsReply>& answer);
  /// Returns whether the job waits in the queue or for its hosts.
  [[nodiscard]] bool has_no_worker_yet(const std::string& job_id) const;
  /// Returns the host on which this rank runs or ran; empty if the job has no such rank.
  [[nodiscard]] std::string host_of(const std::string& job_id, Rank rank);

  Cluster& cluster_;
  JobQueue queue_;
  LogRequests log_requests_;
  std::int64_t refused_ = 0;
  std::string ending_;
  bool was_forced_ = false;  ///< the job that ran when the service was asked to end has failed
};

}  // namespace pfc
