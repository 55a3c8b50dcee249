#include "data/layouts/staged_names.h"

#include <spdlog/fmt/fmt.h>

namespace pfc {

std::string staged_shard_name(std::size_t number, const std::filesystem::path& shard) {
  return fmt::format("{:06}-{}", number, shard.filename().string());
}

std::string name_before_staging(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (!file.parent_path().filename().string().starts_with(kStagedFolder)) return name;
  const std::size_t digits = name.find_first_not_of("0123456789");
  const bool numbered = digits != std::string::npos && digits >= 6 && name[digits] == '-';
  return numbered ? name.substr(digits + 1) : name;
}

}  // namespace pfc
