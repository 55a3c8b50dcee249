// pfcctl prune: removes images that a model with sub-centres finds far from their class (Deng et
// al., sub-centre ArcFace, ECCV 2020, section 3.4).
#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "common/command_line.h"
#include "common/config/job_json.h"
#include "common/config/no_network.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "data/job_data.h"
#include "data/mapping/chosen_dataset.h"
#include "data/records/image_record.h"
#include "pfcctl/data/embed/damages.h"
#include "pfcctl/data/embed/loaded_model.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/pack/pack.h"
#include "pfcctl/verbs.h"
#include "worker/checkpoint/stored_centres.h"

namespace pfc {

namespace {

using std::filesystem::path;
namespace format = checkpoint_format;

struct PruneFlags {
  path checkpoint;
  std::vector<path> in;
  double angle = 75;
  ModelFlags model;
  PackOptions pack;
  bool json = false;
};

/// The class centres of a checkpoint, each of length 1.
class UnitCentres {
 public:
  UnitCentres(const path& folder, const format::Manifest& manifest, const JobConfig& job)
      : dimension_(static_cast<std::size_t>(job.embedding_size)),
        of_class_(static_cast<std::size_t>(job.sub_centres)) {
    const format::Identity& id = manifest.identity;
    const RowRange all{0, id.classes};
    const StoredCentres stored(
        id, {.classes = id.classes}, all, job.optimizer,
        [&](const std::string& name) { return format::open_verified(folder, manifest, name); });
    UpdateHistory history(job.optimizer);
    history.restore(stored.seen({0, 1}).updates);
    rows_ = CaughtUpRows(stored, history, all, id.embedding_size).take_weights();
    for (std::size_t i = 0; i < rows_.size(); i += dimension_) {
      const std::span<float> row = std::span(rows_).subspan(i, dimension_);
      const double length = std::sqrt(dot(row, row));
      if (length == 0) continue;
      std::ranges::transform(row, row.begin(),
                             [&](float x) { return static_cast<float>(x / length); });
    }
  }

  [[nodiscard]] std::size_t of_class() const { return of_class_; }
  /// Computes the cosines between an embedding of this length and the centres of class c. `cosines`
  /// has of_class() elements.
  void cosines(std::span<const float> embedding, double length, std::int64_t c,
               std::span<float> cosines) const {
    const std::size_t first = static_cast<std::size_t>(c) * of_class_;
    for (std::size_t k = 0; k < of_class_; ++k) {
      const auto row = std::span(rows_).subspan((first + k) * dimension_, dimension_);
      cosines[k] = static_cast<float>(dot(embedding, row) / length);
    }
  }

 private:
  static double dot(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
    return sum;
  }

  const std::size_t dimension_, of_class_;
  std::vector<float> rows_;  // [C, K, D]
};

/// Labels and cosines of all images: 8 + 4 K bytes for each.
struct ImageCosines {
  std::vector<std::int64_t> labels;  // [N]; -1: damaged
  std::vector<float> cosines;        // [N, K]
  std::vector<std::string> damaged;
};

ImageCosines measure(const Dataset& dataset, const LoadedModel& model, const UnitCentres& centres,
                     double max_damaged) {
  const std::int64_t images = dataset.info().images;
  const std::size_t k = centres.of_class();
  ImageCosines of{.labels = std::vector<std::int64_t>(static_cast<std::size_t>(images), -1),
                  .cosines = std::vector<float>(static_cast<std::size_t>(images) * k),
                  .damaged = {}};
  Damages damages(images, max_damaged);
  std::vector<float> row(static_cast<std::size_t>(model.options(false).embedding_size));
  ImageBuffer storage;
  Progress progress("embedding", "images");
  embed_images(images, model.reader_of(dataset), model.embed(), model.options(false),
               [&](std::int64_t i, const EmbeddedImage& image) {
                 progress.show(i + 1, images);
                 const std::string name = one_line(dataset.name(i));
                 if (image.damage) return damages.add(name, *image.damage);
                 const double length = add_mirrored(image, row);
                 if (length == 0) return damages.add(name, "its embedding is zero");
                 model.expect_usable(length, [&] { return name; });
                 const auto place = static_cast<std::size_t>(i);
                 of.labels[place] = dataset.label(i, storage);
                 centres.cosines(row, length, of.labels[place],
                                 std::span(of.cosines).subspan(place * k, k));
               });
  of.damaged = damages.all();
  return of;
}

/// Returns the sub-centre of each class that is the nearest one for most of its images.
std::vector<std::size_t> dominant_centres(const ImageCosines& of, std::int64_t classes,
                                          std::size_t k) {
  std::vector<std::int64_t> votes(static_cast<std::size_t>(classes) * k);  // [C, K]
  for (std::size_t i = 0; i < of.labels.size(); ++i) {
    if (of.labels[i] < 0) continue;
    const auto cosines = std::span(of.cosines).subspan(i * k, k);
    const auto nearest = std::ranges::max_element(cosines) - cosines.begin();
    ++votes[static_cast<std::size_t>(of.labels[i]) * k + static_cast<std::size_t>(nearest)];
  }
  std::vector<std::size_t> dominant;
  for (std::size_t c = 0; c < static_cast<std::size_t>(classes); ++c) {
    const auto of_class = std::span(votes).subspan(c * k, k);
    dominant.push_back(
        static_cast<std::size_t>(std::ranges::max_element(of_class) - of_class.begin()));
  }
  return dominant;
}

/// Returns the images nearer than `angle` degrees to their class's dominant centre, and the
/// classes that have such an image.
Choice nearby(const ImageCosines& of, std::int64_t classes, std::size_t k, double angle) {
  const std::vector<std::size_t> dominant = dominant_centres(of, classes, k);
  const double least = std::cos(angle / 180 * std::numbers::pi);
  std::vector<bool> has_images(static_cast<std::size_t>(classes));
  Choice choice;
  for (std::size_t i = 0; i < of.labels.size(); ++i) {
    if (of.labels[i] < 0) continue;
    const auto c = static_cast<std::size_t>(of.labels[i]);
    if (!(of.cosines[i * k + dominant[c]] > least)) continue;
    choice.images.push_back(static_cast<std::int64_t>(i));
    has_images[c] = true;
  }
  for (std::size_t c = 0; c < has_images.size(); ++c) {
    if (has_images[c]) choice.classes.push_back(static_cast<std::int64_t>(c));
  }
  return choice;
}

/// Returns the job that wrote the checkpoint, with the data to prune.
JobConfig job_to_prune(const PruneFlags& flags, const format::Manifest& manifest) {
  const std::string file = (flags.checkpoint / format::kManifest).string();
  JobConfig job = parse_job(manifest.identity.job, file);
  if (job.sub_centres == 1) {
    throw InputError(file +
                     ": sub_centres: found 1, expected 2 or more; train a job with sub_centres 3 "
                     "first, and prune with its checkpoint");
  }
  if (job.network == kNoNetwork) {
    throw InputError(
        file +
        ": network: found \"none\", but pfcctl prune embeds images; use a checkpoint of "
        "a network that reads images");
  }
  if (job.head_classes.size() > 1) {
    throw InputError(fmt::format(
        "{}: heads: found \"separate\", expected \"one\": the pruned data are one set; train "
        "a job for each of its data sets, and prune each with its own checkpoint",
        file));
  }
  if (!flags.in.empty()) job.rec = flags.in;
  job.read = ReadKind::kRandom;  // "sequential" has requirements that do not matter here
  return job;
}

/// Checks that the checkpoint was trained on these data, in this order: labels of other data would
/// belong to other centres.
void expect_same_data(const path& file, const format::Identity& id, const JobConfig& job,
                      const Dataset& dataset) {
  if (id.data.empty()) return;
  const std::vector<FileBrief> briefs = dataset.briefs();
  const auto other = std::ranges::mismatch(briefs, id.data, {}, &FileBrief::holds);
  const bool ends = other.in1 == briefs.end(), should_end = other.in2 == id.data.end();
  if (ends && should_end) return;
  throw InputError(fmt::format(
      "{}: found {}, but {} was trained on {}; name the job's data sets, in its order, with --in",
      ends ? text_of(job.rec) : other.in1->file.string(),
      ends ? "no further data set" : other.in1->holds, file.string(),
      should_end ? "no further data set" : *other.in2));
}

/// Checks that the checkpoint's numbers agree with its model and the data.
void check_sizes(const PruneFlags& flags, const format::Identity& id, const JobConfig& job,
                 const LoadedModel& model, const DatasetInfo& info) {
  const auto expect = [](const path& file, const char* what, std::int64_t found,
                         std::int64_t expected) {
    if (found == expected) return;
    throw InputError(fmt::format("{}: {}: found {}, expected {}; use another checkpoint",
                                 file.string(), what, found, expected));
  };
  const path file = flags.checkpoint / format::kManifest;
  expect(file, "classes", id.classes, info.classes);
  expect(file, "embedding_size", id.embedding_size, job.sub_centres * job.embedding_size);
  expect(flags.model.model, "length of an embedding", model.options(false).embedding_size,
         job.embedding_size);
}

/// Checks what RecordIO can store, before the images are embedded. The number of removed images is
/// not known yet.
void check_storable(const DatasetInfo& info, const path& in) {
  check_image_size(info, in);
  const std::int64_t excess = info.images + info.classes + 1 - kMaxFloatLabel;
  if (excess <= 0) return;
  spdlog::warn(
      "{}: found {} images and {} classes, but RecordIO stores at most {} images and classes in "
      "all; this command computes all embeddings first, and then fails unless it removes at least "
      "{} images and classes",
      in.string(), info.images, info.classes, kMaxFloatLabel - 1, excess);
}

void tell(const PruneFlags& flags, const Packed& packed, const DatasetInfo& before,
          std::int64_t damaged, TimePoint start) {
  const std::int64_t images = before.images - packed.images;
  const std::int64_t classes = before.classes - packed.classes;
  if (flags.json) {
    const nlohmann::json told{{"file", (flags.pack.out / "train.rec").string()},
                              {"images", packed.images},
                              {"classes", packed.classes},
                              {"removed_images", images},
                              {"removed_classes", classes},
                              {"damaged", damaged},
                              {"angle", flags.angle},
                              {"seconds", seconds_since(start)}};
    std::fputs(json_text(told).c_str(), stdout);
    return;
  }
  std::printf(
      "%s: %lld images of %lld identities (%.1f s)\nremoved: %lld of %s (%lld damaged, the others "
      "%g degrees or more from the dominant centre) and %lld of %lld identities\n",
      one_line((flags.pack.out / "train.rec").string()).c_str(),
      static_cast<long long>(packed.images), static_cast<long long>(packed.classes),
      seconds_since(start), static_cast<long long>(images), counted(before.images, "image").c_str(),
      static_cast<long long>(damaged), flags.angle, static_cast<long long>(classes),
      static_cast<long long>(before.classes));
}

void run_prune(PruneFlags flags) {
  if (!(flags.angle > 0 && flags.angle <= 180)) {
    throw InputError(
        fmt::format("--angle: found {}, expected a number above 0, at most 180", flags.angle));
  }
  const TimePoint start = Clock::now();
  const format::Manifest manifest = format::load_manifest(flags.checkpoint);
  JobConfig job = job_to_prune(flags, manifest);
  flags.model.model = flags.checkpoint / format::kBackbone;
  const LoadedModel model(flags.model);
  const auto dataset = open_job_data_and_complete(job, end_at_interrupt);
  const DatasetInfo& info = dataset->info();
  expect_one_label(*dataset, "pfcctl prune");
  expect_same_data(flags.checkpoint / format::kManifest, manifest.identity, job, *dataset);
  check_sizes(flags, manifest.identity, job, model, info);
  flags.pack.threads = flags.model.threads;
  flags.pack.in = job.rec.front();
  check_storable(info, flags.pack.in);
  const bool had_folder = something_at(flags.pack.out);
  for (const path& in : job.rec) prepare_folder(in, flags.pack.out, flags.pack.replace);

  const UnitCentres centres(flags.checkpoint, manifest, job);
  const ImageCosines of = measure(*dataset, model, centres, flags.pack.max_damaged);
  Choice choice = nearby(of, info.classes, centres.of_class(), flags.angle);
  if (choice.images.empty()) {
    std::error_code not_empty;
    if (!had_folder) std::filesystem::remove(flags.pack.out, not_empty);
    throw InputError(
        fmt::format("--angle {:g}: no image of {} is within this angle of its class's dominant "
                    "centre; raise it, or check that {} was trained on this data",
                    flags.angle, text_of(job.rec), flags.checkpoint.string()));
  }
  const auto chosen = choose(*dataset, std::move(choice));
  const Packed packed =
      pack_dataset(*chosen, flags.pack, Progress("writing", "images").as_function());
  tell_damaged(of.damaged);
  tell(flags, packed, info, std::ssize(of.damaged) + std::ssize(packed.damaged), start);
}

}  // namespace

void add_prune_verb(CLI::App& pfcctl) {
  const auto flags = std::make_shared<PruneFlags>();  // owned by the verb's callback
  CLI::App* verb = pfcctl.add_subcommand(
      "prune", "Removes wrongly labelled images from the data set of a model with sub-centres");
  verb->add_option("--checkpoint", flags->checkpoint,
                   "Checkpoint folder step-* of a job with sub_centres")
      ->required();
  verb->add_option(
      "--in", flags->in,
      "The job's data sets, in its order, if they are no longer where its \"rec\" says");
  verb->add_option("--out", flags->pack.out, "Output folder")->required();
  verb->add_option(
          "--angle", flags->angle,
          "Removes images this far or farther from their class's dominant centre, in degrees")
      ->capture_default_str();
  add_compute_options(*verb, flags->model);
  add_max_damaged(*verb, flags->pack.max_damaged);
  add_force(*verb, flags->pack.replace);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Embeds all images. The dominant centre of a class is the one that is nearest to most of "
      "its\n"
      "images. People who are left without images are removed, and the others renumbered. "
      "Example:\n"
      "  pfcctl prune --checkpoint work_dirs/noisy/step-000040000 --out /data/pruned");
  verb->callback([flags] { run_prune(*flags); });
}

}  // namespace pfc
