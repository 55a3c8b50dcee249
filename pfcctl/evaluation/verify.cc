// pfcctl verify: are two images of the same person? Accuracy of models on verification sets.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "comm/make_comm.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/regular_file.h"
#include "common/machine/thread_waiting.h"
#include "common/one_line.h"
#include "model/evaluation/evaluation.h"
#include "model/files/model_file.h"
#include "pfcctl/data/embed/loaded_model.h"
#include "pfcctl/evaluation/groups.h"
#include "pfcctl/evaluation/roc_picture.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

using json = nlohmann::ordered_json;
using std::filesystem::path;

struct VerifyFlags {
  std::vector<path> models, bins;
  ModelFlags compute;
  path groups, roc;
  bool json = false;
};

struct Verified {
  path model;
  std::vector<VerificationResult> sets;  ///< results of the sets, or of the groups of one set
};

struct Average {
  std::int64_t pairs = 0;
  double accuracy = 0, deviation = 0;
};

/// Mean accuracy, and the sample standard deviation, as the publications on RFW print them.
/// REQUIRES: two sets or more.
Average average_of(const std::vector<VerificationResult>& sets) {
  const auto n = static_cast<double>(sets.size());
  Average average;
  for (const VerificationResult& r : sets) {
    average.pairs += r.pairs;
    average.accuracy += r.accuracy / n;
  }
  double squares = 0;
  for (const VerificationResult& r : sets) squares += std::pow(r.accuracy - average.accuracy, 2);
  average.deviation = std::sqrt(squares / (n - 1));
  return average;
}

/// A folder is replaced by the sets of the panel that it contains.
std::vector<path> bins_of(const std::vector<path>& given) {
  std::vector<path> bins;
  std::error_code error;
  for (const path& each : given) {
    if (!std::filesystem::is_directory(each, error)) {
      bins.push_back(each);
      continue;
    }
    std::ranges::move(find_verification_bins({kPanel}, std::span(&each, 1)),
                      std::back_inserter(bins));
  }
  return bins;
}

VerificationResult verify_on(const LoadedModel& model, const VerificationSet& set, Comm& comm) {
  Progress progress("embedding " + set.name, "images");
  const EmbedOptions options = model.options(/*flip=*/true);
  const std::int64_t images = std::ssize(set.images);
  const EmbedBatch embed = model.embed();
  const auto d = static_cast<std::size_t>(options.embedding_size);
  std::int64_t calls = 0;  // two for each batch: images and mirror images
  const EmbedBatch shown = [&](std::span<const std::uint8_t> pixels, std::span<float> out) {
    embed(pixels, out);
    const std::int64_t first = calls / 2 * options.batch;
    for (std::int64_t i = first; i < std::min(images, first + options.batch); ++i) {
      double squares = 0;
      for (const float x : out.subspan(static_cast<std::size_t>(i - first) * d, d)) {
        squares += double{x} * double{x};
      }
      model.expect_usable(std::sqrt(squares),
                          [&] { return fmt::format("image {} of {}", i, set.file.string()); });
    }
    progress.show(std::min(images, ++calls * options.batch / 2), images);
  };
  return evaluate(set, comm, shown, options);
}

/// Leaves out repeated sets. Reads all files once, so that a damaged one is found before hours of
/// work. Returns the images of the largest set.
std::int64_t check_inputs(const std::vector<path>& models, std::vector<path>& bins) {
  std::int64_t most = 0;
  std::vector<path> different;
  for (const path& bin : bins) {
    const auto is_same = [&](const path& other) {
      std::error_code error;
      return std::filesystem::equivalent(bin, other, error);
    };
    if (std::ranges::any_of(different, is_same)) continue;
    const VerificationSet set = read_verification_bin(bin);
    check_verification_set(set, {}, {});
    if (const int folds = one_sided_folds(set.same); folds > 0) {
      std::fprintf(stderr,
                   "note: %s: %d of its folds have only pairs of one person, or only pairs of two "
                   "people, so accuracy and TAR mean little; change the order of its pairs\n",
                   one_line(bin.string()).c_str(), folds);
    }
    most = std::max(most, std::ssize(set.images));
    different.push_back(bin);
  }
  for (const path& model : models) read_model(model);
  bins = std::move(different);
  return most;
}

std::vector<Verified> verify_all(const VerifyFlags& flags, std::vector<path> bins) {
  const auto comm = make_host_comm({}, nullptr);
  std::optional<std::vector<VerificationSet>> groups;
  if (!flags.groups.empty()) {
    if (bins.size() != 1) {
      throw InputError(fmt::format("--groups {}: found {} verification sets, expected one --bin",
                                   flags.groups.string(), bins.size()));
    }
    groups = split_by_group(read_verification_bin(bins[0]), flags.groups);
  }
  const std::int64_t most = check_inputs(flags.models, bins);
  std::vector<Verified> all;
  for (const path& file : flags.models) {
    ModelFlags compute = flags.compute;
    compute.model = file;
    compute.batch = std::min(compute.batch, most);
    const LoadedModel model(compute);
    all.push_back({file, {}});
    const auto run = [&](const VerificationSet& set) {
      all.back().sets.push_back(verify_on(model, set, *comm));
    };
    if (groups) {
      std::ranges::for_each(*groups, run);
    } else {
      for (const path& bin : bins) run(read_verification_bin(bin));
    }
  }
  return all;
}

/// Returns whether the set has enough impostor pairs for one false accept at this FAR.
bool resolves(const Roc& roc, double far) { return far * static_cast<double>(roc.impostors) >= 1; }

std::string table_of(const std::vector<Verified>& all) {
  std::size_t width = 5, name = 12;
  for (const auto& [model, sets] : all) {
    width = std::max(width, one_line(model.string()).size());
    for (const VerificationResult& r : sets) name = std::max(name, one_line(r.name).size());
  }
  std::string text = fmt::format("{:{}}  {:{}} {:>6}  {:18}  {:>9}", "model", width, "set", name,
                                 "pairs", "accuracy", "threshold");
  for (const double far : kFars) text += fmt::format("  {:>9}", fmt::format("TAR@{:.0e}", far));
  text += fmt::format("  {:>7}  {:>7}\n", "EER", "minDCF");
  bool marked = false;
  const auto begin_line = [&](const path& model, const std::string& set, const auto& r) {
    text += fmt::format("{:{}}  {:{}} {:6}  {:.5f} +- {:.5f}", one_line(model.string()), width,
                        one_line(set), name, r.pairs, r.accuracy, r.deviation);
  };
  for (const auto& [model, sets] : all) {
    for (const VerificationResult& r : sets) {
      begin_line(model, r.name, r);
      text += fmt::format("  {:9.3f}", r.threshold);
      for (const TarAtFar& t : r.tars) {
        const bool mark = !resolves(r.roc, t.far);
        marked |= mark;
        text += fmt::format("  {:.5f}{} ", t.tar, mark ? "*" : " ");
      }
      text += fmt::format("  {:.5f}  {:.5f}\n", equal_error_rate(r.roc), min_detection_cost(r.roc));
    }
    if (sets.size() < 2) continue;
    begin_line(model, "average", average_of(sets));
    text += "\n";
  }
  text += "threshold: on the squared distance d of unit embeddings, whose cosine is 1 - d / 2\n";
  if (marked) text += "*: the set has too few impostor pairs for one false accept at this FAR\n";
  return text;
}

json json_of(const std::vector<Verified>& all) {
  json list = json::array();
  const auto begin_object = [&](const path& model, const std::string& set, const auto& r) {
    list.push_back({{"model", model.string()},
                    {"set", set},
                    {"pairs", r.pairs},
                    {"accuracy", r.accuracy},
                    {"deviation", r.deviation}});
  };
  for (const auto& [model, sets] : all) {
    for (const VerificationResult& r : sets) {
      json tars = json::array();
      for (const TarAtFar& t : r.tars) {
        tars.push_back({{"far", t.far},
                        {"tar", t.tar},
                        {"deviation", t.deviation},
                        {"measured_far", t.measured},
                        {"resolved", resolves(r.roc, t.far)}});
      }
      begin_object(model, r.name, r);
      list.back().update({{"threshold", r.threshold},
                          {"tar_at_far", tars},
                          {"eer", equal_error_rate(r.roc)},
                          {"min_dcf", min_detection_cost(r.roc)},
                          {"embedding_norm", r.embedding_norm},
                          {"seconds", r.seconds}});
    }
    if (sets.size() > 1) begin_object(model, "average", average_of(sets));
  }
  return list;
}

std::string picture_of(const std::vector<Verified>& all) {
  std::vector<NamedRoc> curves;
  for (const auto& [model, sets] : all) {
    for (const auto& r : sets) curves.push_back({model.string() + ", " + r.name, r.roc});
  }
  return roc_picture(curves);
}

void run_verify(const VerifyFlags& flags) {
  begin_again_as_workers_wait();
  const std::vector<path> bins = bins_of(flags.bins);
  std::optional<AtomicFile> picture;  // begun early, because embedding may take hours
  if (!flags.roc.empty()) {
    std::vector<path> inputs = bins;
    inputs.insert(inputs.end(), flags.models.begin(), flags.models.end());
    inputs.push_back(flags.groups);
    expect_not_an_input(flags.roc, inputs);
    picture.emplace(flags.roc);
  }
  const std::vector<Verified> all = verify_all(flags, bins);
  if (picture) {
    const std::string drawn = picture_of(all);
    picture->write(std::as_bytes(std::span(drawn)));
    picture->commit();
  }
  std::fputs((flags.json ? json_text(json_of(all)) : table_of(all)).c_str(), stdout);
}

}  // namespace

void add_verify_verb(CLI::App& pfcctl) {
  const auto flags = std::make_shared<VerifyFlags>();  // owned by the verb's callback
  CLI::App* verb =
      pfcctl.add_subcommand("verify", "Measures the accuracy of models on verification sets");
  verb->add_option("--model", flags->models, "Model files, such as backbone.safetensors")
      ->required();
  verb->add_option("--bin", flags->bins,
                   "Verification sets such as lfw.bin, or a folder that contains some of lfw, "
                   "cfp_fp, agedb_30, calfw, cplfw and xqlfw")
      ->required();
  add_compute_options(*verb, flags->compute);
  verb->add_option("--groups", flags->groups,
                   "Text file whose line k names the group of pair k; measures each group "
                   "separately. Needs a single verification set");
  verb->add_option("--roc", flags->roc, "Writes all ROC curves to this SVG file");
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Prints accuracy, threshold and TAR at FAR by LFW's protocol, as arcface_torch computes\n"
      "them. For several sets or groups, also the mean and standard deviation of their\n"
      "accuracies (docs/evaluate.md). Examples:\n"
      "  pfcctl verify --model out/backbone.safetensors --bin lfw.bin cfp_fp.bin\n"
      "  pfcctl verify --model a.safetensors b.safetensors --bin /data/ms1m --roc roc.svg");
  verb->callback([flags] { run_verify(*flags); });
}

}  // namespace pfc
