// pfcctl identify: finds probes in a gallery, among distractors, or among each other.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/one_line.h"
#include "data/mapping/chosen_dataset.h"
#include "data/text_lines.h"
#include "model/evaluation/evaluation.h"
#include "model/evaluation/identification.h"
#include "pfcctl/data/embed/damages.h"
#include "pfcctl/data/embed/loaded_model.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/writing.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

using json = nlohmann::ordered_json;
using std::filesystem::path;

struct IdentifyFlags {
  ModelFlags model;
  path probes, gallery, distractors;
  std::vector<path> noises;
  bool same_labels = false, no_flip = false, json = false;
  double max_damaged = 0.001;
};

/// Names of images to leave out, for example MegaFace's lists of noisy images. A name matches an
/// image whose path is the name, or ends with "/" and the name.
class Noises {
 public:
  /// Reads one name per line: the second of several fields between tabs. Skips empty lines and
  /// those that begin with "#". Throws InputError, also for a list without names.
  explicit Noises(const std::vector<path>& lists) {
    for (const path& list : lists) {
      bool found = false;
      read_lines(list, end_at_interrupt, [&](std::string_view line, std::int64_t /*number*/) {
        const auto fields = fields_of(line, " ");
        if (fields.empty() || line.front() == '#') return;
        const bool in_second = line.find('\t') != std::string_view::npos && fields.size() > 1;
        names_.emplace(in_second ? fields[1] : joined(fields));
        found = true;
      });
      if (!found) throw InputError(list.string() + ": found no names, expected one per line");
    }
  }

  /// Returns the other images of the data set, which is borrowed.
  std::unique_ptr<Dataset> leave_out_of(const Dataset& dataset) {
    Choice others;
    for (std::int64_t i = 0; i < dataset.info().images; ++i) {
      if (!matches(dataset.name(i))) others.images.push_back(i);
    }
    return choose(dataset, std::move(others));
  }

  [[nodiscard]] std::int64_t matched() const { return std::ssize(matched_); }
  [[nodiscard]] std::int64_t unmatched() const { return std::ssize(names_) - matched(); }

 private:
  bool matches(const std::string& image) {
    bool noisy = false;
    for (std::string_view rest = image;;) {
      if (const auto name = names_.find(rest); name != names_.end()) {
        matched_.insert(*name);
        noisy = true;
      }
      const std::size_t slash = rest.find('/');
      if (slash == std::string_view::npos) return noisy;
      rest.remove_prefix(slash + 1);
    }
  }

  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> matched_;
};

/// Unit-length embeddings, each with the number of its person. One name has one number.
class Faces {
 public:
  Faces(const LoadedModel& model, const IdentifyFlags& flags)
      : model_(model), flags_(flags), options_(model.options(!flags.no_flip)) {
    if (!flags.noises.empty()) noises_.emplace(flags.noises);
  }

  /// Adds the images of a data set. With `strangers`, none of them matches a probe. Throws
  /// InputError if no image is left.
  void add(const path& data, bool strangers, LabelledRows& to) {
    to.dimension = options_.embedding_size;
    const auto whole = open_images(data, options_.height, end_at_interrupt);
    expect_one_label(*whole, "pfcctl identify");
    const auto others = noises_ ? noises_->leave_out_of(*whole) : nullptr;
    const Dataset* const dataset = others ? others.get() : whole.get();
    const std::int64_t images = dataset->info().images;
    Damages damages(images, flags_.max_damaged);
    std::vector<float> sum(static_cast<std::size_t>(options_.embedding_size));
    ImageBuffer storage;
    Progress progress("embedding " + data.string(), "images");
    const auto take = [&](std::int64_t i, const EmbeddedImage& image) {
      progress.show(i + 1, images);
      if (image.damage) return damages.add(dataset->name(i), *image.damage);
      const double norm = add_mirrored(image, sum);
      model_.expect_usable(norm, [&] { return dataset->name(i); });
      for (const float x : sum) to.rows.push_back(double{x} / norm);
      to.subject.push_back(strangers ? -1 : number_of(*dataset, dataset->label(i, storage)));
    };
    embed_images(images, model_.reader_of(*dataset), model_.embed(), options_, take);
    tell_damaged(damages.all());
    if (std::ssize(damages.all()) < images) return;
    throw InputError(fmt::format("{}: no image is left of {}: {} are damaged, {} are in --noises",
                                 data.string(), whole->info().images, images,
                                 whole->info().images - images));
  }

  [[nodiscard]] const std::optional<Noises>& noises() const { return noises_; }

 private:
  std::int64_t number_of(const Dataset& dataset, std::int64_t label) {
    std::string name = dataset.identity(label);
    if (flags_.gallery.empty() || flags_.same_labels) {
      name = std::to_string(label);
    } else if (name.empty()) {
      throw InputError(fmt::format(
          "{}: label {} has no name, but people of --probes and --gallery are compared by name; "
          "add identities.txt, or give --same-labels if equal labels mean the same person",
          dataset.briefs().front().file.string(), label));
    }
    return numbers_.emplace(std::move(name), std::ssize(numbers_)).first->second;
  }

  const LoadedModel& model_;
  const IdentifyFlags& flags_;
  const EmbedOptions options_;
  std::optional<Noises> noises_;
  std::map<std::string, std::int64_t> numbers_;
};

json in_gallery(const LabelledRows& probes, const LabelledRows& gallery, int threads) {
  constexpr double kSameImage = 1 - 1e-9;  // least similarity of an image to itself
  const std::vector<Search> found = search(probes, gallery, threads);
  if (const auto themselves = std::ranges::count_if(
          found, [](const Search& s) { return s.mated && s.mate > kSameImage; })) {
    std::fprintf(
        stderr,
        "note: %td of %zu probes find their own image in the gallery, so the rates are too "
        "high\n",
        themselves, found.size());
  }
  const auto mated = std::ranges::count_if(found, &Search::mated);
  json ranks = json::object(), tpirs = json::object();
  for (const int k : {1, 5, 10, 20}) ranks[std::to_string(k)] = rank_rate(found, k);
  for (const double fpir : {0.01, 0.1}) {
    if (mated > 0 && mated < std::ssize(found)) {
      tpirs[fmt::format("{}", fpir)] = tpir_at_fpir(found, fpir);
    }
  }
  return {{"probes", found.size()},
          {"mated", mated},
          {"gallery", gallery.subject.size()},
          {"rank", ranks},
          {"tpir_at_fpir", tpirs}};
}

json among_distractors(const LabelledRows& probes, const LabelledRows& distractors, int threads) {
  const std::vector<std::int64_t> found = ranks_among_distractors(probes, distractors, threads);
  json ranks = json::object();
  for (const std::int64_t k : {1, 5, 10, 20}) {
    const auto hits = std::ranges::count_if(found, [&](std::int64_t rank) { return rank <= k; });
    ranks[std::to_string(k)] =
        found.empty() ? 0 : static_cast<double>(hits) / static_cast<double>(found.size());
  }
  return {{"probes", probes.subject.size()},
          {"searches", found.size()},
          {"distractors", distractors.subject.size()},
          {"rank", ranks}};
}

json among_others(const LabelledRows& images, int threads) {
  const auto found = search_others(images, {0, std::ssize(images.subject)}, threads);
  const auto shares = precisions(found);
  json recalls = json::object(), precision = json::object();
  for (std::size_t i = 0; i < kRecallRanks.size(); ++i) {
    const std::string k = std::to_string(kRecallRanks[i]);
    recalls[k] = rank_rate(found, kRecallRanks[i]);
    precision[k] = shares[i];
  }
  return {{"images", found.size()},
          {"queries", std::ranges::count_if(found, &Search::mated)},
          {"recall", recalls},
          {"precision", precision}};
}

std::string identification_text(const json& result) {
  std::string text;
  for (const auto& [key, value] : result.items()) {
    if (!value.is_object())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", value.dump(), key);
  }
  text += "\n";
  for (const auto& [key, form] :
       {std::pair{"rank", "rank-{:<4} {:.5f}\n"}, std::pair{"recall", "Recall@{:<4} {:.5f}\n"},
        std::pair{"precision", "P@{:<9} {:.5f}\n"},
        std::pair{"tpir_at_fpir", "TPIR@FPIR={} {:.5f}\n"}}) {
    if (!result.contains(key)) continue;
    for (const auto& [k, rate] : result[key].items()) {
      text += fmt::format(fmt::runtime(form), k, rate.get<double>());
    }
  }
  if (!result.contains("noises")) return text;
  return text +
         fmt::format("noises: {} of the names match images, which were skipped; {} match none\n",
                     result["noises"]["matched"].dump(), result["noises"]["unmatched"].dump());
}

json identify(const IdentifyFlags& flags) {
  const LoadedModel model(flags.model);
  Faces faces(model, flags);
  LabelledRows probes, gallery;
  faces.add(flags.probes, false, probes);
  if (!flags.gallery.empty()) faces.add(flags.gallery, false, gallery);
  if (!flags.distractors.empty()) faces.add(flags.distractors, true, gallery);
  const int threads = flags.model.threads;
  json result = !flags.gallery.empty()       ? in_gallery(probes, gallery, threads)
                : !flags.distractors.empty() ? among_distractors(probes, gallery, threads)
                                             : among_others(probes, threads);
  if (const auto& noises = faces.noises()) {
    result["noises"] = {{"matched", noises->matched()}, {"unmatched", noises->unmatched()}};
  }
  return result;
}

}  // namespace

void add_identify_verb(CLI::App& pfcctl) {
  const auto flags = std::make_shared<IdentifyFlags>();  // owned by the verb's callback
  CLI::App* verb =
      pfcctl.add_subcommand("identify", "Searches for faces in a gallery (1:N identification)");
  add_model_options(*verb, flags->model);
  verb->add_option("--probes", flags->probes,
                   "Images to search for: a data set in any layout that pfc trains on, for example "
                   "one folder per person")
      ->required();
  verb->add_option("--gallery", flags->gallery,
                   "Images to search in. A person must have the same name as among the probes");
  verb->add_flag("--same-labels", flags->same_labels,
                 "Compares labels instead of names, for data sets without names");
  verb->add_option("--distractors", flags->distractors,
                   "Images of other people, added to the gallery");
  verb->add_option("--noises", flags->noises,
                   "Lists of images to skip, such as megaface_noises.txt, with one name or end of "
                   "a path per line");
  verb->add_flag("--no-flip", flags->no_flip, "Embeds only the image, without its mirror image");
  add_max_damaged(*verb, flags->max_damaged);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "With a gallery, prints the fraction of the probes whose person is among the first k (as\n"
      "TinyFace), and TPIR at FPIR if some people are not in the gallery. With distractors only,\n"
      "adds each other image of the probe's person to them, one at a time, and searches for it\n"
      "(as MegaFace). With probes only, prints Recall@K, the fraction of the probes with an image\n"
      "of their class among the K most similar others, as for Stanford Online Products, and P@K,\n"
      "the mean fraction of these K that are of their class (docs/evaluate.md). Examples:\n"
      "  pfcctl identify --model m.safetensors --probes Probe --gallery Match --distractors Rest\n"
      "  pfcctl identify --model m.safetensors --probes facescrub --distractors megaface\n"
      "  pfcctl identify --model m.safetensors --probes products");
  verb->callback([flags] {
    const json result = identify(*flags);
    std::fputs(flags->json ? json_text(result).c_str() : identification_text(result).c_str(),
               stdout);
  });
}

}  // namespace pfc
