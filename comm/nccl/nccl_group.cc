#include "comm/nccl/nccl_group.h"

#include <algorithm>
#include <utility>

#include "comm/nccl/nccl_call.h"
#include "comm/nccl/nccl_connect.h"
#include "common/error.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookEvery{20};
constexpr milliseconds kPeersPatience{1000};        // wait for peers' reports after a failure
constexpr std::chrono::seconds kCausePatience{40};  // covers an abort and the peers' reports
constexpr milliseconds kFinishPatience{10'000};
constexpr milliseconds kAbortPatience{30'000};  // upper limit; options_.timeout if that is shorter

/// Returns text such as "12.3 s".
std::string time_since(TimePoint start) {
  const std::string text = std::to_string(seconds_since(start));
  return text.substr(0, text.find('.') + 2) + " s";
}

}  // namespace

NcclGroup::NcclGroup(int gpu, const CommOptions& options, KeyValueStore& store)
    : gpu_(gpu), options_(options), store_(store), thread_([this] { watch(); }) {}

NcclGroup::~NcclGroup() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

NcclLink& NcclGroup::connect(const std::string& name) {
  CommOptions options = options_;
  options.name = name;
  std::vector<std::string> places;
  ncclComm_t const handle = nccl_connect(options, gpu_, store_, places);
  const std::lock_guard lock(mutex_);
  NcclLink& link = links_.emplace_back(options, store_);
  link.places = std::move(places);
  link.handle = handle;
  return link;
}

void NcclGroup::enqueue(NcclLink& link, const char* kind, std::size_t bytes, cudaStream_t stream,
                        const Call& call) {
  throw_if_failed();
  ncclResult_t state = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    link.newest = {link.newest.number + 1, kind, bytes};
    link.outstanding.push_back({link.newest, Clock::now(), nullptr});
    ++link.pending;
    if (!failure_) state = call(link.handle);
  }
  // NCCL enqueues in its own thread, and later work in the stream must come after that. If this
  // takes too long, the watching thread ends the loop.
  for (Pause pause; state == ncclInProgress; pause()) state = poll(link);

  std::unique_lock lock(mutex_);
  if (state != ncclSuccess && !failure_) fail(failure(link, nccl_error_text(state, link.handle)));
  if (failure_) await_cause(lock);
  std::unique_ptr<CudaEvent> event;
  if (!link.spare_events.empty()) {
    event = std::move(link.spare_events.back());
    link.spare_events.pop_back();
  }
  // Unlock first: when a kernel is stuck, the driver's queue may be full, and the thread that
  // aborts the kernel needs the mutex.
  lock.unlock();
  if (!event) event = std::make_unique<CudaEvent>();
  event->record(stream);
  lock.lock();
  link.outstanding.back().done = std::move(event);
}

ncclResult_t NcclGroup::poll(NcclLink& link) {
  const std::lock_guard lock(mutex_);
  return failure_ ? ncclSuccess : nccl_state(link.handle);
}

void NcclGroup::throw_if_failed() {
  std::unique_lock lock(mutex_);
  // NCCL may have failed since the watching thread last looked.
  if (!failure_) {
    if (std::optional<Failure> found = look()) fail(*std::move(found));
  }
  if (failure_) await_cause(lock);
}

void NcclGroup::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  Failure aborted = links_.empty() ? Failure{.what = why} : failure(links_.front(), why);
  aborted.ours = true;
  fail(std::move(aborted));
}

void NcclGroup::leave(NcclLink& link) {
  std::unique_lock lock(mutex_);
  if (link.handle == nullptr) return;
  if (!failure_) {
    if (std::optional<Failure> found = look()) fail(*std::move(found));
  }
  const bool idle = std::ranges::all_of(
      links_, [](const NcclLink& l) { return l.handle == nullptr || l.outstanding.empty(); });
  if (!failure_ && idle) {
    ncclComm_t const handle = std::exchange(link.handle, nullptr);
    lock.unlock();
    nccl_finish(handle, gpu_, kFinishPatience);
    return;
  }
  if (!failure_) {
    Failure abandoned = failure(link, "this worker has closed the connection");
    abandoned.ours = true;
    fail(std::move(abandoned));
  }
  changed_.wait_for(lock, kCausePatience, [this] { return !cause_.empty(); });
}

// The wait has a timeout, so that a worker exits even if NCCL's abort does not return.
void NcclGroup::await_cause(std::unique_lock<std::mutex>& lock) {
  changed_.wait_for(lock, kCausePatience, [this] { return !cause_.empty(); });
  throw CommError(cause_.empty() ? failure_->what : cause_);
}

void NcclGroup::watch() {
  static_cast<void>(cudaSetDevice(gpu_));
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (!failure_) {
      if (std::optional<Failure> found = look()) fail(*std::move(found));
    }
    if (failure_ && cause_.empty()) {
      end_all(lock);
    } else {
      tell_peers_of_delay(lock);
    }
    if (!ended_) changed_.wait_for(lock, kLookEvery);
  }
}

std::optional<NcclGroup::Failure> NcclGroup::look() {
  const TimePoint now = Clock::now();
  for (NcclLink& link : links_) {
    if (link.handle == nullptr) continue;
    observe(link, now);
    const ncclResult_t state = nccl_state(link.handle);
    if (state != ncclSuccess && state != ncclInProgress) {
      return failure(link, nccl_error_text(state, link.handle));
    }
    if (std::optional<Failure> found = stuck(link, now)) return found;
  }
  return std::nullopt;
}

void NcclGroup::observe(NcclLink& link, TimePoint now) {
  auto& outstanding = link.outstanding;
  // An error of the GPU itself appears where the host waits, as a DeviceError.
  while (!outstanding.empty() && outstanding.front().done &&
         cudaEventQuery(outstanding.front().done->get()) == cudaSuccess) {
    link.spare_events.push_back(std::move(outstanding.front().done));
    outstanding.pop_front();
    --link.pending;
    if (!outstanding.empty()) outstanding.front().since = std::max(outstanding.front().since, now);
  }
}

std::optional<NcclGroup::Failure> NcclGroup::stuck(NcclLink& link, TimePoint now) {
  if (link.outstanding.empty()) return std::nullopt;
  if (now - link.outstanding.front().since < options_.timeout) return std::nullopt;
  return failure(link, "timeout");
}

NcclGroup::Failure NcclGroup::failure(NcclLink& link, const std::string& reason) {
  Failure f{.link = &link, .collective = link.newest, .waiting = !link.outstanding.empty()};
  const Membership& me = options_.membership;
  std::string what = "comm '" + link.name + "', rank " + std::to_string(me.rank) + " of " +
                     std::to_string(me.world_size) + " (" +
                     link.places[static_cast<std::size_t>(me.rank)] + "): ";
  if (f.waiting) {
    const NcclLink::Outstanding& oldest = link.outstanding.front();
    f.collective = oldest.collective;
    what += to_text(f.collective) + " failed after " + time_since(oldest.since);
  } else if (link.newest.number > 0) {
    what += "the connection was lost after " + to_text(link.newest);
  } else {
    what += "the connection was lost before the first collective";
  }
  f.what = what + ": " + reason;
  return f;
}

// After half of the timeout, each waiting worker writes which collective it waits for. When the
// first worker times out, a worker that has written nothing is not waiting: it is the cause.
void NcclGroup::tell_peers_of_delay(std::unique_lock<std::mutex>& lock) {
  for (NcclLink& link : links_) {
    if (link.handle == nullptr || link.outstanding.empty() || link.told == link.newest.number ||
        Clock::now() - link.outstanding.front().since < options_.timeout / 2) {
      continue;
    }
    const Collective newest = link.newest;
    link.told = newest.number;
    lock.unlock();
    link.reports.tell(newest);
    lock.lock();
  }
}

// REQUIRES: the mutex is held. After this only the watching thread uses the handles.
void NcclGroup::fail(Failure f) {
  failure_ = std::move(f);
  for (NcclLink& link : links_) {
    if (link.handle != nullptr) doomed_.push_back(std::exchange(link.handle, nullptr));
  }
  changed_.notify_all();
}

void NcclGroup::end_all(std::unique_lock<std::mutex>& lock) {
  const Failure failed = *failure_;
  const std::vector<ncclComm_t> doomed = std::exchange(doomed_, {});
  std::vector<std::pair<const CollectiveReports*, Collective>> newest;
  for (const NcclLink& link : links_) newest.emplace_back(&link.reports, link.newest);
  lock.unlock();

  for (const auto& [reports, collective] : newest) reports->tell(collective);
  // Abort before reading the reports: an abort also fails the collectives of peers on other hosts,
  // which then write their own reports.
  const bool aborted = nccl_abort(doomed, gpu_, std::min(kAbortPatience, options_.timeout));
  std::string cause = failed.what;
  if (!failed.ours) {
    Collective mine = failed.collective;
    if (!failed.waiting) mine = {};  // `mine` is done, so no worker can be behind it
    cause += ": " + failed.link->reports.culprits(mine, failed.link->places, kPeersPatience);
  }
  if (!aborted) cause += "; NCCL's abort has not returned";

  lock.lock();
  cause_ = std::move(cause);
  changed_.notify_all();
}

}  // namespace pfc
