// Finds the worker that blocks a collective. Each worker writes the last collective that it began
// to the store; workers that are behind the others are named in the error. Used with transports
// that do not report this themselves.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "common/ids.h"

namespace pfc {

/// One collective of a Comm.
struct Collective {
  std::uint64_t number = 0;  ///< starts at 1; 0 before the first collective
  std::string kind;          ///< "all_reduce"
  std::size_t bytes = 0;
};

/// Returns text such as "all_reduce of 40 bytes (number 17)".
std::string to_text(const Collective& collective);

/// Reads and writes the last collective that each worker began. The entries are in the store (not
/// owned), under the Comm's name. Never throws, because its result completes the message of another
/// error.
class CollectiveReports {
 public:
  CollectiveReports(KeyValueStore& store, const std::string& comm_name, const Membership& me);

  /// Writes this worker's last collective.
  void tell(const Collective& newest) const;
  /// Returns the last collective of each rank. Entries are nullopt for this worker and for ranks
  /// that wrote nothing within `patience`.
  [[nodiscard]] std::vector<std::optional<Collective>> ask(
      std::chrono::milliseconds patience) const;
  /// Returns the result of name_culprits() for the collectives that all ranks have written within
  /// `patience`, and for `mine`, the collective that this worker began. If the coordinator knows
  /// what a named rank is doing, adds that.
  [[nodiscard]] std::string culprits(const Collective& mine, std::span<const std::string> places,
                                     std::chrono::milliseconds patience) const;

 private:
  /// Returns what the coordinator knows about a rank: "at step 120 in forward for 31 s". Empty if
  /// unknown.
  [[nodiscard]] std::string doing(Rank rank) const;
  [[nodiscard]] std::string key(Rank rank) const;

  KeyValueStore& store_;
  const std::string prefix_;
  const Membership me_;
};

/// Returns text for the error of a worker that began `mine`: which ranks are behind, which began
/// another collective, and which wrote nothing. places: "127.0.0.1, GPU 1" for each rank.
std::string name_culprits(const Collective& mine, Rank me,
                          std::span<const std::optional<Collective>> reports,
                          std::span<const std::string> places);

}  // namespace pfc
