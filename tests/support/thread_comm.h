// Collectives between threads of one process, to test several ranks in one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "common/error.h"

namespace pfc::testing {

/// Synchronises the threads of one group. If a thread throws or does not arrive within the
/// timeout, the other threads' waiting calls throw CommError.
class Meeting {
 public:
  explicit Meeting(int size, std::chrono::seconds timeout = std::chrono::seconds(60))
      : inputs_(static_cast<std::size_t>(size)), size_(size), timeout_(timeout) {}

  [[nodiscard]] int size() const { return size_; }

  /// Waits for the inputs of all ranks and calls `read` with them. Returns when all ranks have
  /// read, so that the caller may change its input.
  void meet(int rank, const void* input,
            const std::function<void(std::vector<const void*>&)>& read) {
    inputs_[static_cast<std::size_t>(rank)] = input;
    wait_for_all();
    read(inputs_);
    wait_for_all();
  }

  void break_up() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

 private:
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const long round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    const bool met = changed_.wait_for(lock, timeout_, [&] { return round_ != round || broken_; });
    if (!met || round_ == round) {
      broken_ = true;
      changed_.notify_all();
      throw CommError("thread comm: a rank has failed or not arrived");
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Each rank writes its own element before the first wait and reads all between the waits.
  std::vector<const void*> inputs_;
  long round_ = 0;  // guarded by mutex_, as are the next two
  int arrived_ = 0;
  bool broken_ = false;
  const int size_;
  const std::chrono::seconds timeout_;
};

/// Comm of one rank. Sums in rank order, so that every rank gets the same bits. Does not own the
/// Meeting.
class ThreadComm : public Comm {
 public:
  ThreadComm(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return meeting_.size(); }
  [[nodiscard]] std::string description() const override { return "threads"; }
  [[nodiscard]] CommCounters counters() const override { return count_.read(); }

  void all_gather(const Tensor& in, const Tensor& out) override {
    check(out.bytes() == in.bytes() * static_cast<std::size_t>(size()), "all_gather: wrong size");
    meet(CollectiveKind::kAllGather, in, [&](std::vector<const void*>& inputs) {
      auto* to = static_cast<std::byte*>(out.data);
      for (const void* from : inputs) {
        copy(to, from, in.bytes());
        to += in.bytes();
      }
    });
  }

  void all_reduce_sum(const Tensor& in_out) override {
    const auto n = static_cast<std::size_t>(in_out.elements());
    const std::vector<float> mine(in_out.f32(), in_out.f32() + n);
    meet(CollectiveKind::kAllReduce, Tensor(const_cast<float*>(mine.data()), in_out.shape),
         [&](auto& inputs) {
           sum_slices(inputs, 0, {in_out.f32(), n});
         });
  }

  void reduce_scatter_sum(const Tensor& in, const Tensor& out) override {
    check(in.elements() == out.elements() * size(), "reduce_scatter_sum: wrong size");
    const auto n = static_cast<std::size_t>(out.elements());
    static_cast<void>(in.f32());
    meet(CollectiveKind::kReduceScatter, in, [&](auto& inputs) {
      sum_slices(inputs, n * static_cast<std::size_t>(rank_), {out.f32(), n});
    });
  }

  void all_to_all(const Tensor& in, const Tensor& out) override {
    const auto workers = static_cast<std::size_t>(size());
    check(in.bytes() == out.bytes() && in.bytes() % workers == 0, "all_to_all: wrong size");
    const std::size_t block = in.bytes() / workers;
    meet(CollectiveKind::kAllToAll, in, [&](std::vector<const void*>& inputs) {
      auto* to = static_cast<std::byte*>(out.data);
      for (const void* from : inputs) {
        const std::size_t mine = block * static_cast<std::size_t>(rank_);
        copy(to, static_cast<const std::byte*>(from) + mine, block);
        to += block;
      }
    });
  }

  void broadcast(const Tensor& in_out, int root) override {
    meet(CollectiveKind::kBroadcast, in_out, [&](auto& inputs) {
      if (rank_ != root) {
        copy(in_out.data, inputs[static_cast<std::size_t>(root)], in_out.bytes());
      }
    });
  }

  void barrier() override {
    meet(CollectiveKind::kBarrier, Tensor{}, [](auto&) {});
  }
  void exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    std::uint64_t bytes = 0;
    for (const Sent& part : sent) bytes += part.bytes.size();
    const CommCount::Call call(count_, CollectiveKind::kExchange, bytes);
    count_.sent(CollectiveKind::kExchange, bytes);
    meeting_.meet(rank_, &sent, [&](std::vector<const void*>& inputs) {
      for (const Received& part : received) {
        const void* const from = inputs[static_cast<std::size_t>(part.rank)];
        for (const Sent& each : *static_cast<const std::span<const Sent>*>(from)) {
          if (each.rank != rank_) continue;
          check(each.bytes.size() == part.bytes.size(), "exchange: sizes differ");
          copy(part.bytes.data(), each.bytes.data(), part.bytes.size());
        }
      }
    });
  }
  void abort(const std::string&) override { meeting_.break_up(); }

 private:
  template <typename Read>
  void meet(CollectiveKind kind, const Tensor& in, Read read) {
    const CommCount::Call call(count_, kind, in.data == nullptr ? 0 : in.bytes());
    meeting_.meet(rank_, in.data, read);
  }

  /// A worker without rows passes nullptr, with which memcpy() is undefined even for 0 bytes.
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  static void sum_slices(const std::vector<const void*>& inputs, std::size_t first,
                         std::span<float> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      float sum = 0.f;
      for (const void* from : inputs) sum += static_cast<const float*>(from)[first + i];
      out[i] = sum;
    }
  }

  Meeting& meeting_;
  const int rank_;
  CommCount count_;
};

/// Runs `body(comm)` on one thread per rank and joins the threads. Rethrows the first exception
/// that is not a CommError, because a CommError may be a consequence of it.
inline void run_ranks(int world_size, const std::function<void(Comm&)>& body) {
  Meeting meeting(world_size);
  std::mutex mutex;
  std::exception_ptr first, comm_error;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadComm comm(meeting, rank);
      try {
        body(comm);
      } catch (const CommError&) {
        const std::lock_guard lock(mutex);
        comm_error = std::current_exception();
        meeting.break_up();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        meeting.break_up();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
  if (comm_error) std::rethrow_exception(comm_error);
}

}  // namespace pfc::testing
