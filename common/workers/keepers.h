// Chooses, for each worker, the worker that keeps a copy of its rows of class centres.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "common/ids.h"

namespace pfc {

/// Returns the keeper of each rank: element r is the worker that keeps a copy of rank r's rows.
/// Each worker keeps one copy. If no host has more than half of the workers, every keeper is on
/// another host, and the loss of a host loses no rows. Otherwise as many keepers as possible are on
/// other hosts. A single worker is its own keeper. `hosts`: by rank.
inline std::vector<Rank> keepers_of(const std::vector<std::string>& hosts) {
  const std::size_t workers = hosts.size();
  // Sorts the workers by host, and gives each copy to the worker `shift` places further on. If no
  // host has more than half of the workers, some shift sends every copy to another host.
  std::vector<std::size_t> order(workers);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t rank) { return hosts[rank]; });
  const auto keeper = [&](std::size_t place, std::size_t shift) {
    return order[(place + shift) % workers];
  };
  std::size_t best = workers > 1 ? 1 : 0;
  std::ptrdiff_t most = -1;
  for (std::size_t shift = 1; shift < workers; ++shift) {
    std::ptrdiff_t away = 0;
    for (std::size_t place = 0; place < workers; ++place) {
      away += hosts[order[place]] == hosts[keeper(place, shift)] ? 0 : 1;
    }
    if (away > most) most = away, best = shift;
  }
  std::vector<Rank> keepers(workers);
  for (std::size_t place = 0; place < workers; ++place) {
    keepers[order[place]] = static_cast<Rank>(keeper(place, best));
  }
  return keepers;
}

/// Returns the rank whose rows this worker keeps; -1 for a single worker.
inline Rank kept_by(const std::vector<Rank>& keepers, Rank me) {
  if (keepers.size() <= 1) return -1;
  return static_cast<Rank>(std::ranges::find(keepers, me) - keepers.begin());
}

}  // namespace pfc
