#include "pfcctl/data/bench/bench.h"

#include <spdlog/fmt/fmt.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/one_line.h"
#include "data/augment/augmenter.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/order/global_order.h"

namespace pfc {

namespace {

/// Seconds that one thread has spent, and the number of images.
struct StageSeconds {
  double read = 0, decode = 0, augment = 0, copy = 0;
  std::int64_t images = 0;
};

/// A thread that does the work of a loader's thread and times each stage.
class StageThread {
 public:
  StageThread(const Dataset& dataset, const BenchOptions& options)
      : dataset_(dataset),
        size_{dataset.info().height, dataset.info().width},
        order_(dataset.info().images, options.loader.seed, options.loader.shuffle),
        augmenter_(options.loader.augmentation, options.loader.seed),
        rgb_(static_cast<std::size_t>(size_.height * size_.width * 3)),
        batch_(rgb_.size() * static_cast<std::size_t>(options.loader.batch_size)) {}

  void show(std::int64_t position) {
    const TimePoint begin = Clock::now();
    const Sample sample = dataset_.read(order_.at(0, position % dataset_.info().images), storage_);
    const TimePoint read = Clock::now();
    augmenter_.decode(decoder_, sample.encoded, 0, position, {rgb_, size_});
    const TimePoint decoded = Clock::now();
    augmenter_.augment(0, position, {rgb_, size_});
    const TimePoint augmented = Clock::now();
    std::memcpy(batch_.data() + place_, rgb_.data(), rgb_.size());
    place_ = (place_ + rgb_.size()) % batch_.size();
    const TimePoint end = Clock::now();
    spent.read += seconds(begin, read);
    spent.decode += seconds(read, decoded);
    spent.augment += seconds(decoded, augmented);
    spent.copy += seconds(augmented, end);
    ++spent.images;
  }

  StageSeconds spent;

 private:
  static double seconds(TimePoint begin, TimePoint end) {
    return std::chrono::duration<double>(end - begin).count();
  }

  const Dataset& dataset_;
  const ImageSize size_;
  const GlobalOrder order_;
  Augmenter augmenter_;
  ImageDecoder decoder_;
  ImageBuffer storage_;
  std::vector<std::uint8_t> rgb_, batch_;
  std::size_t place_ = 0;
};

/// Runs the threads until the time is up, or `tick` throws.
template <class Tick>
StageSeconds run_stages(const Dataset& dataset, const BenchOptions& options, int threads,
                        const Tick& tick) {
  std::vector<StageSeconds> spent(static_cast<std::size_t>(threads));
  std::vector<std::exception_ptr> errors(spent.size());
  std::atomic<std::int64_t> next = 0;
  const TimePoint start = Clock::now();
  {
    std::vector<std::jthread> crew;
    for (std::size_t t = 0; t < spent.size(); ++t) {
      crew.emplace_back([&, t](const std::stop_token& stop) {
        try {
          StageThread thread(dataset, options);
          do {  // at least one image, even if the thread starts late
            try {
              thread.show(next++);
            } catch (const DamagedImage&) {  // NOLINT(bugprone-empty-catch): training skips it too
            }
          } while (!stop.stop_requested() && seconds_since(start) < options.seconds);
          spent[t] = thread.spent;
        } catch (...) {
          errors[t] = std::current_exception();
        }
      });
    }
    while (seconds_since(start) < options.seconds) {
      tick();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  StageSeconds all;
  for (std::size_t t = 0; t < spent.size(); ++t) {
    if (errors[t]) std::rethrow_exception(errors[t]);
    all.read += spent[t].read;
    all.decode += spent[t].decode;
    all.augment += spent[t].augment;
    all.copy += spent[t].copy;
    all.images += spent[t].images;
  }
  return all;
}

template <class Tick>
double loader_rate(const Dataset& dataset, const BenchOptions& options, int threads,
                   const Tick& tick) {
  PrefetcherOptions loader = options.loader;
  loader.threads = threads;
  Prefetcher prefetcher(dataset, loader);
  // Batches that are ready at the start were prepared before the timing began.
  const int ready = prefetch_depth(threads);
  for (int i = 0; i < ready; ++i) {
    tick();
    prefetcher.recycle(prefetcher.next());
  }
  const TimePoint start = Clock::now();
  std::int64_t images = 0;
  while (images == 0 || seconds_since(start) < options.seconds) {
    tick();
    auto batch = prefetcher.next();
    images += batch->size;
    prefetcher.recycle(std::move(batch));
  }
  return static_cast<double>(images) / seconds_since(start);
}

double rate(int threads, std::int64_t images, double seconds) {
  return seconds > 0 ? threads * static_cast<double>(images) / seconds : 0;
}

}  // namespace

std::vector<BenchRow> bench_loader(const Dataset& dataset, const BenchOptions& options,
                                   const ShowProgress& progress) {
  const auto all = 2 * std::ssize(options.threads);
  std::int64_t done = 0;
  const auto tick = [&] {
    if (progress) progress(done, all);
  };
  std::vector<BenchRow> rows;
  for (const int threads : options.threads) {
    const StageSeconds spent = run_stages(dataset, options, threads, tick);
    ++done;
    rows.push_back({.threads = threads,
                    .read = rate(threads, spent.images, spent.read),
                    .decode = rate(threads, spent.images, spent.decode),
                    .augment = rate(threads, spent.images, spent.augment),
                    .copy = rate(threads, spent.images, spent.copy),
                    .loader = loader_rate(dataset, options, threads, tick)});
    ++done;
    tick();
  }
  return rows;
}

int threads_for(const std::vector<BenchRow>& rows, double images_per_second) {
  for (const BenchRow& row : rows) {
    if (row.loader >= images_per_second) return row.threads;
  }
  const double each = rows.back().loader / rows.back().threads;
  return static_cast<int>(std::min(std::ceil(images_per_second / each), 1e6));
}

std::string bench_text(const BenchReport& report, int cores) {
  std::string text = fmt::format("{:>7} {:>10} {:>10} {:>10} {:>10} {:>10}   images/s\n", "threads",
                                 "read", "decode", "augment", "copy", "loader");
  for (const BenchRow& row : report.rows) {
    text += fmt::format("{:>7} {:>10.0f} {:>10.0f} {:>10.0f} {:>10.0f} {:>10.0f}\n", row.threads,
                        row.read, row.decode, row.augment, row.copy, row.loader);
  }
  if (!report.appetite) return text;
  const Appetite& a = *report.appetite;
  const int threads = threads_for(report.rows, a.images_per_second);
  text += fmt::format("a worker on {} needs {:.0f} images/s: \"num_workers\": {} is enough\n",
                      a.machine, a.images_per_second, threads);
  const int of_host = threads * a.workers_of_host;
  if (of_host > cores) {
    text += fmt::format(
        "but {} with {} each need {} cores, and this host has {}: the input would slow down "
        "training\n",
        counted(a.workers_of_host, "worker"), counted(threads, "thread"), of_host, cores);
  }
  return text;
}

std::string bench_json(const BenchReport& report, int cores) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const BenchRow& row : report.rows) {
    rows.push_back({{"threads", row.threads},
                    {"read", row.read},
                    {"decode", row.decode},
                    {"augment", row.augment},
                    {"copy", row.copy},
                    {"loader", row.loader}});
  }
  nlohmann::ordered_json json{{"cores", cores}, {"images_per_second", rows}};
  if (const auto& a = report.appetite) {
    json["wanted"] = {{"machine", a->machine},
                      {"images_per_second", a->images_per_second},
                      {"workers_of_host", a->workers_of_host},
                      {"num_workers", threads_for(report.rows, a->images_per_second)}};
  }
  return json_text(json);
}

}  // namespace pfc
