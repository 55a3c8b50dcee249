// Workers of two hosts as threads of a test. Host a has the output folder, host b another one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"
#include "worker/checkpoint/output_links.h"

namespace pfc::testing {

/// Ranks below `on_host_a` see the folder of rank 0.
class TwoHosts {
 public:
  TwoHosts(int workers, int on_host_a) : on_host_a_(on_host_a) {
    for (int rank = 0; rank < workers; ++rank) {
      hosts_.push_back(rank < on_host_a ? "a" : "b");
      meetings_.push_back(std::make_unique<Meeting>(2));
    }
  }

  [[nodiscard]] bool sees(int rank) const { return rank < on_host_a_; }
  [[nodiscard]] int workers() const { return static_cast<int>(hosts_.size()); }

  /// Returns the links of one worker.
  [[nodiscard]] OutputLinks links(int rank) const {
    OutputLinks links{.host = hosts_.front()};
    for (int other = 0; other < workers(); ++other) links.sees.push_back(sees(other));
    connect_links(links, rank, hosts_, [&](Rank other) {
      return std::make_unique<ThreadComm>(*meetings_[static_cast<std::size_t>(other)],
                                          rank == 0 ? 0 : 1);
    });
    return links;
  }

  /// Breaks a worker's connections, as the end of its process does.
  void lose(int rank) const { meetings_[static_cast<std::size_t>(rank)]->break_up(); }

 private:
  const int on_host_a_;
  std::vector<std::string> hosts_;
  std::vector<std::unique_ptr<Meeting>> meetings_;  // between rank 0 and each other worker
};

}  // namespace pfc::testing
