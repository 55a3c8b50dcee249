#include "common/log.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "common/error.h"
#include "common/one_line.h"

namespace pfc {
namespace {

constexpr std::string_view kRed = "\x1b[1;31m", kYellow = "\x1b[1;33m", kPlain = "\x1b[0m";

constexpr int kReaderMilliseconds = 2'000;

// Applies to the whole process, like stderr. Set before other threads start.
std::string g_colour = "auto";

/// Formats messages of spdlog with message_line().
class LineFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const Severity severity = message.level >= spdlog::level::err    ? Severity::kError
                              : message.level == spdlog::level::warn ? Severity::kWarning
                                                                     : Severity::kNote;
    const std::string line =
        message_line({message.logger_name.data(), message.logger_name.size()}, severity,
                     {message.payload.data(), message.payload.size()}, stderr_has_colour()) +
        "\n";
    out.append(line.data(), line.data() + line.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>();
  }
};

}  // namespace

std::string message_line(std::string_view program, Severity severity, std::string_view text,
                         bool colour) {
  std::string line = std::string(program) + ": ";
  if (severity != Severity::kNote) {
    const bool error = severity == Severity::kError;
    if (colour) line += error ? kRed : kYellow;
    line += error ? "error:" : "warning:";
    if (colour) line += kPlain;
    line += " ";
  }
  return line.append(one_line(text, text.size()));
}

void print_message(std::string_view program, Severity severity, std::string_view text) {
  const std::string line = message_line(program, severity, text, stderr_has_colour()) + "\n";
  std::string_view left = line;
  while (!left.empty()) {
    pollfd output{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const int ready = poll(&output, 1, kReaderMilliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    // A pipe that is ready accepts this many bytes at once.
    const ssize_t count =
        write(STDERR_FILENO, left.data(), std::min<std::size_t>(left.size(), PIPE_BUF));
    if (count < 0 && errno != EINTR && errno != EAGAIN) return;
    left.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
}

bool stderr_has_colour() {
  if (g_colour != "auto") return g_colour == "always";
  const char* const no_colour = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  const bool wanted = no_colour == nullptr || *no_colour == '\0';
  return wanted && isatty(STDERR_FILENO) == 1;
}

void set_colour(const std::string& when) { g_colour = when; }

const std::vector<std::string>& log_levels() {
  static const std::vector<std::string> kLevels{"trace",   "debug", "info",
                                                "warning", "error", "off"};
  return kLevels;
}

void set_up_log(const std::string& program, const std::string& level) {
  if (std::find(log_levels().begin(), log_levels().end(), level) == log_levels().end()) {
    throw InputError("--log-level " + level +
                     ": unknown level; expected trace, debug, info, warning, error or off");
  }
  auto logger =
      std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<LineFormatter>());
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace pfc
