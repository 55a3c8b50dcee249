#include "common/config/config.h"

#include <limits>

#include "common/config/no_network.h"
#include "common/error.h"

namespace pfc {

double SampleRate::at(double epochs) const {
  double rate = parts_.front().rate;
  for (const From& part : parts_) {
    if (part.epoch <= epochs) rate = part.rate;
  }
  return rate;
}

std::string text_of(std::span<const std::filesystem::path> paths) {
  std::string text;
  for (const std::filesystem::path& path : paths) {
    text += (text.empty() ? "" : ", ") + path.string();
  }
  return text;
}

std::int64_t batch_norm_samples(const JobConfig& job, int workers) {
  if (job.network == kNoNetwork) return std::numeric_limits<std::int64_t>::max();
  return job.batch_size * (job.sync_bn ? workers : 1);
}

void check_batch_norm_samples(const JobConfig& job, int workers) {
  if (batch_norm_samples(job, workers) > 1) return;
  throw InputError(std::string("batch_size: expected 2 or more, found 1") +
                   (job.sync_bn ? " (with a single worker, sync_bn has no effect)" : "") +
                   ": the gradient of a batch norm over 1 sample is 0, so nothing would be learnt");
}

}  // namespace pfc
