#include "worker/comm/roll_call.h"

#include "common/clock.h"
#include "common/error.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

std::string seconds(milliseconds time) {
  std::string text = std::to_string(static_cast<double>(time.count()) / 1000.0);
  return text.substr(0, text.find('.') + 2) + " s";
}

}  // namespace

std::vector<std::string> roll_call(const CommOptions& options, const std::string& address,
                                   KeyValueStore& store) {
  const auto key = [&](int rank) { return options.name + "/here/" + std::to_string(rank); };
  const Membership& me = options.membership;
  const TimePoint deadline = Clock::now() + options.connect_timeout;
  store.set(key(me.rank), {address.begin(), address.end()});

  std::vector<std::string> addresses;
  std::string absent;
  std::string reason;
  for (int rank = 0; rank < me.world_size; ++rank) {
    // Late ranks are asked for too, with next to no patience: the error names all that are absent.
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    try {
      const auto value = store.get(key(rank), std::max(left, milliseconds(1)));
      addresses.emplace_back(value.begin(), value.end());
    } catch (const CommError& e) {
      addresses.emplace_back();
      absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
      reason = e.what();
    }
  }
  if (!absent.empty()) {
    throw CommError("comm '" + options.name + "', rank " + std::to_string(me.rank) + " of " +
                    std::to_string(me.world_size) + ": absent after " +
                    seconds(options.connect_timeout) + ": rank " + absent + " (" + reason + ")");
  }
  return addresses;
}

}  // namespace pfc
