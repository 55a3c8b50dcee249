#include "coordinator/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "common/one_line.h"

namespace pfc {
namespace {

// Returns to the first column and erases the line (ECMA-48).
constexpr std::string_view kErase = "\r\x1b[K";

constexpr std::string_view kName = "pfc-coordinator";
constexpr std::size_t kLongestLine = 8'192;  // agents split longer lines

/// Returns the longest line that does not wrap, because a wrapped line could not be erased.
std::size_t columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1U : 79U;
}

}  // namespace

void Terminal::worker_line(Rank rank, bool is_stderr, std::string_view line) {
  erase_progress();
  const bool marked = rank != 0 || line.starts_with(kName);
  std::string text = marked ? "[rank " + std::to_string(rank) + "] " : "";
  text += one_line(line, kLongestLine) + "\n";
  output_.write(is_stderr ? Output::Kind::kWorkerStderr : Output::Kind::kWorkerStdout, text);
  draw_progress();
}

void Terminal::note(std::string_view line, Severity severity) {
  erase_progress();
  output_.write(Output::Kind::kMessage, message_line(kName, severity, line, colour_) + "\n");
  draw_progress();
}

void Terminal::progress(std::string line) {
  progress_ = std::move(line);
  draw_progress();
}

void Terminal::clear_progress() {
  erase_progress();
  progress_.clear();
}

void Terminal::erase_progress() {
  if (interactive_ && !progress_.empty()) output_.write(Output::Kind::kProgress, kErase);
}

void Terminal::draw_progress() {
  if (!interactive_ || progress_.empty()) return;
  output_.write(Output::Kind::kProgress, std::string(kErase) + progress_.substr(0, columns()));
}

}  // namespace pfc
