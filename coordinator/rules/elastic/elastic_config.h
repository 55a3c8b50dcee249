// Limits on the number of workers, and on waits for missing ones.
#pragma once

#include <chrono>

namespace pfc {

struct ElasticConfig {
  int min_workers = 0;  ///< minimum to continue; 0: all wanted workers
  int max_workers = 0;  ///< maximum; 0: all slots
  int spares = 0;       ///< slots kept idle to replace lost ones
  /// How long to wait for a lost host if the job can continue without it.
  std::chrono::milliseconds host_patience{10'000};
  /// How long new slots wait for a checkpoint. Then one is requested.
  std::chrono::milliseconds join_patience{600'000};
  /// Pause before the second quick restart in a row (RestartBudget); doubles each time.
  std::chrono::milliseconds first_pause{1'000};
};

}  // namespace pfc
