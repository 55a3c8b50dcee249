#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/error.h"
#include "data/reading/async_reader.h"

namespace pfc {

namespace {

constexpr int kMostThreads = 16;

void read_whole(FileRead& read) {
  while (read.got < read.to.size()) {
    const std::span<std::byte> rest = read.to.subspan(read.got);
    const ssize_t n =
        ::pread(read.fd, rest.data(), rest.size(), static_cast<off_t>(read.offset + read.got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    read.got += static_cast<std::size_t>(n);
  }
}

class ThreadReader final : public AsyncReader {
 public:
  explicit ThreadReader(int depth) : depth_(depth) {
    for (int i = 0; i < std::min(depth, kMostThreads); ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }
  ~ThreadReader() override {
    for (std::jthread& thread : threads_) thread.request_stop();
    {
      const std::lock_guard lock(mutex_);
      waiting_.clear();  // these have not started, so their memory is not written to
    }
    threads_.clear();
  }
  ThreadReader(const ThreadReader&) = delete;
  ThreadReader& operator=(const ThreadReader&) = delete;

  [[nodiscard]] int depth() const override { return depth_; }
  [[nodiscard]] int under_way() const override { return under_way_; }

  void start(FileRead& read) override {
    check(under_way_ < depth_, "AsyncReader: too many reads");
    read.got = 0;
    ++under_way_;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(&read);
    }
    to_do_.notify_one();
  }

  FileRead& finish() override {
    check(under_way_ > 0, "AsyncReader: no read is under way");
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return !done_.empty(); });
    FileRead& read = *done_.front();
    done_.pop_front();
    --under_way_;
    return read;
  }

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (to_do_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
      FileRead& read = *waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      read_whole(read);
      lock.lock();
      done_.push_back(&read);
      finished_.notify_one();
    }
  }

  const int depth_;
  int under_way_ = 0;  // used only by the caller's thread

  std::mutex mutex_;
  std::condition_variable_any to_do_;
  std::condition_variable finished_;
  std::deque<FileRead*> waiting_;  // guarded by mutex_
  std::deque<FileRead*> done_;     // guarded by mutex_

  std::vector<std::jthread> threads_;  // last, because they use all of the above
};

}  // namespace

std::unique_ptr<AsyncReader> make_thread_reader(int depth) {
  return std::make_unique<ThreadReader>(depth);
}

}  // namespace pfc
