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

// The shortest of so many counts. The pauses keep many workers' questions apart.
constexpr int kReadings = 8;
constexpr milliseconds kReadingPause{5};
constexpr milliseconds kSendTimeout{30'000};

/// So many of each that those of loaders, which are the most, take nothing from the others.
TraceRecorder::Limits limits_of(const TraceOrder& order) {
  TraceRecorder::Limits limits;
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(order.most_spans, 0));
  limits.spans = std::min(limits.spans, most);
  limits.loader_spans = std::min(limits.loader_spans, most);
  return limits;
}

}  // namespace

TraceTaker::TraceTaker(TraceRecorder& recorder, CoordinatorClient* client, std::string device)
    : recorder_(recorder), client_(client), device_(std::move(device)) {
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
    if (order.id <= newest_) return;  // it is told again with every connection
    newest_ = order.id;
    order_ = order;
    recorder_.stop();  // nobody wants what an earlier one is about any more
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
    } catch (const std::exception& error) {  // training goes on without it
      recorder_.stop();
      spdlog::warn("trace of steps {} to {}: {}", order.first_step, order.last_step, error.what());
    }
  }
}

void TraceTaker::take(const TraceOrder& order) {
  recorder_.arm(order.first_step, order.last_step, limits_of(order));
  {
    // The end or a newer order came between: it has not stopped what was armed after it.
    const std::lock_guard lock(mutex_);
    if (ended_ || order_) recorder_.stop();
  }
  const ClockOffset before = ask_clock(order.id);
  recorder_.wait();
  const TraceRecording recording = recorder_.take();
  send(order, recording, ClockMap(before, ask_clock(order.id)));
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

void TraceTaker::send(const TraceOrder& order, const TraceRecording& recording,
                      const ClockMap& clock) {
  TracePart::Summary summary{.first_step = recording.first_step,
                             .last_step = recording.last_step,
                             .dropped = recording.dropped,
                             .device = device_};
  if (device_ != "cpu") {
    summary.notes.emplace_back(
        "phases and collectives are what the host does: it enqueues work for the GPU, whose "
        "kernels "
        "are not in the trace");
  }
  auto left = static_cast<std::size_t>(std::max<std::int64_t>(order.most_spans, 0));
  for (const std::vector<TraceSpan>* all : {&recording.spans, &recording.loader_spans}) {
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

/// Throws CommError where there is no time left.
milliseconds TraceTaker::patience() {
  const std::lock_guard lock(mutex_);
  if (!send_until_) return kSendTimeout;
  const auto left = std::chrono::duration_cast<milliseconds>(*send_until_ - Clock::now());
  if (left <= milliseconds{0}) throw CommError("the coordinator does not take it in time");
  return left;
}

}  // namespace pfc
