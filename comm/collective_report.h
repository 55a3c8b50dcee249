// Finds the worker that the others wait for. Each worker writes into the store which collective it
// has begun last; a worker that is behind the others is named. For transports that do not report
// this themselves.
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
  std::uint64_t number = 0;  ///< counted from 1; 0: none yet
  std::string kind;          ///< "all_reduce"
  std::size_t bytes = 0;
};

/// "all_reduce of 40 bytes (number 17)".
std::string to_text(const Collective& collective);

/// The last collective that each worker has begun, in the store (borrowed) under the Comm's name.
/// Nothing here throws, because it is called to complete the message of another error.
class CollectiveReports {
 public:
  CollectiveReports(KeyValueStore& store, const std::string& comm_name, const Membership& me);

  /// Writes this worker's last collective.
  void tell(const Collective& newest) const;
  /// The last collective of each rank; nullopt for ranks that have written none within the
  /// patience, and for this worker.
  [[nodiscard]] std::vector<std::optional<Collective>> ask(
      std::chrono::milliseconds patience) const;
  /// name_culprits() of what all ranks have written within the patience, and, where the coordinator
  /// says it, what each of these ranks does. For a worker that has begun `mine`.
  [[nodiscard]] std::string culprits(const Collective& mine, std::span<const std::string> places,
                                     std::chrono::milliseconds patience) const;

 private:
  /// What the coordinator knows of a rank: "at step 120 in forward for 31 s". Empty: nothing.
  [[nodiscard]] std::string doing(Rank rank) const;
  [[nodiscard]] std::string key(Rank rank) const;

  KeyValueStore& store_;
  const std::string prefix_;
  const Membership me_;
};

/// Text for the error of a worker that has begun `mine`: which ranks are behind, which have begun
/// another collective, and which have written nothing. places: "127.0.0.1, GPU 1" of each rank.
std::string name_culprits(const Collective& mine, Rank me,
                          std::span<const std::optional<Collective>> reports,
                          std::span<const std::string> places);

}  // namespace pfc
