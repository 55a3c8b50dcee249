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

// Whoever waits runs the work; a second one waits for the first. Without a cycle among the streams
// this cannot block for ever: a work only ever waits for works enqueued before it.
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
  captured_ = std::make_shared<Graph>();
}

Graph Stream::end_capture() {
  const std::lock_guard lock(mutex_);
  if (captured_ == nullptr) throw std::logic_error("simt: the end of a capture that was not begun");
  return std::move(*std::exchange(captured_, nullptr));
}

void Stream::join_capture(Stream& other) {
  std::shared_ptr<Graph> graph;
  {
    const std::lock_guard lock(mutex_);
    graph = captured_;
  }
  const std::lock_guard lock(other.mutex_);
  other.captured_ = graph;
}

bool Stream::capturing() {
  const std::lock_guard lock(mutex_);
  return captured_ != nullptr;
}

void Event::record(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  stream_ = stream;
  ticket_ = stream->ticket();
}

void Event::synchronize() {
  std::shared_ptr<Stream> stream;
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
    ticket = ticket_;
  }
  if (stream) stream->run_until(ticket);
}

bool Event::done() {
  const std::lock_guard lock(mutex_);
  return stream_ == nullptr || stream_->done(ticket_);
}

void Event::make_wait(Stream& stream) {
  std::shared_ptr<Stream> other;
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    other = stream_;
    ticket = ticket_;
  }
  if (other == nullptr || other.get() == &stream) return;
  if (other->capturing() != stream.capturing()) return other->join_capture(stream);
  if (other->capturing()) return;  // one graph already: in the order of its enqueueing
  stream.enqueue([other, ticket] { other->run_until(ticket); });
}

}  // namespace pfc::simt
