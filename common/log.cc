#include "common/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "common/error.h"

namespace pfc {

const std::vector<std::string>& log_levels() {
  static const std::vector<std::string> kLevels{"trace",   "debug", "info",
                                                "warning", "error", "off"};
  return kLevels;
}

void set_up_log(const std::string& name, const std::string& level) {
  if (std::find(log_levels().begin(), log_levels().end(), level) == log_levels().end()) {
    throw InputError("--log-level " + level +
                     ": unknown level; expected trace, debug, info, warning, error or off");
  }
  auto logger = std::make_shared<spdlog::logger>(
      name, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern(name.empty() ? "%T %^%L%$ %v" : "%T %^%L%$ %n: %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace pfc
