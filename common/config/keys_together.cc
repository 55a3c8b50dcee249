#include "common/config/keys_together.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "common/config/json_reader.h"
#include "common/config/no_network.h"
#include "common/error.h"

namespace pfc {
namespace {

void check_warmup(const JobConfig& job, const JobOrigin& origin) {
  if (job.warmup_epoch > job.num_epoch) {
    const char* longer = origin.of("num_epoch") == origin.file ? "warmup_epoch" : "num_epoch";
    throw InputError(origin.of(longer) +
                     ": warmup_epoch: expected no more than num_epoch, which is " +
                     nlohmann::json(job.num_epoch).dump() + ", found " +
                     shown(nlohmann::json(job.warmup_epoch)));
  }
}

/// Rejects a batch of one sample per worker. With sync_bn the number of workers matters.
void check_batch_size(const JobConfig& job, const JobOrigin& origin) {
  if (job.sync_bn) return;
  try {
    check_batch_norm_samples(job, 1);
  } catch (const InputError& e) {
    throw InputError(origin.of("batch_size") + ": " + e.what());
  }
}

/// Checks the keys that several data sets require and those that only they may have.
void check_data_sets(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  const std::size_t sets = job.rec.size();
  if (!job.identities.empty() && job.identities.size() != sets) {
    fail("identities", "found " + std::to_string(job.identities.size()) +
                           " files, expected one for each of the " + std::to_string(sets) +
                           " data sets of rec, \"\" where the data themselves have names");
  }
  if (!job.head_classes.empty() && job.head_classes.size() != sets) {
    fail("head_classes", "found " + std::to_string(job.head_classes.size()) +
                             " numbers, expected one for each of the " + std::to_string(sets) +
                             " data sets of rec");
  }
  for (std::size_t i = 1; i < sets && !job.share_identities; ++i) {
    const auto before = job.rec.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(job.rec.begin(), before, job.rec[i]) == before) continue;
    fail("rec", "found " + job.rec[i].string() +
                    " twice, so that each of its people would be two classes; only with "
                    "share_identities may a data set come again");
  }
  if (job.heads == Heads::kSeparate && job.share_identities) {
    fail("heads",
         "\"separate\" and share_identities exclude each other: a person who is in two "
         "sets has a class in each head");
  }
}

void check_exports(const JobConfig& job, const JobOrigin& origin) {
  for (const std::string& format : job.exports) {
    if (format == "onnx" || format == "pt") continue;
    throw InputError(origin.of("export") + ": export: found " + nlohmann::json(format).dump() +
                     ", expected \"onnx\" or \"pt\"");
  }
}

void check_start(const JobConfig& job, const JobOrigin& origin) {
  if (job.init_from_names.empty() || !job.init_from.empty()) return;
  throw InputError(origin.of("init_from_names") +
                   ": init_from_names: found patterns but no init_from; set it to the file to "
                   "take tensors from");
}

/// Rejects keys about images if the data are embeddings, and vice versa.
void check_network(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  if (job.network != kNoNetwork) {
    if (job.embedding_size == 0) {
      fail("embedding_size",
           "found 0, expected an integer from 1 to 65536; only with network \"none\" the data say "
           "it");
    }
    return;
  }
  const std::string without = "but network \"none\" trains on embeddings, ";
  if (!job.val_targets.empty()) {
    fail("val_targets", "found images to embed, " + without + "and embeds none: leave it out");
  }
  if (job.image_size != 0) {
    fail("image_size", "found " + std::to_string(job.image_size) + ", " + without +
                           "which are not resized: leave it out");
  }
  if (job.augment != Augmentation{} && job.augment != Augmentation{.flip = false}) {
    fail("augment", "found changes of images, " + without + "which stay as they are: leave it out");
  }
  if (job.dropout != 0)
    fail("dropout", "found dropout, " + without + "which have none: set it to 0");
  if (job.init_centres == InitialCentres::kMean) {
    fail("init_centres",
         "found \"mean\" of embedded images, " + without + "and embeds none: leave it out");
  }
  if (!job.freeze.empty()) {
    fail("freeze", "found patterns, " + without + "and has no backbone: leave it out");
  }
  if (!job.exports.empty()) {
    fail("export", "found formats of a model, " + without + "and trains none: leave it out");
  }
  if (job.sync_bn)
    fail("sync_bn", "found true, " + without + "and has no batch norm: leave it out");
}

}  // namespace

void check_keys_together(const JobConfig& job, const JobOrigin& origin) {
  check_warmup(job, origin);
  check_data_sets(job, origin);
  check_exports(job, origin);
  check_start(job, origin);
  check_network(job, origin);
  check_batch_size(job, origin);
}

}  // namespace pfc
