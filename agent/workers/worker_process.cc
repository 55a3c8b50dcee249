#include "agent/workers/worker_process.h"

#include <boost/asio/buffer.hpp>
#include <utility>

namespace pfc {
namespace {

constexpr std::size_t kLastLines = 20;
// Longest wait for the end of the output after the worker's end, because a process that the worker
// started may keep the pipes open.
constexpr std::chrono::milliseconds kDrain{500};

}  // namespace

std::shared_ptr<WorkerProcess> WorkerProcess::start(boost::asio::io_context& loop,
                                                    const SpawnOptions& options, Handler handler) {
  std::shared_ptr<WorkerProcess> worker(new WorkerProcess(loop, options, std::move(handler)));
  worker->read(worker->out_);
  worker->read(worker->err_);
  return worker;
}

WorkerProcess::WorkerProcess(boost::asio::io_context& loop, const SpawnOptions& options,
                             Handler handler)
    : process_(options),
      handler_(std::move(handler)),
      out_{
          .pipe = {loop, process_.take_stdout()}, .is_stderr = false, .splitter = {}, .buffer = {}},
      err_{.pipe = {loop, process_.take_stderr()}, .is_stderr = true, .splitter = {}, .buffer = {}},
      drain_(loop) {}

void WorkerProcess::read(Stream& stream) {
  stream.pipe.async_read_some(
      boost::asio::buffer(stream.buffer),
      [self = shared_from_this(), &stream](const boost::system::error_code& error,
                                           std::size_t count) {
        if (error) {
          stream.open = false;
          self->give(stream, stream.splitter.flush());
          return self->end_if_done(false);
        }
        self->give(stream, stream.splitter.feed({stream.buffer.data(), count}));
        self->read(stream);
      });
}

void WorkerProcess::give(const Stream& stream, std::vector<std::string> lines) {
  if (lines.empty()) return;
  if (stream.is_stderr) {
    last_stderr_.insert(last_stderr_.end(), lines.begin(), lines.end());
    while (last_stderr_.size() > kLastLines) last_stderr_.pop_front();
  }
  if (handler_.output) handler_.output(stream.is_stderr, std::move(lines));
}

void WorkerProcess::look() {
  if (exit_) return;
  exit_ = process_.poll();
  if (!exit_) return;
  drain_.expires_after(kDrain);
  drain_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->end_if_done(true);
  });
  end_if_done(false);
}

void WorkerProcess::abandon() {
  handler_ = {};
  drain_.cancel();
  out_.pipe.close();
  err_.pipe.close();
}

void WorkerProcess::end_if_done(bool whatever_is_open) {
  const bool drained = !out_.open && !err_.open;
  if (!exit_ || !(drained || whatever_is_open)) return;
  drain_.cancel();
  if (!handler_.ended) return;
  const auto ended = std::exchange(handler_, {}).ended;
  ended(*exit_, {last_stderr_.begin(), last_stderr_.end()});
}

}  // namespace pfc
