#include "worker/start/compute_threads.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "comm/gather_texts.h"
#include "common/counted.h"
#include "common/error.h"
#include "worker/checkpoint/checkpoint_format.h"

namespace pfc {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerThreads, host, share, is_chosen, images, before)

namespace {
/// Returns the threads that computed the newest state among the states with as many workers as now;
/// zeros if there is none.
std::vector<int> threads_before(std::span<const WorkerThreads> workers) {
  const auto images = [&](const WorkerThreads& worker) {
    return worker.before.size() == workers.size() ? worker.images : -1;
  };
  const auto newest = std::ranges::max_element(workers, {}, images);
  if (images(*newest) < 0) return std::vector<int>(workers.size());
  return newest->before;
}

std::string difference(const WorkerThreads& worker, std::size_t rank, int before) {
  return fmt::format(
      "worker {} on host {} computes with {} instead of {} as before, because {}: the results may "
      "differ in their last bits",
      rank, worker.host, counted(worker.share, "thread"), before,
      worker.is_chosen ? "OMP_NUM_THREADS is set" : "its share of the cores is smaller");
}

}  // namespace

ChosenThreads choose_threads(std::span<const WorkerThreads> workers) {
  const std::vector<int> before = threads_before(workers);
  ChosenThreads chosen;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    const WorkerThreads& worker = workers[rank];
    const bool changes = before[rank] > 0 && worker.share > 0 && before[rank] != worker.share;
    const bool restored = changes && !worker.is_chosen && before[rank] < worker.share;
    chosen.of_rank.push_back(restored ? before[rank] : worker.share);
    if (changes && !restored && !chosen.differ) {
      chosen.differ = true;
      chosen.message = difference(worker, rank, before[rank]);
    }
    if (!restored || !chosen.message.empty()) continue;
    chosen.message = fmt::format(
        "worker {} on host {} computes with {} as before, to keep the results bit-identical; its "
        "share of the cores is {}; set OMP_NUM_THREADS to use all of them",
        rank, worker.host, counted(before[rank], "thread"), worker.share);
  }
  return chosen;
}

WorkerThreads threads_of_saved_state(const JobConfig& job, const std::string& job_id, Rank rank,
                                     const SnapshotStore* snapshots) {
  WorkerThreads newest;
  const auto add = [&](std::int64_t images, const std::vector<int>& threads) {
    if (images > newest.images) newest = {.images = images, .before = threads};
  };
  if (snapshots != nullptr) {
    for (const Snapshot& each : snapshots->all()) add(each.id.trained.images, each.threads);
  }
  try {
    for (const auto& each : checkpoint_format::published(job.output)) {
      if (!each.identity) continue;
      if (each.identity->job_id != job_id && !(rank == 0 && job.resume)) continue;
      add(each.identity->trained.images, each.identity->threads);
    }
  } catch (const StorageError&) {  // NOLINT(bugprone-empty-catch): reported on loading
  }
  return newest;
}

ChosenThreads agree_on_threads(Comm& host, const WorkerThreads& mine) {
  std::vector<WorkerThreads> workers;
  for (const std::string& text : gather_texts(host, nlohmann::json(mine).dump())) {
    workers.push_back(nlohmann::json::parse(text).get<WorkerThreads>());
  }
  return choose_threads(workers);
}

}  // namespace pfc
