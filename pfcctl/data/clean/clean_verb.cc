// pfcctl data clean: options and printed results.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/counted.h"
#include "common/one_line.h"
#include "pfcctl/data/clean/clean.h"
#include "pfcctl/data/clean/findings_file.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

using json = nlohmann::ordered_json;

struct CleanFlags {
  CleanOptions options;
  bool self_test = false, json = false;
};

constexpr std::array kPlantedNames = {"wrong_label", "split", "merged", "duplicate", "leaked"};

/// Shows each part of the work with a Progress of its own.
class PartsProgress {
 public:
  void show(const char* doing, const char* units, std::int64_t done, std::int64_t all) {
    if (doing != doing_) {
      progress_.reset();
      progress_.emplace(doing, units);
      doing_ = doing;
    }
    progress_->show(done, all);
  }

 private:
  const char* doing_ = nullptr;
  std::optional<Progress> progress_;
};

double recall_of(const PlantedRecall& r) {
  return r.planted == 0 ? NAN : static_cast<double>(r.found) / static_cast<double>(r.planted);
}

json json_of(const SelfTest& test) {
  json told;
  for (std::size_t kind = 0; kind < kPlantedNames.size(); ++kind) {
    const auto& [many, few] = test.recalls[kind];
    told[kPlantedNames[kind]] = {{"precision", test.precision[kind]},
                                 {"planted", many.planted},
                                 {"recall", recall_of(many)},
                                 {"planted_small", few.planted},
                                 {"recall_small", recall_of(few)}};
  }
  return told;
}

std::string self_test_text(const SelfTest& test) {
  const auto part = [](const PlantedRecall& r) {
    return r.planted == 0 ? std::string("-") : fmt::format("{:.3f}", recall_of(r));
  };
  std::string text = fmt::format("{:12} {:>9}  {:>8} {:>7}  {:>8} {:>7}\n", "planted", "precision",
                                 "5 images", "recall", "fewer", "recall");
  for (std::size_t kind = 0; kind < kPlantedNames.size(); ++kind) {
    const auto& [many, few] = test.recalls[kind];
    if (many.planted + few.planted == 0) continue;
    text += fmt::format("{:12} {:9.3f}  {:8} {:>7}  {:8} {:>7}\n", kPlantedNames[kind],
                        test.precision[kind], many.planted, part(many), few.planted, part(few));
  }
  return text;
}

void tell(const CleanFlags& flags, const Cleaned& cleaned, TimePoint start) {
  json kinds;
  for (const FindingKind kind : kFindingKinds) kinds[name_of(kind)] = 0;
  for (const Finding& f : cleaned.findings) {
    kinds[name_of(f.kind)] = kinds[name_of(f.kind)].get<std::int64_t>() + 1;
  }
  const CleaningThresholds& t = cleaned.thresholds;
  if (flags.json) {
    json told{
        {"file", flags.options.output.string()},
        {"images", cleaned.images},
        {"identities", cleaned.identities},
        {"damaged", cleaned.damaged},
        {"proposed_images", cleaned.proposed},
        {"findings", kinds},
        {"thresholds", {{"same", t.same}, {"nearest", t.nearest}, {"duplicate", t.duplicate}}},
        {"seconds", seconds_since(start)}};
    if (flags.self_test) told["self_test"] = json_of(cleaned.self_test);
    std::fputs(json_text(told).c_str(), stdout);
    return;
  }
  std::string text =
      fmt::format("{}: {} about {} of {} ({:.1f} s)\n", one_line(flags.options.output.string()),
                  counted(std::ssize(cleaned.findings), "finding"), cleaned.proposed,
                  counted(cleaned.images, "image"), seconds_since(start));
  for (const auto& [kind, number] : kinds.items()) {
    if (number != 0) text += fmt::format("  {:12} {}\n", kind, number.get<std::int64_t>());
  }
  text += fmt::format("thresholds: same person {:.3f}, nearest centre {:.3f}, duplicate {:.3f}\n",
                      t.same, t.nearest, t.duplicate);
  if (cleaned.damaged > 0) {
    text += fmt::format("{} left out: their embeddings are zero or not finite\n",
                        counted(cleaned.damaged, "image"));
  }
  if (flags.self_test) text += self_test_text(cleaned.self_test);
  std::fputs(text.c_str(), stdout);
}

void run_clean(CleanFlags& flags) {
  CleanOptions& o = flags.options;
  PartsProgress progress;
  o.finder.progress = [&](const char* doing, const char* units, std::int64_t done,
                          std::int64_t all) { progress.show(doing, units, done, all); };
  const TimePoint start = Clock::now();
  const Cleaned cleaned = clean_labels(o);
  tell(flags, cleaned, start);
}

}  // namespace

void add_data_clean(CLI::App& data) {
  const auto flags = std::make_shared<CleanFlags>();  // owned by the verb's callback
  CleanOptions& o = flags->options;
  CLI::App* verb = data.add_subcommand("clean", "Finds wrong labels in a data set of embeddings");
  verb->add_option("--embeddings", o.embeddings,
                   "Embeddings and labels: a file of pfcctl embed, or a folder with one")
      ->required();
  verb->add_option("--against", o.against,
                   "Embeddings of test people, computed by the same model: finds these people");
  verb->add_option("--output", o.output, "File to write: one JSON object for each finding")
      ->capture_default_str();
  verb->add_option("--min-confidence", o.min_confidence,
                   "Leaves out findings that are less likely than this to be right")
      ->check(part_of_one())
      ->capture_default_str();
  verb->add_flag("--self-test", flags->self_test,
                 "Prints how many of the planted errors were found");
  verb->add_option("--seed", o.seed, "Seed of the planted errors")->capture_default_str();
  add_threads(*verb, o.finder.threads);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Finds images with wrong labels, people with two labels, labels with two people, and\n"
      "near-duplicates (docs/cleaning.md). Changes no data. Example:\n"
      "  pfcctl embed --model out/backbone.safetensors --in /data/faces --out faces.safetensors\n"
      "  pfcctl data clean --embeddings faces.safetensors --self-test");
  verb->callback([flags] { run_clean(*flags); });
}

}  // namespace pfc
