#include "pfcctl/top.h"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <thread>

#include "common/command_line.h"
#include "common/counted.h"
#include "common/one_line.h"
#include "pfcctl/coordinator_call.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

constexpr std::size_t kOtherLines = 4;  // the job, the table's head and the last line
constexpr std::size_t kRowsElsewhere = 20;

struct TopOptions {
  Target target;
  double seconds = 1;
  int rows = 0;  // 0: as many as fit on the screen
  bool once = false;
};

/// Pads or cuts a name from another program to a column's width.
std::string padded_cell(const std::string& text, std::size_t width) {
  return fmt::format("{:<{}}", one_line(text, width), width);
}

std::string percent(double part) { return fmt::format("{:.0f} %", 100 * part); }

/// Returns the share of the step time; "-" before the first step.
std::string part_of_steps(const proto::Progress& progress, double seconds) {
  return progress.step_seconds() > 0 ? percent(seconds / progress.step_seconds()) : "-";
}

std::string gpu_text(const proto::GpuReading& gpu) {
  if (!gpu.has_utilisation()) return "-";
  return percent(gpu.utilisation()) + (gpu.throttled() ? "!" : "");
}

std::string memory_text(const proto::Progress& progress) {
  const proto::GpuReading& gpu = progress.gpu();
  const std::uint64_t bytes = gpu.has_memory_used() ? gpu.memory_used() : progress.resident_bytes();
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string row(const proto::WorkerStatus& worker) {
  const proto::Progress& progress = worker.progress();
  const std::string own = worker.own_step_seconds() > 0
                              ? fmt::format("{:.0f} ms", 1000 * worker.own_step_seconds())
                              : "-";
  const std::string times = worker.slowness() > 0 ? fmt::format("{:.1f}x", worker.slowness()) : "";
  return fmt::format("{:>5}  {} {} {} {:>9} {:>5} {:>6} {:>6} {:>6} {:>10} {:>7.0f} s\n",
                     worker.rank(), padded_cell(worker.host(), 20), padded_cell(worker.state(), 11),
                     padded_cell(progress.phase(), 14), own, times,
                     part_of_steps(progress, progress.own_seconds()),
                     part_of_steps(progress, progress.own_data_wait_seconds()),
                     gpu_text(progress.gpu()), memory_text(progress), worker.stuck_seconds());
}

/// Returns whether `a` is listed before `b`.
bool comes_first(const proto::WorkerStatus* a, const proto::WorkerStatus* b) {
  const auto trains = [](const proto::WorkerStatus* worker) {
    return worker->state() == "training";
  };
  if (trains(a) != trains(b)) return trains(b);
  // A NaN would break the order.
  const auto seconds = [](const proto::WorkerStatus* worker) {
    return std::isfinite(worker->own_step_seconds()) ? worker->own_step_seconds() : 0;
  };
  if (seconds(a) != seconds(b)) return seconds(a) > seconds(b);
  return a->rank() < b->rank();
}

std::size_t rows_of_screen() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > kOtherLines;
  return known ? size.ws_row - kOtherLines : kRowsElsewhere;
}

void show_top(const TopOptions& options) {
  const CoordinatorCall call(options.target.endpoint());
  const bool on_terminal = isatty(STDOUT_FILENO) == 1;
  while (std::cout) {
    auto status = call(&proto::CoordinatorService::Stub::Status, proto::StatusRequest());
    if (on_terminal && !options.once) std::cout << "\033[H\033[2J";  // clears the screen
    const std::size_t rows =
        options.rows > 0 ? static_cast<std::size_t>(options.rows) : rows_of_screen();
    slowest_first(status);
    std::cout << top_text(status, rows) << std::flush;
    if (options.once) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  }
}

}  // namespace

void slowest_first(proto::StatusReply& status) {
  std::sort(status.mutable_workers()->pointer_begin(), status.mutable_workers()->pointer_end(),
            comes_first);
}

std::string top_text(const proto::StatusReply& status, std::size_t most_rows) {
  std::string text = one_line(status.state(), 32);
  if (status.total_steps() > 0) {
    text += fmt::format(": step {} of {}, loss {:.4f}, {:.1f} samples/s", status.step(),
                        status.total_steps(), status.loss(), status.samples_per_second());
  }
  text += "\n";
  if (status.workers().empty()) return text;
  text += fmt::format("{:>5}  {:<20} {:<11} {:<14} {:>9} {:>5} {:>6} {:>6} {:>6} {:>10} {:>9}\n",
                      "rank", "host", "state", "phase", "own/step", "slow", "busy", "input", "gpu",
                      "memory", "moved");
  const auto all = static_cast<std::size_t>(status.workers_size());
  const std::size_t shown = std::min(most_rows, all);
  for (std::size_t i = 0; i < shown; ++i) text += row(status.workers(static_cast<int>(i)));
  if (shown < all) {
    text += "and " + counted(static_cast<std::int64_t>(all - shown), "faster rank") + "\n";
  }
  return text;
}

void add_top_verb(CLI::App& pfcctl) {
  CLI::App* verb =
      pfcctl.add_subcommand("top", "Shows how each worker spends its time, the slowest rank first");
  const auto options = std::make_shared<TopOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  verb->add_option("--every", options->seconds, "Time between updates: seconds, or 5s")
      ->transform(duration())
      ->capture_default_str();
  verb->add_option("--rows", options->rows,
                   "Number of workers to show. Default: as many as fit on the screen")
      ->check(whole_number(1, 1'000'000));
  verb->add_flag("--once", options->once, "Prints once and exits, for scripts");
  verb->footer(
      "own/step: median time per step in which the worker computes or waits for its own data,\n"
      "not for other workers; slow: ratio to that of the other workers; busy: that time as a\n"
      "fraction of the time of all steps so far; input: fraction spent waiting for its own data;\n"
      "gpu: utilisation, with ! if heat or power limits the clock; moved: time since its step or\n"
      "phase changed. Ctrl-C ends it. Example:\n"
      "  pfcctl top");
  verb->callback([options] { show_top(*options); });
}

}  // namespace pfc
