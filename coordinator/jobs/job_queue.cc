#include "coordinator/jobs/job_queue.h"

#include <algorithm>
#include <utility>

namespace pfc {

std::optional<Refusal> JobQueue::add(Job job) {
  if (waiting_.size() >= kMostWaiting) {
    return Refusal{.kind = Refusal::Kind::kOldGeneration,
                   .message = std::to_string(waiting_.size()) +
                              " jobs wait, so the queue is full; submit "
                              "this job when some of them have ended"};
  }
  if (bytes_ + job.json.size() > kMostBytes) {
    return Refusal{.kind = Refusal::Kind::kOldGeneration,
                   .message = "the waiting jobs have " + std::to_string(bytes_) +
                              " bytes and this job " + std::to_string(job.json.size()) +
                              ", but the queue holds at most " + std::to_string(kMostBytes) +
                              "; submit this job when some of them have ended"};
  }
  bytes_ += job.json.size();
  waiting_.push_back(std::move(job));
  return {};
}

Job JobQueue::take_at(std::deque<Job>::iterator place) {
  Job job = std::move(*place);
  waiting_.erase(place);
  bytes_ -= job.json.size();
  return job;
}

std::optional<Job> JobQueue::take() {
  if (waiting_.empty()) return {};
  return take_at(waiting_.begin());
}

std::optional<Job> JobQueue::take(std::string_view id) {
  const auto place = std::ranges::find(waiting_, id, &Job::id);
  if (place == waiting_.end()) return {};
  return take_at(place);
}

void JobQueue::remember(proto::EndedJob job) {
  *ended_.add_jobs() = std::move(job);
  while (ended_.jobs_size() > kMostEnded) ended_.mutable_jobs()->erase(ended_.jobs().begin());
}

const proto::EndedJob* JobQueue::find_ended(std::string_view id) const {
  const auto job = std::ranges::find_if(
      ended_.jobs(), [&](const proto::EndedJob& each) { return each.status().job_id() == id; });
  return job == ended_.jobs().end() ? nullptr : &*job;
}

}  // namespace pfc
