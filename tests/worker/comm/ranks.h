// Ranks as threads of one process, connected over loopback.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/memory_store.h"
#include "worker/comm/make_comm.h"

namespace pfc {

inline CommOptions options_of(int rank, int world_size, const std::string& name = "test") {
  CommOptions options;
  options.membership = {.rank = rank, .world_size = world_size};
  options.name = name;
  options.connect_timeout = std::chrono::seconds(30);
  options.timeout = std::chrono::seconds(60);
  return options;
}

/// Runs `work` on a thread a rank and joins them. The first exception is thrown again.
inline void on_threads(int world_size, const std::function<void(int rank)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

inline void on_comms(int world_size, const std::function<void(Comm&)>& work) {
  MemoryStore store;
  on_threads(world_size, [&](int rank) {
    const auto comm = make_host_comm(options_of(rank, world_size), &store);
    work(*comm);
  });
}

}  // namespace pfc
