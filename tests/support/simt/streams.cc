#include "tests/support/simt/streams.h"

#include <stdexcept>
#include <utility>

namespace pfc::simt {

void Stream::enqueue(Work work) {
  const std::lock_guard lock(mutex_);
  if (captured_ != nullptr) {
    captured_->push_back(std::move(work));
    return;
  }
  queue_.push_back(std::move(work));
  ++enqueued_;
}

std::uint64_t Stream::ticket() {
  const std::lock_guard lock(mutex_);
  return enqueued_;
}

void Stream::synchronize() {
  if (capturing()) throw std::logic_error("simt: a stream was waited for while it is captured");
  run_until(ticket());
}

// The waiting thread runs the work; a second thread waits for the first. Deadlock is only possible
// if streams wait in a cycle, because work only waits for work that was enqueued earlier.
void Stream::run_until(std::uint64_t ticket) {
  if (done_ >= ticket) return;
  const std::lock_guard running(running_);
  while (done_ < ticket) {
    Work work;
    {
      const std::lock_guard lock(mutex_);
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      work();
    } catch (...) {
      ++done_;
      throw;
    }
    ++done_;
  }
}

void Stream::begin_capture() {
  const std::lock_guard lock(mutex_);
  captured_ = std::make_unique<Graph>();
}

Graph Stream::end_capture() {
  const std::lock_guard lock(mutex_);
  if (captured_ == nullptr) throw std::logic_error("simt: the end of a capture that was not begun");
  return std::move(*std::exchange(captured_, {}));
}

bool Stream::capturing() {
  const std::lock_guard lock(mutex_);
  return captured_ != nullptr;
}

void Event::record(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  point_ = {stream, stream->ticket(), stream->capturing()};
}

Event::Point Event::point() {
  const std::lock_guard lock(mutex_);
  // CUDA rejects such events too (cudaErrorCapturedEvent).
  if (point_.captured) throw std::logic_error("simt: an event of a graph was used outside it");
  return point_;
}

void Event::synchronize() {
  const Point point = this->point();
  if (point.stream) point.stream->run_until(point.ticket);
}

bool Event::done() {
  const Point point = this->point();
  return point.stream == nullptr || point.stream->done(point.ticket);
}

void Event::make_wait(Stream& stream) {
  const Point point = this->point();
  if (point.stream == nullptr || point.stream.get() == &stream) return;
  if (stream.capturing()) {
    throw std::logic_error("simt: a graph waits for an event from outside it");
  }
  stream.enqueue([point] { point.stream->run_until(point.ticket); });
}

}  // namespace pfc::simt
