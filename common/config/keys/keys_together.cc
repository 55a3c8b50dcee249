#include "common/config/keys/keys_together.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "common/config/json_reader.h"
#include "common/config/no_network.h"
#include "common/error.h"

namespace pfc {
namespace {

void check_warmup(const JobConfig& job, const JobOrigin& origin) {
  if (job.warmup_epoch > job.num_epoch) {
    const char* longer = origin.of("num_epoch") == origin.file ? "warmup_epoch" : "num_epoch";
    throw InputError(origin.of(longer) + ": warmup_epoch: expected at most num_epoch, which is " +
                     nlohmann::json(job.num_epoch).dump() + ", found " +
                     shown(nlohmann::json(job.warmup_epoch)));
  }
}

/// Rejects a warm-up before one_cycle, which begins with its own.
void check_one_cycle(const JobConfig& job, const JobOrigin& origin) {
  if (job.lr_schedule.kind != ScheduleKind::kOneCycle || job.warmup_epoch == 0) return;
  throw InputError(origin.of("warmup_epoch") + ": warmup_epoch: found " +
                   nlohmann::json(job.warmup_epoch).dump() +
                   ", expected 0, because lr_schedule \"one_cycle\" begins with its own rise; set "
                   "lr_schedule.pct_start instead");
}

void check_margin_update(const JobConfig& job, const JobOrigin& origin) {
  if (!job.margin_update || job.margin_update->end_epoch <= job.num_epoch) return;
  throw InputError(origin.of("margin_update") +
                   ": margin_update: end_epoch: expected at most num_epoch, which is " +
                   nlohmann::json(job.num_epoch).dump() + ", found " +
                   shown(nlohmann::json(job.margin_update->end_epoch)));
}

void check_sample_rate(const JobConfig& job, const JobOrigin& origin) {
  const double last = job.sample_rate.parts().back().epoch;
  if (last < job.num_epoch) return;
  throw InputError(origin.of("sample_rate") +
                   ": sample_rate: expected epochs below num_epoch, which is " +
                   nlohmann::json(job.num_epoch).dump() + ", found " + nlohmann::json(last).dump());
}

void check_sample_unit(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const std::string& expected) {
    throw InputError(origin.of("sample_unit") + ": sample_unit: expected " + expected + ", found " +
                     std::to_string(job.sample_unit));
  };
  if (!std::has_single_bit(static_cast<std::uint64_t>(job.sample_unit))) {
    fail("a power of two from 1 to 64");
  }
  if (job.sample_unit > 1 && job.heads == Heads::kSeparate) {
    fail("1 with heads \"separate\", because the classes of a data set must be stored together");
  }
}

/// Rejects keys that do not work with hard negatives.
void check_sampler(const JobConfig& job, const JobOrigin& origin) {
  if (job.sampler == Sampler::kRandom) return;
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  const auto samples = [](const SampleRate::From& part) { return part.rate > 0 && part.rate < 1; };
  if (std::ranges::none_of(job.sample_rate.parts(), samples)) {
    fail("sampler",
         "found \"hard\", but sample_rate is " + nlohmann::json(job.sample_rate.largest()).dump() +
             ", so no classes are sampled; set sample_rate to a number between 0 and 1, or "
             "remove sampler");
  }
  if (job.sample_correction) {
    fail("sample_correction",
         "found true, expected false with sampler \"hard\", whose classes do not all have the "
         "same probability; remove one of the two keys");
  }
  if (job.heads == Heads::kSeparate) {
    fail("heads",
         "found \"separate\", expected \"one\" with sampler \"hard\": the nearest classes may be "
         "in another head; remove one of the two keys");
  }
  if (job.centre_storage == CentreStorage::kDisk) {
    fail("centre_storage",
         "found \"disk\", expected \"device\" with sampler \"hard\", whose search would read the "
         "whole file many times; remove one of the two keys");
  }
}

/// Rejects batch norms over one sample. With sync_bn this depends on the number of workers and is
/// checked later.
void check_batch_size(const JobConfig& job, const JobOrigin& origin) {
  if (job.sync_bn) return;
  try {
    check_batch_norm_samples(job, 1);
  } catch (const InputError& e) {
    throw InputError(origin.of("batch_size") + ": " + e.what());
  }
}

/// Checks the keys that have one entry for each data set, and those that say how several data sets
/// are combined.
void check_data_sets(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  const std::size_t sets = job.rec.size();
  const auto one_each = [&](const char* key, std::size_t found, const char* what,
                            const std::string& more) {
    if (found == 0 || found == sets) return;
    fail(key, "found " + std::to_string(found) + what + ", expected one for each of the " +
                  std::to_string(sets) + " data sets of rec" + more);
  };
  one_each("identities", job.identities.size(), " files",
           "; \"\" means that the data set itself has names");
  one_each("overlay", job.overlay.size(), " files", "; \"\" means that its labels do not change");
  one_each("head_classes", job.head_classes.size(), " numbers", "");
  for (std::size_t i = 0; i < std::min(job.identities.size(), job.overlay.size()); ++i) {
    if (job.identities[i].empty() || job.overlay[i].empty()) continue;
    fail("identities", "found " + job.identities[i].string() + ", but overlay changes the labels " +
                           "of this data set; name them in identities.txt beside the data");
  }
  for (std::size_t i = 1; i < sets && !job.share_identities; ++i) {
    const auto before = job.rec.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(job.rec.begin(), before, job.rec[i]) == before) continue;
    fail("rec", "found " + job.rec[i].string() +
                    " twice, so each of its people would be two classes; remove one, or set "
                    "share_identities");
  }
  if (job.heads == Heads::kSeparate && job.share_identities) {
    fail("heads",
         "found \"separate\", but share_identities is set: a person in two sets cannot be one "
         "class in two heads; remove one of the two keys");
  }
}

void check_order(const JobConfig& job, const JobOrigin& origin) {
  if (!job.balance_classes || job.read != ReadKind::kSequential) return;
  throw InputError(
      origin.of("balance_classes") +
      ": balance_classes: found true, but read is \"sequential\", which takes images in "
      "the order of the file; remove one of the two keys");
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

void check_validation_data(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  if (!job.val_rec.empty() && job.heads == Heads::kSeparate) {
    fail("val_rec",
         "found validation data, but heads is \"separate\": classes of different heads are not "
         "compared; remove one of the two keys");
  }
  if (job.val_resize != 0 && job.val_resize < job.image_size) {
    fail("val_resize", "found " + std::to_string(job.val_resize) +
                           ", expected 0 or at least image_size, which is " +
                           std::to_string(job.image_size));
  }
  if (job.val_resize != 0 && job.val_rec.empty()) {
    fail("val_resize", "found " + std::to_string(job.val_resize) +
                           ", but val_rec is empty; remove this key or set val_rec");
  }
}

/// Rejects keys about images if the data are embeddings, and vice versa.
void check_network(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  const auto none = [](const std::string& why) {
    return "but network \"none\" " + why + "; remove this key";
  };
  if (job.network != kNoNetwork) {
    if (job.embedding_size == 0) {
      fail("embedding_size",
           "found 0, expected an integer from 1 to 65536; 0 is allowed only with network \"none\"");
    }
    if (job.feature_size != 0) {
      fail("feature_size", "found " + std::to_string(job.feature_size) + ", but network \"" +
                               job.network +
                               "\" embeds images; remove this key or set network to \"none\"");
    }
    return;
  }
  const bool has_linear_layer = job.feature_size != 0;
  if (has_linear_layer && job.embedding_size == 0) {
    fail("embedding_size",
         "found 0, but feature_size adds a linear layer; set it to the number of "
         "the layer's outputs");
  }
  if (!job.val_targets.empty()) {
    fail("val_targets", "found verification sets, " + none("cannot embed images"));
  }
  if (!job.val_rec.empty()) {
    fail("val_rec", "found validation data, " + none("cannot embed images"));
  }
  if (job.image_size != 0) {
    fail("image_size", "found " + std::to_string(job.image_size) + ", " + none("reads no images"));
  }
  if (job.pixels != PixelScale{}) {
    const bool mean = job.pixels.mean != PixelScale{}.mean;
    fail(mean ? "image_mean" : "image_std", "found a scale of pixels, " + none("reads no images"));
  }
  if (job.augment != Augmentation{} && job.augment != Augmentation{.flip = false}) {
    fail("augment", "found changes of images, " + none("reads no images"));
  }
  if (job.dropout != 0) fail("dropout", "found dropout, " + none("has no dropout"));
  if (job.zero_init_residual) fail("zero_init_residual", "found true, " + none("has no blocks"));
  if (job.init_centres == InitialCentres::kMean) {
    fail("init_centres", "found \"mean\", " + none("cannot embed images"));
  }
  if (!job.teacher.empty()) fail("teacher", "found a file, " + none("reads no images"));
  if (!job.recompute.empty()) fail("recompute", "found blocks, " + none("has no backbone"));
  if (!job.exports.empty()) fail("export", "found formats, " + none("has no model to export"));
  if (job.sync_bn) fail("sync_bn", "found true, " + none("has no batch norm"));
  if (has_linear_layer) return;
  if (!job.freeze.empty()) fail("freeze", "found patterns, " + none("has no backbone"));
  if (job.ema_decay != 0) fail("ema_decay", "found a decay, " + none("has no backbone"));
}

/// Rejects keys that do not work with one-byte class centres or with centres without momentum.
void check_centres(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  const bool adamw = job.optimizer == OptimizerKind::kAdamW;
  if (adamw && job.centre_momentum) {
    fail("centre_momentum", "found " + nlohmann::json(*job.centre_momentum).dump() +
                                ", but optimizer \"adamw\" always has 0.9 and 0.999; remove one of "
                                "the two keys");
  }
  if (is_one_byte(job.centre_precision) && (adamw || is_plain_softmax(job.loss))) {
    const std::string found = job.centre_precision == CentrePrecision::kInt8 ? "int8" : "fp8";
    fail("centre_precision",
         "found \"" + found + "\", expected \"fp32\", \"bf16_momentum\" or \"bf16\" with " +
             (adamw ? "optimizer \"adamw\": a row's second moments differ too much for one scale"
                    : "loss \"softmax\": a row and its bias differ too much for one scale"));
  }
  if (job.centre_storage == CentreStorage::kDisk && job.replicate) {
    fail("replicate",
         "found true, expected false with centre_storage \"disk\": each worker would keep copies "
         "of the class centres in memory");
  }
  const bool rounds = job.centre_precision != CentrePrecision::kFp32 &&
                      job.centre_precision != CentrePrecision::kBf16Momentum;
  if (job.init_centres == InitialCentres::kMean && rounds && !adamw && centre_momentum(job) == 0) {
    fail("init_centres",
         "found \"mean\", but the momentum of the centres is 0: the means are computed with the "
         "memory of the momentum; set centre_momentum, or centre_precision to \"fp32\" or "
         "\"bf16_momentum\"");
  }
}

/// Rejects bf16 between workers whose devices may lack bf16.
void check_exchange(const JobConfig& job, const JobOrigin& origin) {
  if (job.exchange_precision == Precision::kFp32 || job.precision == Precision::kBf16) return;
  throw InputError(origin.of("exchange_precision") +
                   ": exchange_precision: found \"bf16\", which needs \"precision\": \"bf16\"; "
                   "change one of the two keys");
}

template <typename Fail>  // void(key, what)
void check_plain_softmax(const JobConfig& job, const Fail& fail) {
  const auto none = [](const std::string& has) {
    return "but loss \"softmax\" has no " + has + "; remove this key";
  };
  const JobConfig defaults;
  if (job.margin_scale != defaults.margin_scale) {
    fail("margin_scale", "found a scale, " + none("scale: its logits are not cosines"));
  }
  if (job.margin_gradient != MarginGradient::kExact) {
    fail("margin_gradient", "found \"straight_through\", " + none("margin"));
  }
  if (job.interclass_filtering_threshold != 0) {
    fail("interclass_filtering_threshold", "found a threshold, " + none("cosines to filter"));
  }
  if (job.init_centres == InitialCentres::kMean) {
    fail("init_centres", "found \"mean\", " + none("centres of classes"));
  }
  if (job.sub_centres != 1) {
    fail("sub_centres",
         "found " + std::to_string(job.sub_centres) + ", " + none("centres of classes"));
  }
}

void check_loss(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  if (job.sub_centres > 1 && job.init_centres == InitialCentres::kMean) {
    fail("init_centres", "found \"mean\", but sub_centres is " + std::to_string(job.sub_centres) +
                             ": the sub-centres of a class would start equal and stay equal; "
                             "remove one of the two keys");
  }
  if (is_combined_margin(job.loss)) return;
  if (job.margin != Margin{}) {
    fail("margin_list",
         "found a margin, but the key loss selects a loss with its own margin; remove one of the "
         "two keys");
  }
  if (job.margin_update) {
    fail("margin_update",
         "found a margin that changes, but the key loss selects a loss with its own margin; remove "
         "one of the two keys");
  }
  if (is_plain_softmax(job.loss)) return check_plain_softmax(job, fail);
  if (is_uniface(job.loss)) {
    const auto no_softmax = [&](const char* key, const std::string& found, const char* expected) {
      fail(key, "found " + found + ", expected " + expected +
                    " with loss \"uniface\", which has no softmax; remove one of the two keys");
    };
    if (job.sample_correction) no_softmax("sample_correction", "true", "false");
    if (job.label_smoothing > 0) {
      no_softmax("label_smoothing", nlohmann::json(job.label_smoothing).dump(), "0");
    }
  }
  const auto* const mag = std::get_if<MagFace>(&job.loss);
  if (mag == nullptr) return;
  const auto number = [](double x) { return nlohmann::json(x).dump(); };
  if (!(mag->l_a < mag->u_a)) {
    fail("loss", "found l_a " + number(mag->l_a) + ", expected less than u_a, " + number(mag->u_a));
  }
  if (mag->l_margin > mag->u_margin) {
    fail("loss", "found l_margin " + number(mag->l_margin) + ", expected at most u_margin, " +
                     number(mag->u_margin));
  }
}

/// Rejects keys of distillation that do not work with the job's classification layer or with each
/// other.
void check_distillation(const JobConfig& job, const JobOrigin& origin) {
  const auto fail = [&](const char* key, const std::string& what) {
    throw InputError(origin.of(key) + ": " + key + ": " + what);
  };
  if (job.teacher.empty()) return;  // the keys have no effect (job_warnings())
  const auto shown_number = [](double x) { return nlohmann::json(x).dump(); };
  if (job.distill_logits == 0) {
    if (job.distill_embeddings != DistillEmbeddings::kNone) return;
    fail("distill_embeddings",
         "found \"none\", but distill_logits is 0: nothing would be learnt from the teacher; set "
         "distill_logits to a weight, or remove one of the two keys");
  }
  const auto refuse = [&](const std::string& what) {
    fail("distill_logits", "found " + shown_number(job.distill_logits) + ", but " + what +
                               "; set it to 0 to learn from the teacher's embeddings alone");
  };
  if (is_plain_softmax(job.loss)) refuse("the logits of loss \"softmax\" are not cosines");
  if (job.sub_centres > 1) refuse("sub_centres is " + std::to_string(job.sub_centres));
  if (job.heads == Heads::kSeparate) refuse("heads is \"separate\"");
  if (job.margin_scale > kMostDistilledScale * job.distill_temperature) {
    fail("distill_temperature",
         "found " + shown_number(job.distill_temperature) + ", expected at least " +
             shown_number(job.margin_scale / kMostDistilledScale) + ", which is margin_scale / " +
             shown_number(kMostDistilledScale));
  }
}

}  // namespace

void check_keys_together(const JobConfig& job, const JobOrigin& origin) {
  check_warmup(job, origin);
  check_one_cycle(job, origin);
  check_margin_update(job, origin);
  check_sample_rate(job, origin);
  check_sample_unit(job, origin);
  check_sampler(job, origin);
  check_data_sets(job, origin);
  check_order(job, origin);
  check_exports(job, origin);
  check_start(job, origin);
  check_validation_data(job, origin);
  check_network(job, origin);
  check_loss(job, origin);
  check_distillation(job, origin);
  check_centres(job, origin);
  check_exchange(job, origin);
  check_batch_size(job, origin);
}

}  // namespace pfc
