#include "worker/trace_taker.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

// The reading with the shortest round trip is used. The pauses between readings spread the requests
// of many workers.
constexpr int kReadings = 8;
constexpr milliseconds kReadingPause{5};
constexpr milliseconds kSendTimeout{30'000};
// Timeout for the kernels that the last step has enqueued.
constexpr milliseconds kKernelsPatience{300};

/// Limits the spans of the loaders, which are the most numerous, separately, so that they do not
/// displace the other spans.
TraceRecorder::Limits limits_of(const TraceOrder& order) {
  TraceRecorder::Limits limits;
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(order.most_spans, 0));
  limits.spans = std::min(limits.spans, most);
  limits.loader_spans = std::min(limits.loader_spans, most);
  return limits;
}

void add_notes(TracePart::Summary& summary, const GpuActivity& gpu, const GpuSpans& kernels) {
  if (!kernels.note.empty()) summary.notes.push_back(kernels.note);
  if (!kernels.spans.empty()) return;
  const std::string why = gpu.problem.empty() ? "CUPTI reported none" : gpu.problem;
  summary.notes.push_back(
      "the GPU's kernels are not in the trace (" + why +
      "); phases and collectives show only when the host enqueues work for the GPU");
}

}  // namespace

TraceTaker::TraceTaker(TraceRecorder& recorder, CoordinatorClient* client, std::string device,
                       std::vector<std::string> cupti)
    : recorder_(recorder), client_(client), device_(std::move(device)), gpu_(std::move(cupti)) {
  if (client_ == nullptr) return;
  thread_ = std::thread([this] { run(); });
  client_->on_trace([this](const TraceOrder& order) { wanted(order); });
}

TraceTaker::~TraceTaker() {
  if (client_ == nullptr) return;
  client_->on_trace({});
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    send_until_ = Clock::now() + kLastParts;
  }
  changed_.notify_all();
  recorder_.stop();
  thread_.join();
}

void TraceTaker::wanted(const TraceOrder& order) {
  {
    const std::lock_guard lock(mutex_);
    if (order.id <= newest_) return;  // the order is repeated on every connection
    newest_ = order.id;
    order_ = order;
    recorder_.stop();  // a newer order replaces an older one
  }
  changed_.notify_all();
}

void TraceTaker::run() {
  ::pthread_setname_np(::pthread_self(), "pfc-trace");
  while (true) {
    TraceOrder order;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ended_ || order_; });
      if (ended_) return;
      order = *std::exchange(order_, {});
    }
    try {
      take(order);
    } catch (const std::exception& error) {  // training continues without the trace
      recorder_.stop();
      gpu_.cancel();
      spdlog::warn("trace of steps {} to {}: {}", order.first_step, order.last_step, error.what());
    }
  }
}

void TraceTaker::take(const TraceOrder& order) {
  recorder_.arm(order.first_step, order.last_step, limits_of(order));
  {
    // If training ended or a newer order arrived before arm() was called, that did not stop this
    // recording.
    const std::lock_guard lock(mutex_);
    if (ended_ || order_) recorder_.stop();
  }
  if (on_gpu()) gpu_.begin();
  const ClockOffset before = ask_clock(order.id);
  recorder_.wait();
  const GpuActivity gpu = gpu_.end(kKernelsPatience);
  TraceRecording recording = recorder_.take();
  send(order, recording, gpu, ClockMap(before, ask_clock(order.id)));
}

ClockOffset TraceTaker::ask_clock(std::int64_t trace) {
  std::array<ClockReading, kReadings> readings;
  for (ClockReading& reading : readings) {
    reading.asked = Clock::now();
    reading.there = client_->send_trace({.trace = trace}, patience());
    reading.answered = Clock::now();
    std::this_thread::sleep_for(kReadingPause);
  }
  return best_offset(readings);
}

// Sends phases and collectives first, then kernels, then loaders: if there are too many spans, the
// last ones are left out.
void TraceTaker::send(const TraceOrder& order, TraceRecording& recording, const GpuActivity& gpu,
                      const ClockMap& clock) {
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(order.most_spans, 0));
  const GpuSpans kernels =
      spans_of_gpu(gpu, recording, most - std::min(most, recording.spans.size()));
  TracePart::Summary summary{.first_step = recording.first_step,
                             .last_step = recording.last_step,
                             .dropped = recording.dropped + kernels.dropped,
                             .device = device_};
  if (on_gpu()) add_notes(summary, gpu, kernels);
  std::size_t left = most;
  const std::array<const std::vector<TraceSpan>*, 3> lists{&recording.spans, &kernels.spans,
                                                           &recording.loader_spans};
  for (const std::vector<TraceSpan>* all : lists) {
    const std::size_t sent = std::min(left, all->size());
    summary.dropped += all->size() - sent;
    left -= sent;
    for (std::size_t begin = 0; begin < sent; begin += kMostSpansOfPart) {
      client_->send_trace(
          {.trace = order.id,
           .tracks = recording.tracks,
           .spans = std::span(*all).subspan(begin, std::min(kMostSpansOfPart, sent - begin)),
           .clock = &clock},
          patience());
    }
  }
  client_->send_trace({.trace = order.id, .clock = &clock, .last = &summary}, patience());
}

/// Returns the time left to send. Throws CommError if there is none.
milliseconds TraceTaker::patience() {
  const std::lock_guard lock(mutex_);
  if (!send_until_) return kSendTimeout;
  const auto left = std::chrono::duration_cast<milliseconds>(*send_until_ - Clock::now());
  if (left <= milliseconds{0}) throw CommError("the coordinator did not accept it in time");
  return left;
}

}  // namespace pfc
