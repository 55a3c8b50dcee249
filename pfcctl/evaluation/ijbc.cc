// pfcctl ijbc: the protocols of IJB-B and IJB-C.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/folder.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "data/images/decode.h"
#include "data/images/image_file.h"
#include "model/evaluation/identification.h"
#include "model/evaluation/template_pooling.h"
#include "pfcctl/data/align/landmarks.h"
#include "pfcctl/data/embed/damages.h"
#include "pfcctl/data/embed/loaded_model.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/writing.h"
#include "pfcctl/evaluation/ijb_files.h"
#include "pfcctl/evaluation/roc_picture.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

using json = nlohmann::ordered_json;
using std::filesystem::path;

constexpr std::array<double, 6> kIjbFars = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1};
constexpr std::array<double, 2> kFpirs = {0.01, 0.1};

struct IjbFlags {
  ModelFlags model;
  path data, roc;
  bool no_flip = false, no_score = false, no_media = false, normalise = false, json = false;
  double max_damaged = 0;
};

/// Returns a reader of the images in `crops`. It warps each face so that its landmarks are where
/// place_face() puts them.
ReadImage read_aligned(const IjbLists& lists, const path& crops, const EmbedOptions& options) {
  return [&lists, crops, options](std::int64_t i, std::span<std::uint8_t> out) {
    thread_local ImageDecoder decoder;
    thread_local ImageBuffer encoded;
    thread_local std::vector<std::uint8_t> rgb;
    const IjbFace& face = lists.faces[static_cast<std::size_t>(i)];
    const Similarity placed = place_face(face.landmarks, options.height);
    const ImageSize size = decoder.decode_whole(read_image_file(crops / face.image, encoded), rgb);
    expect_inside(face.landmarks, size);
    warp(rgb, size, placed, {options.height, options.width}, out);
  };
}

Templates embed_templates(const LoadedModel& model, const IjbLists& lists, const IjbFlags& flags) {
  const EmbedOptions options = model.options(!flags.no_flip);
  const path crops = flags.data / "loose_crop";
  const std::int64_t images = std::ssize(lists.faces);
  Damages damages(images, flags.max_damaged);
  TemplatePooling pooling(options.embedding_size);
  std::vector<float> feature(static_cast<std::size_t>(options.embedding_size));
  Progress progress("embedding " + lists.set, "images");
  const auto take = [&](std::int64_t i, const EmbeddedImage& image) {
    const IjbFace& face = lists.faces[static_cast<std::size_t>(i)];
    progress.show(i + 1, images);
    if (image.damage) return damages.add((crops / face.image).string(), *image.damage);
    const auto norm = static_cast<float>(add_mirrored(image, feature));
    model.expect_usable(norm, [&] { return (crops / face.image).string(); });
    for (float& x : feature) {
      if (flags.normalise) x /= norm;
      if (!flags.no_score) x *= face.score;
    }
    pooling.add(face.template_id, flags.no_media ? i : face.medium, feature);
  };
  embed_images(images, read_aligned(lists, crops, options), model.embed(), options, take);
  tell_damaged(damages.all());
  return pooling.finish();
}

/// Returns the template's embedding; empty if all its images are damaged.
std::span<const double> row_of(const Templates& templates, std::int64_t id, std::int64_t d) {
  const std::int64_t row = templates.find(id);
  if (row < 0) return {};
  return std::span(templates.rows)
      .subspan(static_cast<std::size_t>(row * d), static_cast<std::size_t>(d));
}

/// Leaves out pairs of templates without a row.
Roc compare_pairs(const Templates& templates, const IjbLists& lists, std::int64_t d) {
  std::vector<ScoredPair> scored;
  scored.reserve(lists.pairs.size());
  for (const IjbPair& pair : lists.pairs) {
    const auto a = row_of(templates, pair.first, d), b = row_of(templates, pair.second, d);
    if (a.empty() || b.empty()) continue;
    double sum = 0;
    for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
    scored.push_back({sum, pair.same});
  }
  const auto genuine = std::ranges::count(scored, true, &ScoredPair::same);
  if (genuine == 0 || genuine == std::ssize(scored)) {
    throw InputError(
        fmt::format("{}: without damaged templates, found {} pairs of one person and {} pairs of "
                    "two people, expected at least one of each; restore the images",
                    lists.set, genuine, std::ssize(scored) - genuine));
  }
  return roc_of(std::move(scored));
}

LabelledRows rows_of(const Templates& templates, const std::vector<IjbSubject>& list,
                     std::int64_t d) {
  LabelledRows rows{d};
  for (const IjbSubject& each : list) {
    const auto row = row_of(templates, each.template_id, d);
    if (row.empty()) continue;
    rows.rows.insert(rows.rows.end(), row.begin(), row.end());
    rows.subject.push_back(each.subject);
  }
  return rows;
}

/// Each gallery is searched by itself. Hits among the first k are added up over the galleries and
/// divided by all probes; TPIRs are averaged.
json identify_templates(const Templates& templates, const IjbLists& lists, std::int64_t d,
                        int threads) {
  const LabelledRows probes = rows_of(templates, lists.probes, d);
  std::array<double, 3> hits{};
  std::array<double, kFpirs.size()> tpirs{};
  constexpr std::array<std::int64_t, 3> kRanks = {1, 5, 10};
  for (const auto& list : lists.galleries) {
    const auto found = search(probes, rows_of(templates, list, d), threads);
    for (std::size_t i = 0; i < kRanks.size(); ++i) {
      hits[i] += static_cast<double>(std::ranges::count_if(
          found, [&](const Search& s) { return s.mated && s.rank <= kRanks[i]; }));
    }
    for (std::size_t i = 0; i < kFpirs.size(); ++i) tpirs[i] += tpir_at_fpir(found, kFpirs[i]);
  }
  json result{{"probes", probes.subject.size()}, {"rank", json::object()}};
  for (std::size_t i = 0; i < kRanks.size(); ++i) {
    result["rank"][std::to_string(kRanks[i])] =
        hits[i] / static_cast<double>(probes.subject.size());
  }
  for (std::size_t i = 0; i < kFpirs.size(); ++i) {
    result["tpir_at_fpir"][fmt::format("{}", kFpirs[i])] =
        tpirs[i] / static_cast<double>(lists.galleries.size());
  }
  return result;
}

std::string ijb_text(const json& result) {
  std::string text =
      fmt::format("{}: {} images, {} templates, {} pairs\n", result["set"].get<std::string>(),
                  result["images"].dump(), result["templates"].dump(), result["pairs"].dump());
  if (result["left_out_pairs"] != 0) {
    text +=
        fmt::format("{} more pairs were skipped, because all images of a template are damaged\n",
                    result["left_out_pairs"].dump());
  }
  const auto add = [&](const char* label, const json& values) {
    for (const auto& [key, value] : values.items()) {
      text += fmt::format("{}{:<6} {}\n", label, key,
                          value.is_number() ? fmt::format("{:.5f}", value.get<double>()) : "-");
    }
  };
  add("TAR@FAR=", result["tar_at_far"]);
  if (!result.contains("identification")) return text;
  add("rank-", result["identification"]["rank"]);
  add("TPIR@FPIR=", result["identification"]["tpir_at_fpir"]);
  return text;
}

json run_ijb(const IjbFlags& flags) {
  const LoadedModel model(flags.model);
  const IjbLists lists = read_ijb_lists(flags.data);
  std::optional<AtomicFile> picture;  // begun early, because embedding may take hours
  if (!flags.roc.empty()) {
    std::vector<path> inputs = entries_of(flags.data / "meta");
    inputs.push_back(flags.model.model);
    expect_not_an_input(flags.roc, inputs);
    picture.emplace(flags.roc);
  }
  const Templates templates = embed_templates(model, lists, flags);
  const std::int64_t d = model.options(false).embedding_size;
  const Roc roc = compare_pairs(templates, lists, d);
  json result{{"model", flags.model.model.string()},
              {"set", lists.set},
              {"images", lists.faces.size()},
              {"templates", templates.ids.size()},
              {"pairs", roc.genuine + roc.impostors},
              {"left_out_pairs", std::ssize(lists.pairs) - roc.genuine - roc.impostors}};
  for (const double far : kIjbFars) {
    result["tar_at_far"][fmt::format("{:.0e}", far)] = tpr_near(roc, far);
  }
  if (!lists.probes.empty()) {
    result["identification"] = identify_templates(templates, lists, d, flags.model.threads);
  }
  if (picture) {
    const std::string drawn = roc_picture({{flags.model.model.string() + ", " + lists.set, roc}});
    picture->write(std::as_bytes(std::span(drawn)));
    picture->commit();
  }
  return result;
}

}  // namespace

void add_ijbc_verb(CLI::App& pfcctl) {
  const auto flags = std::make_shared<IjbFlags>();  // owned by the verb's callback
  CLI::App* verb = pfcctl.add_subcommand(
      "ijbc", "Evaluates models with the IJB-B and IJB-C protocols, 1:1 and 1:N");
  add_model_options(*verb, flags->model);
  verb->add_option("--data", flags->data,
                   "Folder with meta/ and loose_crop/, in the layout of InsightFace's scripts")
      ->required();
  verb->add_flag("--no-flip", flags->no_flip, "Embeds only the image, without its mirror image");
  verb->add_flag("--no-detector-score", flags->no_score,
                 "Does not weight images by their detector score");
  verb->add_flag("--no-media-pooling", flags->no_media,
                 "Sums the images of a medium (a video) instead of averaging them");
  verb->add_flag("--normalise", flags->normalise, "Normalises each image's embedding to length 1");
  verb->add_option("--roc", flags->roc, "Writes the ROC curve to this SVG file");
  add_max_damaged(*verb, flags->max_damaged);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Aligns the faces by their landmarks. Computes the same figures as InsightFace's scripts:\n"
      "1:1 takes the point of the ROC curve nearest to each FAR; 1:N searches each gallery\n"
      "separately (docs/evaluate.md). Example:\n"
      "  pfcctl ijbc --model out/backbone.safetensors --data /data/IJBC --roc ijbc.svg");
  verb->callback([flags] {
    const json result = run_ijb(*flags);
    std::fputs(flags->json ? json_text(result).c_str() : ijb_text(result).c_str(), stdout);
  });
}

}  // namespace pfc
