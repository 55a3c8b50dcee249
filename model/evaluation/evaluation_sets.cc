#include "model/evaluation/evaluation_sets.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"

namespace pfc {

namespace {

std::vector<std::int64_t> labels_of(const Dataset& dataset) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(dataset.info().images));
  ImageBuffer storage;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    try {
      labels[i] = dataset.label(static_cast<std::int64_t>(i), storage);
    } catch (const DamagedImage& e) {
      throw InputError(e.what());
    }
  }
  return labels;
}

std::vector<std::int64_t> other_labels_of(const Dataset& dataset) {
  const DatasetInfo& info = dataset.info();
  const auto others = static_cast<std::size_t>(info.labels_per_image - 1);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(info.images) * others);
  for (std::size_t i = 0; i * others < labels.size(); ++i) {
    dataset.other_labels(static_cast<std::int64_t>(i),
                         std::span(labels).subspan(i * others, others));
  }
  return labels;
}

LabelledSet open_labelled_set(const std::filesystem::path& path, std::int64_t side,
                              std::int64_t resize, const Doing& doing) {
  LabelledSet set{.name = path.lexically_normal().filename().string(),
                  .path = path,
                  .dataset = open_images(path, side, doing),
                  .labels = {},
                  .resize = resize};
  if (set.name.empty()) set.name = path.parent_path().filename().string();  // "sop/"
  set.labels = labels_of(*set.dataset);
  set.other_labels = other_labels_of(*set.dataset);
  return set;
}

bool has_names(const Dataset& dataset) {
  for (std::int64_t c = 0; c < dataset.info().classes; ++c) {
    if (!dataset.identity(c).empty()) return true;
  }
  return false;
}

/// Returns the classes that have a name. Throws InputError if two classes have the same name.
std::unordered_map<std::string, std::int64_t> classes_by_name(const Dataset& training) {
  std::unordered_map<std::string, std::int64_t> by_name;
  for (std::int64_t c = 0; c < training.info().classes; ++c) {
    const std::string name = training.identity(c);
    if (name.empty() || by_name.emplace(name, c).second) continue;
    throw InputError(fmt::format(
        "val_rec: found the name \"{}\" for two classes of rec, {} and {}, but the classes of "
        "val_rec are found by name; set share_identities, or rename one of the two",
        name, by_name.at(name), c));
  }
  return by_name;
}

/// Returns the training data's class for each class of a set; -1: none.
std::vector<std::int64_t> classes_in(const Dataset& training, const ClassificationSet& set) {
  const std::int64_t classes = training.info().classes;
  std::vector<std::int64_t> found(static_cast<std::size_t>(set.dataset->info().classes));
  const auto by_name =
      set.by_name ? classes_by_name(training) : std::unordered_map<std::string, std::int64_t>();
  for (std::size_t label = 0; label < found.size(); ++label) {
    const auto number = static_cast<std::int64_t>(label);
    if (!set.by_name) {
      found[label] = number < classes ? number : -1;
      continue;
    }
    const auto at = by_name.find(set.dataset->identity(number));
    found[label] = at == by_name.end() ? -1 : at->second;
  }
  return found;
}

/// If several sets have the same name, adds each one's parent folder to its name, because results
/// show only the name. Throws InputError if the names are then still the same.
template <typename Set>
void tell_apart(std::vector<Set>& sets, const char* key) {
  std::map<std::string, std::int64_t> count;
  for (const Set& set : sets) ++count[set.name];
  std::map<std::string, std::filesystem::path> seen;
  for (Set& set : sets) {
    if (count.at(set.name) > 1) {
      const std::filesystem::path path =
          std::filesystem::absolute(set.path / "").lexically_normal();
      set.name = path.parent_path().parent_path().filename().string() + "/" + set.name;
    }
    const auto [other, is_new] = seen.emplace(set.name, set.path);
    if (is_new) continue;
    throw InputError(
        fmt::format("{}: {} and {} would both be named {} in the results; remove one "
                    "or rename a folder",
                    key, other->second.string(), set.path.string(), set.name));
  }
}

}  // namespace

std::unique_ptr<Dataset> open_images(const std::filesystem::path& data, std::int64_t side,
                                     const Doing& doing) {
  auto dataset = open_dataset({.rec = data, .image_size = side, .doing = doing});
  if (dataset->info().embedding_size == 0) return dataset;
  throw InputError(data.string() + ": found embeddings, expected images");
}

ReadImage read_images_of(const Dataset& dataset, ImageSize size, std::int64_t resize) {
  return [&dataset, size, resize](std::int64_t image, std::span<std::uint8_t> rgb) {
    thread_local ImageDecoder decoder;
    thread_local ImageBuffer storage;
    const auto encoded = dataset.read(image, storage).encoded;
    if (resize == 0) return decoder.decode(encoded, size, rgb);
    decoder.decode_centre(encoded, resize, size, rgb);
  };
}

EvaluationSets open_evaluation_sets(const std::vector<std::string>& targets,
                                    std::span<const std::filesystem::path> rec, std::int64_t side,
                                    const Doing& doing) {
  EvaluationSets sets;
  for (const std::filesystem::path& target : find_verification_bins(targets, rec)) {
    std::error_code error;
    if (!std::filesystem::is_directory(target, error)) {
      if (doing) doing("reading verification set " + target.string());
      sets.verification.push_back(read_verification_bin(target));
      continue;
    }
    if (doing) doing("opening retrieval set " + target.string());
    sets.retrieval.push_back({open_labelled_set(target, side, 0, doing)});
    expect_one_label(*sets.retrieval.back().dataset, "a retrieval set");
  }
  tell_apart(sets.retrieval, "val_targets");
  return sets;
}

ClassificationSet open_classification_set(const std::filesystem::path& path,
                                          const Dataset& training, std::int64_t resize,
                                          const Doing& doing) {
  const DatasetInfo& info = training.info();
  if (resize != 0 && resize < std::max(info.height, info.width)) {
    throw InputError(fmt::format(
        "val_resize: found {}, expected 0 or at least the side of the network's images, {}", resize,
        std::max(info.height, info.width)));
  }
  if (doing) doing("opening validation data " + path.string());
  ClassificationSet set{open_labelled_set(path, info.height, resize, doing)};
  set.by_name = has_names(training) && has_names(*set.dataset);
  const std::vector<std::int64_t> classes = classes_in(training, set);
  const auto replace = [&](std::int64_t& label, std::size_t image) {
    const std::int64_t c = classes.at(static_cast<std::size_t>(label));
    if (c < 0) {
      const std::string name = set.dataset->identity(label);
      throw InputError(fmt::format(
          "val_rec: {}: its class {} is none of the {} classes of rec; give data with the same "
          "classes",
          set.dataset->name(static_cast<std::int64_t>(image)),
          name.empty() ? std::to_string(label) : '"' + name + '"', info.classes));
    }
    label = c;
  };
  const std::size_t others = set.other_labels.size() / set.labels.size();
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    replace(set.labels[i], i);
    for (std::int64_t& label : std::span(set.other_labels).subspan(i * others, others)) {
      if (label >= 0) replace(label, i);
    }
  }
  return set;
}

EvaluationSets open_evaluation_sets(const JobConfig& job, const Dataset& training,
                                    const Doing& doing) {
  EvaluationSets sets =
      open_evaluation_sets(job.val_targets, job.rec, training.info().height, doing);
  for (const std::filesystem::path& path : job.val_rec) {
    sets.classification.push_back(open_classification_set(path, training, job.val_resize, doing));
  }
  tell_apart(sets.classification, "val_rec");
  return sets;
}

}  // namespace pfc
