#include "worker/report/step_dump.h"

#include <cstdio>
#include <exception>

#include "comm/rank_zero.h"
#include "common/config/config.h"
#include "common/error.h"
#include "worker/checkpoint/checkpoint.h"

namespace pfc {
namespace {

std::filesystem::path part_path(std::int64_t step, const Comm& comm) {
  char folder[48], file[48];
  std::snprintf(folder, sizeof folder, "not-finite-step-%09lld", static_cast<long long>(step));
  std::snprintf(file, sizeof file, "head-%05d-of-%05d.safetensors", comm.rank(), comm.size());
  return std::filesystem::path(folder) / file;
}

}  // namespace

// Returns the rest of the message. It names no rank: if all workers report the same text, the
// coordinator prints it once. An error in writing must not hide that a value is not finite.
std::string StepDump::write(const GivenToHead& given, const Verdict& verdict) {
  const std::filesystem::path path = output_ / part_path(given.step, comm_);
  try {
    std::filesystem::create_directories(path.parent_path());
    write_head_step_part(path, ops_, head_,
                         {.given = given,
                          .job = job_,
                          .rank = comm_.rank(),
                          .world_size = comm_.size(),
                          .not_finite = verdict.not_finite,
                          .loss = verdict.loss,
                          .rows_moved = verdict.rows_moved,
                          .d_embeddings = verdict.d_embeddings});
  } catch (const std::exception& error) {
    return "the head's inputs could not be written (" + std::string(error.what()) + ")";
  }
  const std::string folder = path.parent_path().string();
  return "the head's inputs are in " + folder + ", for pfcctl replay head --in " + folder;
}

std::int64_t StepDump::newest_step() const {
  try {
    const auto newest = newest_checkpoint(output_);
    return newest ? newest->trained.step : 0;
  } catch (const std::exception&) {
    return 0;  // no readable checkpoint
  }
}

void StepDump::stop(const GivenToHead& given, const Verdict& verdict) {
  const std::string written = write(given, verdict);
  std::int64_t saved = comm_.rank() == 0 ? newest_step() : 0;
  try {
    saved = from_rank_zero(comm_, saved);  // other ranks may not see the folder
    // Each worker waits here until all have written, because after a failure the coordinator soon
    // ends them.
    comm_.barrier();
  } catch (const CommError&) {
    // Another worker has already ended. This worker still reports the value that is not finite.
  }
  const bool clips = job_.value("clip_norm", JobConfig{}.clip_norm) > 0;
  throw InputError(verdict.not_finite + " is not finite at step " + std::to_string(given.step) +
                   " (learning rate " + nlohmann::json(given.lr).dump() +
                   "): lower lr, lengthen warmup_epoch or " +
                   (clips ? "lower clip_norm" : "set clip_norm, which is off, to 5") +
                   (saved > 0
                        ? ", and set resume to true to continue from step " + std::to_string(saved)
                        : ", and start again: there is no checkpoint") +
                   "; " + written);
}

}  // namespace pfc
