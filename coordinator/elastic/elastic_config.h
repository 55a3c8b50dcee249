// How many workers a job may have, and how long others wait for one that is missing.
#pragma once

#include <chrono>

namespace pfc {

struct ElasticConfig {
  int min_workers = 0;  ///< it goes on with so few; 0: with as many as it should have only
  int max_workers = 0;  ///< it never has more; 0: as many as the hosts have slots
  int spares = 0;       ///< slots that are kept idle, and take the place of a lost one
  /// For a lost host to come back, where the job may go on without it.
  std::chrono::milliseconds host_patience{10'000};
  /// For a checkpoint at which new slots can join; then one is asked for.
  std::chrono::milliseconds join_patience{600'000};
  /// Before the second quick restart; twice as long before each after it.
  std::chrono::milliseconds first_pause{1'000};
};

}  // namespace pfc
