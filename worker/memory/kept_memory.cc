#include "worker/memory/kept_memory.h"

#include <charconv>
#include <optional>
#include <vector>

namespace pfc {

KeptMemory kept_on_this_host(KeyValueStore& store, const Membership& me, const std::string& host,
                             std::uint64_t mine, std::chrono::milliseconds timeout) {
  const std::string prefix = "kept memory/";
  const std::string text = host + '\n' + std::to_string(mine);
  store.set(prefix + std::to_string(me.rank), {text.begin(), text.end()});
  KeptMemory kept{.mine = mine};
  for (const auto& value : store.get_all(prefix, me.world_size, timeout)) {
    if (!value) continue;
    const std::string told(value->begin(), value->end());
    const std::size_t end = told.rfind('\n');
    if (end == std::string::npos || told.substr(0, end) != host) continue;
    std::uint64_t bytes = 0;
    std::from_chars(told.data() + end + 1, told.data() + told.size(), bytes);
    kept.of_host += bytes;
  }
  return kept;
}

}  // namespace pfc
