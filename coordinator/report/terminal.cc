#include "coordinator/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace pfc {
namespace {

// Back to the first column, and erase to the end of the line (ECMA-48).
constexpr std::string_view kErase = "\r\x1b[K";

/// The longest line that the terminal does not wrap: a wrapped line could not be erased.
std::size_t columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1U : 79U;
}

}  // namespace

void Terminal::worker_line(Rank rank, bool is_stderr, std::string_view line) {
  if (interactive_ && !progress_.empty()) err_ << kErase << std::flush;
  std::ostream& stream = is_stderr ? err_ : out_;
  if (rank != 0) stream << "[rank " << rank << "] ";
  stream << line << '\n' << std::flush;
  draw_progress();
}

void Terminal::note(std::string_view line, Severity severity) {
  if (interactive_ && !progress_.empty()) err_ << kErase;
  err_ << message_line("pfc-coordinator", severity, line, colour_) << '\n' << std::flush;
  draw_progress();
}

void Terminal::progress(std::string line) {
  progress_ = std::move(line);
  draw_progress();
}

void Terminal::clear_progress() {
  if (interactive_ && !progress_.empty()) err_ << kErase << std::flush;
  progress_.clear();
}

void Terminal::draw_progress() {
  if (!interactive_ || progress_.empty()) return;
  err_ << kErase << std::string_view(progress_).substr(0, columns()) << std::flush;
}

}  // namespace pfc
