// pfcctl identify: whose face is this? Probes in a gallery, and among distractors.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/error.h"
#include "model/evaluation/identification.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/writing.h"
#include "pfcctl/evaluation/embed_dataset.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

using json = nlohmann::ordered_json;
using std::filesystem::path;

struct IdentifyFlags {
  ModelFlags model;
  path probes, gallery, distractors;
  bool no_flip = false, json = false;
  double max_damaged = 0.001;
};

/// Embeddings of length 1 with numbers for their people, the same for the same name.
class Faces {
 public:
  Faces(const LoadedModel& model, const IdentifyFlags& flags)
      : model_(model), flags_(flags), options_(model.options(!flags.no_flip)) {}

  /// Adds the images of a data set. Strangers have no subject in common with any other image.
  void add(const path& data, bool strangers, LabelledRows& to) {
    to.dimension = options_.embedding_size;
    const auto dataset = open_to_embed(data, options_);
    const std::int64_t images = dataset->info().images;
    Damages damages(images, flags_.max_damaged);
    std::vector<float> sum(static_cast<std::size_t>(options_.embedding_size));
    std::vector<std::byte> storage;
    Progress progress("embedding " + data.string(), "images");
    const auto take = [&](std::int64_t i, const EmbeddedImage& image) {
      progress.show(i + 1, images);
      if (image.damage) return damages.add(dataset->name(i), *image.damage);
      const double norm = add_mirrored(image, sum);
      for (const float x : sum) to.rows.push_back(norm > 0 ? double{x} / norm : 0);
      to.subject.push_back(strangers ? -1 : number_of(*dataset, dataset->label(i, storage)));
    };
    embed_images(images, read_images_of(*dataset, options_), model_.embed(), options_, take);
    tell_damaged(damages.all());
  }

 private:
  std::int64_t number_of(const Dataset& dataset, std::int64_t label) {
    const std::string name = dataset.identity(label);
    return numbers_.emplace(name.empty() ? std::to_string(label) : name, std::ssize(numbers_))
        .first->second;
  }

  const LoadedModel& model_;
  const IdentifyFlags& flags_;
  const EmbedOptions options_;
  std::map<std::string, std::int64_t> numbers_;
};

json in_gallery(const LabelledRows& probes, const LabelledRows& gallery, int threads) {
  const std::vector<Search> found = search(probes, gallery, threads);
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

std::string identification_text(const json& result) {
  std::string text;
  for (const auto& [key, value] : result.items()) {
    if (!value.is_object())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", value.dump(), key);
  }
  text += "\n";
  for (const auto& [k, rate] : result["rank"].items()) {
    text += fmt::format("rank-{:<4} {:.5f}\n", k, rate.get<double>());
  }
  if (!result.contains("tpir_at_fpir")) return text;
  for (const auto& [fpir, rate] : result["tpir_at_fpir"].items()) {
    text += fmt::format("TPIR@FPIR={} {:.5f}\n", fpir, rate.get<double>());
  }
  return text;
}

json identify(const IdentifyFlags& flags) {
  if (flags.gallery.empty() && flags.distractors.empty()) {
    throw InputError("found neither --gallery nor --distractors; name what to search in");
  }
  const LoadedModel model(flags.model);
  Faces faces(model, flags);
  LabelledRows probes, gallery;
  faces.add(flags.probes, false, probes);
  if (!flags.gallery.empty()) faces.add(flags.gallery, false, gallery);
  if (!flags.distractors.empty()) faces.add(flags.distractors, true, gallery);
  const auto run = flags.gallery.empty() ? among_distractors : in_gallery;
  return run(probes, gallery, flags.model.threads);
}

}  // namespace

void add_identify_verb(CLI::App& pfcctl) {
  const auto flags = std::make_shared<IdentifyFlags>();  // owned by the verb's callback
  CLI::App* verb = pfcctl.add_subcommand("identify", "Finds probes in a gallery of faces (1:N)");
  add_model_options(*verb, flags->model);
  verb->add_option("--probes", flags->probes,
                   "Images to find: a folder for each person, a list ...")
      ->required();
  verb->add_option("--gallery", flags->gallery,
                   "Images to find them in; people have the same names as among the probes");
  verb->add_option("--distractors", flags->distractors,
                   "Images of other people, which are added to the gallery");
  verb->add_flag("--no-flip", flags->no_flip, "Does not add the embedding of each mirror image");
  add_max_damaged(*verb, flags->max_damaged);
  verb->add_flag("--json", flags->json, "For programs");
  verb->footer(
      "With a gallery: the part of the probes with a mate among the first k (TinyFace), and TPIR\n"
      "at FPIR where some probes have no mate. Without one, as MegaFace: each probe looks for\n"
      "each other image of its person among the distractors (docs/evaluate.md). Examples:\n"
      "  pfcctl identify --model m.safetensors --probes Probe --gallery Match --distractors Rest\n"
      "  pfcctl identify --model m.safetensors --probes facescrub --distractors megaface");
  verb->callback([flags] {
    const json result = identify(*flags);
    std::fputs(flags->json ? (result.dump(2) + "\n").c_str() : identification_text(result).c_str(),
               stdout);
  });
}

}  // namespace pfc
