#include "worker/start/precision.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>

#include "common/counted.h"
#include "common/error.h"
#include "kernels/make_ops.h"

namespace pfc {
namespace {

constexpr const char* kPrecisionPrefix = "precision/";

std::string name(Precision precision) { return name_of(activation_type(precision)); }

/// Returns the host's name and one digit per precision: "host-a\n12".
std::vector<char> written(const WorkerPrecisions& worker) {
  std::string text = worker.host + '\n';
  for (const Precision each : worker.all) text += static_cast<char>('0' + static_cast<int>(each));
  return {text.begin(), text.end()};
}

WorkerPrecisions read(const std::vector<char>& value) {
  const std::string text(value.begin(), value.end());
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos) return {};
  WorkerPrecisions worker{.host = text.substr(0, end), .all = {}};
  for (const Precision each : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    const char digit = static_cast<char>('0' + static_cast<int>(each));
    if (text.find(digit, end) != std::string::npos) worker.all.push_back(each);
  }
  return worker;
}

bool has(const WorkerPrecisions& worker, Precision precision) {
  return std::ranges::find(worker.all, precision) != worker.all.end();
}

}  // namespace

ChosenPrecision choose_precision(std::span<const WorkerPrecisions> workers) {
  std::vector<std::vector<Precision>> devices;
  for (const WorkerPrecisions& worker : workers) devices.push_back(worker.all);
  ChosenPrecision chosen{.precision = fastest_of_all(devices), .message = {}};
  chosen.message = fmt::format("precision auto: {}", name(chosen.precision));
  for (const std::vector<Precision>& each : devices) {
    const Precision its = fastest_of_all(std::span(&each, 1));
    if (its == chosen.precision) continue;
    const auto lacking = std::ranges::find_if(
        workers, [&](const WorkerPrecisions& worker) { return !has(worker, its); });
    chosen.message += fmt::format(", because the device of worker {} on host {} has no {}",
                                  lacking - workers.begin(), lacking->host, name(its));
    return chosen;
  }
  chosen.message += fmt::format(
      ", the fastest that {} supports",
      workers.size() == 1 ? "this device"
                          : "every device of the " + counted(std::ssize(workers), "worker"));
  return chosen;
}

ChosenPrecision agree_on_precision(KeyValueStore* store, const Membership& me,
                                   const WorkerPrecisions& mine,
                                   std::chrono::milliseconds timeout) {
  if (store == nullptr || me.world_size == 1) return choose_precision(std::span(&mine, 1));
  store->set(kPrecisionPrefix + std::to_string(me.rank), written(mine));
  std::vector<WorkerPrecisions> workers;
  std::vector<int> silent;
  for (const auto& value : store->get_all(kPrecisionPrefix, me.world_size, timeout)) {
    if (!value) silent.push_back(static_cast<int>(workers.size()));
    workers.push_back(value ? read(*value) : WorkerPrecisions{});
  }
  if (!silent.empty()) {
    throw CommError(fmt::format("precision auto: worker {} has not reported after {} s",
                                fmt::join(silent, ", "), timeout.count() / 1000));
  }
  return choose_precision(workers);
}

}  // namespace pfc
