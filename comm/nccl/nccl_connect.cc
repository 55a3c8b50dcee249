#include "comm/nccl/nccl_connect.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "comm/failures/abort_switch.h"
#include "comm/failures/roll_call.h"
#include "comm/nccl/nccl_call.h"
#include "comm/network_interface.h"
#include "common/error.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

std::string address_of(const CommOptions& o) { return o.address.empty() ? "127.0.0.1" : o.address; }

/// One worker's attempt to connect.
class Connecting {
 public:
  Connecting(const CommOptions& options, int gpu, KeyValueStore& store)
      : o_(options),
        gpu_(gpu),
        store_(store),
        deadline_(Clock::now() + options.connect_timeout),
        places_(roll_call(options, nccl_place(options, gpu), store)) {}

  ncclComm_t run();
  [[nodiscard]] const std::vector<std::string>& places() const { return places_; }

 private:
  [[nodiscard]] ncclUniqueId exchange_id();
  [[nodiscard]] bool has_begun(Rank rank, milliseconds patience);
  [[nodiscard]] std::string missing_peers(const std::string& reason);
  [[nodiscard]] CommError error(const std::string& reason);

  [[nodiscard]] std::string begun_key(Rank rank) const {
    return o_.name + "/nccl/begun/" + std::to_string(rank);
  }
  [[nodiscard]] milliseconds time_left() const {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
    return std::max(left, milliseconds(1));
  }
  [[nodiscard]] std::string name_of(Rank rank) const {
    return "rank " + std::to_string(rank) + " (" + places_[static_cast<std::size_t>(rank)] + ")";
  }

  const CommOptions& o_;
  const int gpu_;
  KeyValueStore& store_;
  const TimePoint deadline_;
  const std::vector<std::string> places_;
};

// The id is opaque outside NCCL.
ncclUniqueId Connecting::exchange_id() {
  const std::string key = o_.name + "/nccl/id";
  ncclUniqueId id{};
  if (o_.membership.rank == 0) {
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) throw error(nccl_error_text(result, nullptr));
    store_.set(key, {id.internal, id.internal + sizeof(id.internal)});
    return id;
  }
  const std::vector<char> bytes = store_.get(key, time_left());
  if (bytes.size() != sizeof(id.internal)) {
    throw CommError("comm '" + o_.name + "': found an NCCL id of " + std::to_string(bytes.size()) +
                    " bytes in the store, expected " + std::to_string(sizeof(id.internal)));
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

ncclComm_t Connecting::run() {
  const ncclUniqueId id = exchange_id();
  store_.set(begun_key(o_.membership.rank), {'1'});
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclResult_t state =
      ncclCommInitRankConfig(&comm, o_.membership.world_size, id, o_.membership.rank, &config);
  std::string aborted;
  for (Pause pause; state == ncclInProgress && Clock::now() < deadline_ && aborted.empty();
       pause()) {
    if (o_.abort_switch != nullptr) aborted = o_.abort_switch->reason();
    state = nccl_state(comm);
  }
  if (state == ncclSuccess) return comm;
  const CommError failure =
      aborted.empty() ? error(nccl_error_text(state, comm)) : CommError(aborted);
  if (comm != nullptr) nccl_abort({comm}, gpu_, o_.connect_timeout);
  throw failure;
}

bool Connecting::has_begun(Rank rank, milliseconds patience) {
  try {
    store_.get(begun_key(rank), patience);
    return true;
  } catch (const CommError&) {
    return false;
  }
}

/// Returns the workers that have not begun to connect. If there are none, returns those whose
/// address is in NCCL's message.
std::string Connecting::missing_peers(const std::string& reason) {
  std::string absent, spoken_of;
  const auto add = [&](std::string& list, Rank rank) {
    list += (list.empty() ? "" : ", ") + name_of(rank);
  };
  milliseconds patience{1000};
  for (Rank rank = 0; rank < o_.membership.world_size; ++rank) {
    if (rank == o_.membership.rank) continue;
    const std::string& place = places_[static_cast<std::size_t>(rank)];
    if (!has_begun(rank, std::exchange(patience, milliseconds(1)))) add(absent, rank);
    if (reason.find(place.substr(0, place.find(','))) != std::string::npos) add(spoken_of, rank);
  }
  if (!absent.empty()) return absent + ", which has not begun to connect";
  return spoken_of.empty() ? "its peers" : spoken_of;
}

CommError Connecting::error(const std::string& reason) {
  const char* const chosen = std::getenv("NCCL_SOCKET_IFNAME");
  const std::string interface = chosen != nullptr ? std::string(chosen) + " (NCCL_SOCKET_IFNAME)"
                                                  : network_interface_of(address_of(o_));
  const std::string over = interface.empty() ? "" : " over interface " + interface;
  const double seconds = std::chrono::duration<double>(o_.connect_timeout).count();
  const std::string limit = std::to_string(seconds);
  return CommError(
      "comm '" + o_.name + "': " + name_of(o_.membership.rank) + " cannot connect through NCCL" +
      over + " to " + missing_peers(reason) + ", within " + limit.substr(0, limit.find('.') + 2) +
      " s: " + reason +
      "; choose another interface with NCCL_SOCKET_IFNAME, or set NCCL_DEBUG=INFO for details");
}

}  // namespace

std::string nccl_place(const CommOptions& options, int gpu) {
  return address_of(options) + ", GPU " + std::to_string(gpu);
}

ncclComm_t nccl_connect(const CommOptions& options, int gpu, KeyValueStore& store,
                        std::vector<std::string>& places) {
  Connecting connecting(options, gpu, store);
  places = connecting.places();
  return connecting.run();
}

}  // namespace pfc
