#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <system_error>
#include <thread>

#include "common/error.h"
#include "data/reading/async_reader.h"

namespace pfc {

namespace {

class RingReader final : public AsyncReader {
 public:
  explicit RingReader(int depth) : depth_(depth) {
    usable_ = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0) == 0;
    if (!usable_ || can_read()) return;
    io_uring_queue_exit(&ring_);
    usable_ = false;
  }
  ~RingReader() override {
    if (!usable_) return;
    // Waits, because the kernel writes to the callers' memory until the reads are finished.
    try {
      while (under_way_ > 0) finish();
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): nothing more can be done
    }
    io_uring_queue_exit(&ring_);
  }
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  [[nodiscard]] bool usable() const { return usable_; }
  [[nodiscard]] int depth() const override { return depth_; }
  [[nodiscard]] int under_way() const override { return under_way_; }

  void start(FileRead& read) override {
    check(under_way_ < depth_, "AsyncReader: too many reads");
    read.got = 0;
    ++under_way_;
    enqueue(read);
  }

  FileRead& finish() override {
    check(under_way_ > 0, "AsyncReader: no read is under way");
    while (true) {
      io_uring_cqe* done = nullptr;
      // First takes a completed read without a system call; meanwhile new reads accumulate.
      if (io_uring_peek_cqe(&ring_, &done) != 0) {
        submit_and_wait();
        continue;
      }
      auto& read = *static_cast<FileRead*>(io_uring_cqe_get_data(done));
      const int result = done->res;
      io_uring_cqe_seen(&ring_, done);
      if (result > 0) read.got += static_cast<std::size_t>(result);
      const bool again = result == -EINTR || result == -EAGAIN;
      if (again || (result > 0 && read.got < read.to.size())) {
        enqueue(read);
        continue;
      }
      --under_way_;
      return read;
    }
  }

 private:
  [[nodiscard]] bool can_read() {
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
    const bool can = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
    io_uring_free_probe(probe);
    return can;
  }

  void enqueue(FileRead& read) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {  // the queue is full of unsubmitted entries
      submit(0);
      entry = io_uring_get_sqe(&ring_);
      check(entry != nullptr, "AsyncReader: no room in the ring");
    }
    const std::span<std::byte> rest = read.to.subspan(read.got);
    const auto most = std::size_t{std::numeric_limits<int>::max()};
    io_uring_prep_read(entry, read.fd, rest.data(),
                       static_cast<unsigned>(std::min(rest.size(), most)), read.offset + read.got);
    io_uring_sqe_set_data(entry, &read);
  }

  void submit_and_wait() { submit(1); }
  void submit(unsigned wait_for) {
    int result = io_uring_submit_and_wait(&ring_, wait_for);
    if (result == -EAGAIN || result == -EBUSY) {
      // The kernel is temporarily out of memory for requests. Reads in progress will finish.
      if (under_way_ > static_cast<int>(io_uring_sq_ready(&ring_))) {
        io_uring_cqe* done = nullptr;
        result = io_uring_wait_cqe(&ring_, &done);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
    }
    if (result >= 0 || result == -EINTR || result == -EAGAIN) return;
    throw std::system_error(-result, std::generic_category(), "io_uring");
  }

  const int depth_;
  io_uring ring_{};
  bool usable_ = false;
  int under_way_ = 0;
};

}  // namespace

std::unique_ptr<AsyncReader> make_ring_reader(int depth) {
  auto reader = std::make_unique<RingReader>(depth);
  if (!reader->usable()) return nullptr;
  return reader;
}

}  // namespace pfc
