#include "worker/input/input_watch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

namespace pfc {

std::optional<std::string> InputWatch::step(double seconds, double waited, double loader_seconds,
                                            double images, TimePoint now) {
  seconds_ += seconds;
  waited_ += waited;
  loader_seconds_ += loader_seconds;
  images_ += images;
  if (seconds_ < kWindow) return {};
  const double part = waited_ / seconds_;
  const double took = images_ / seconds_;
  const double could = loader_seconds_ > 0 ? images_ / loader_seconds_ * means_.loader_threads : 0;
  const double window = std::exchange(seconds_, 0);
  waited_ = loader_seconds_ = images_ = 0;
  if (part <= kAllowed || (warned_ && seconds_since(*warned_, now) < kPause)) return {};
  warned_ = now;
  const std::string threads = means_.loader_threads < means_.cores
                                  ? fmt::format(
                                        "raise num_workers from {} towards the {} cores "
                                        "that this worker has; ",
                                        means_.loader_threads, means_.cores)
                                  : "";
  return fmt::format(
      "the input slows training down: training waited for images during {:.0f} % of the last "
      "{:.0f} s. "
      "{} loader threads can deliver {:.0f} images/s, training used {:.0f}: {}store the images at "
      "the size of the network's input (pfcctl data pack --size), or read them from a faster disk "
      "(stage); see docs/runbooks/input-bound.md",
      100 * part, window, means_.loader_threads, could, took, threads);
}

}  // namespace pfc
