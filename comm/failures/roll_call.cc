#include "comm/failures/roll_call.h"

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
  const std::string prefix = options.name + "/here/";
  const Membership& me = options.membership;
  store.set(prefix + std::to_string(me.rank), {address.begin(), address.end()});

  std::vector<std::string> addresses;
  std::string absent;
  for (const auto& value : store.get_all(prefix, me.world_size, options.connect_timeout)) {
    if (!value) absent += (absent.empty() ? "" : ", ") + std::to_string(addresses.size());
    addresses.emplace_back(value ? std::string(value->begin(), value->end()) : "");
  }
  if (!absent.empty()) {
    throw CommError("comm '" + options.name + "', rank " + std::to_string(me.rank) + " of " +
                    std::to_string(me.world_size) + ": nothing received in " +
                    seconds(options.connect_timeout) + " from rank " + absent);
  }
  return addresses;
}

}  // namespace pfc
