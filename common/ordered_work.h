// Runs work on several threads and delivers the results in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace pfc {

/// Calls make(0) .. make(n - 1) on `threads` threads (0: all cores), and take(i, result) on the
/// calling thread in the order of i. At most `ahead` results are in progress or waiting (0: 8 for
/// each thread). An exception in make or take stops the work and is rethrown.
template <class Result, class Make, class Take>
void ordered_work(std::int64_t n, int threads, const Make& make, const Take& take,
                  std::int64_t ahead = 0) {
  if (threads == 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (ahead == 0) ahead = 8 * std::int64_t{threads};
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t next = 0, taken = 0;         // guarded by mutex
  std::map<std::int64_t, Result> finished;  // guarded by mutex
  std::exception_ptr failure;               // guarded by mutex

  const auto fail = [&] {
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::current_exception();
    changed.notify_all();
  };
  const auto work = [&] {
    try {
      std::unique_lock lock(mutex);
      while (true) {
        changed.wait(lock, [&] { return failure || next >= n || next < taken + ahead; });
        if (failure || next >= n) return;
        const std::int64_t i = next++;
        lock.unlock();
        Result result = make(i);
        lock.lock();
        finished.emplace(i, std::move(result));
        changed.notify_all();
      }
    } catch (...) {
      fail();
    }
  };

  std::vector<std::jthread> crew;
  crew.reserve(static_cast<std::size_t>(threads));
  try {
    for (int t = 0; t < threads; ++t) crew.emplace_back(work);
    for (std::int64_t i = 0; i < n; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return failure || finished.contains(i); });
      if (failure) break;
      Result result = std::move(finished.extract(i).mapped());
      taken = i + 1;
      changed.notify_all();
      lock.unlock();
      take(i, std::move(result));
    }
  } catch (...) {
    fail();
  }
  crew.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace pfc
