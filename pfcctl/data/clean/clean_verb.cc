// pfcctl data clean: options and printed results.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "pfcctl/data/clean/clean.h"
#include "pfcctl/data/clean/computed_embeddings.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

struct CleanFlags {
  CleanOptions options;
  ModelFlags model;  ///< computes the embeddings if its path is not empty
  double max_damaged = 0.001;
  std::filesystem::path save_embeddings;
  bool self_test = false;
};

std::string part_text(std::int64_t part, std::int64_t all) {
  return all == 0 ? "-"
                  : fmt::format("{:.3f}", static_cast<double>(part) / static_cast<double>(all));
}

std::string self_test_text(const Cleaned& cleaned) {
  std::string text = fmt::format("{:23} {:>9}  {:>9} {:>7}  {:>8} {:>7}\n", "planted errors",
                                 "precision", "5+ images", "recall", "fewer", "recall");
  for (std::size_t kind = 0; kind < kErrorNames.size(); ++kind) {
    const SelfTest& t = cleaned.self_test[kind];
    if (t.planted[0] + t.planted[1] == 0) continue;
    text += fmt::format("{:23} {:>9}  {:9} {:>7}  {:8} {:>7}\n", kErrorNames[kind],
                        part_text(t.right, t.right + t.wrong), t.planted[0],
                        part_text(t.found[0], t.planted[0]), t.planted[1],
                        part_text(t.found[1], t.planted[1]));
  }
  return text;
}

void run_clean(const CleanFlags& flags) {
  const TimePoint start = Clock::now();
  CleanOptions options = flags.options;
  if (options.embeddings.empty() && flags.model.model.empty()) {
    throw InputError(
        "pfcctl data clean: found neither --model nor --embeddings, expected one of them");
  }
  options.threads = flags.model.threads;
  std::optional<ComputedEmbeddings> computed;
  if (!flags.model.model.empty()) {
    expect_regular_or_nothing(options.output);  // now, and not after hours
    expect_not_an_input(options.output, std::array{flags.model.model, options.in, options.against});
    const std::filesystem::path& kept = flags.save_embeddings;
    const std::filesystem::path removed = options.output.string() + ".embeddings";
    for (const std::filesystem::path& other : {removed, options.in, options.against}) {
      if (kept.empty() || kept.lexically_normal() != other.lexically_normal()) continue;
      throw InputError(
          "--save-embeddings " + kept.string() + ": give another folder; this one " +
          (other == removed ? "is used and removed without --save-embeddings" : "has images"));
    }
    computed.emplace(kept.empty() ? removed : kept, !kept.empty());
    options = computed->embed(flags.model, flags.max_damaged, options);
  }
  const Cleaned cleaned = clean_labels(options);
  std::string text = fmt::format("{}: {}; they would change {} of {} ({:.1f} s)\n",
                                 one_line(flags.options.output.string()),
                                 counted(std::ssize(cleaned.findings), "finding"), cleaned.proposed,
                                 counted(cleaned.images, "image"), seconds_since(start));
  for (std::size_t kind = 0; kind < kFindingNames.size(); ++kind) {
    const auto number =
        std::ranges::count(cleaned.findings, static_cast<FindingKind>(kind), &Finding::kind);
    if (number > 0) text += fmt::format("  {:12} {}\n", kFindingNames[kind], number);
  }
  const CleaningThresholds& t = cleaned.thresholds;
  text += fmt::format(
      "thresholds: same person {:.3f}, two centres {:.3f}, image and centre {:.3f}, duplicate "
      "{:.3f}\n",
      t.same, t.nearest, t.belongs, t.duplicate);
  if (cleaned.damaged > 0) {
    text += fmt::format("{} left out: their embeddings are zero or not finite\n",
                        counted(cleaned.damaged, "image"));
  }
  if (cleaned.left_out > 0) {
    text += fmt::format("{} left out: their confidence is below {}\n",
                        counted(cleaned.left_out, "finding"), flags.options.min_confidence);
  }
  if (!cleaned.measured) {
    text +=
        "confidence is 0: measuring it needs 16 identities without findings, each with two images "
        "that agree; --min-confidence 0 writes all findings\n";
  }
  if (flags.self_test) text += self_test_text(cleaned);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

void add_data_clean(CLI::App& data) {
  const auto flags = std::make_shared<CleanFlags>();  // owned by the verb's callback
  CleanOptions& o = flags->options;
  CLI::App* verb = data.add_subcommand("clean", "Finds wrong labels in a data set");
  CLI::Option* embeddings =
      verb->add_option("--embeddings", o.embeddings,
                       "Embeddings and labels: a .safetensors or .npy file, or a folder with one");
  CLI::Option* model = verb->add_option("--model", flags->model.model,
                                        "Model that embeds the images of --in and --against")
                           ->excludes(embeddings);
  CLI::Option* in = verb->add_option(
      "--in", o.in,
      "Images in any layout that pfc trains on. With --embeddings, those that were embedded: the "
      "pixels of near-duplicates are compared too");
  model->needs(in);
  CLI::Option* against = verb->add_option(
      "--against", o.against,
      "Test set whose people to find: embeddings by the same model; with --model also images in "
      "any layout, or a verification set (.bin)");
  verb->add_option("--against-in", o.against_in, "Images of the embeddings in --against")
      ->needs(in)
      ->needs(against);
  verb->add_option("--output", o.output, "File to write: one JSON object for each finding")
      ->capture_default_str();
  verb->add_option("--min-confidence", o.min_confidence,
                   "Leaves out findings that are less likely than this to be right")
      ->check(part_of_one())
      ->capture_default_str();
  verb->add_flag(
      "--self-test", flags->self_test,
      "Prints recall and precision for errors that the command plants in a copy of the labels");
  verb->add_option("--save-embeddings", flags->save_embeddings,
                   "Keeps the embeddings in FOLDER/in and FOLDER/against")
      ->needs(model);
  add_max_damaged(*verb, flags->max_damaged);
  add_compute_options(*verb, flags->model);
  verb->footer(
      "Finds wrong labels, strangers, people with two labels, labels with two people,\n"
      "near-duplicates, and people of a test set (docs/cleaning.md). Changes no data. Examples:\n"
      "  pfcctl data clean --model out/backbone.safetensors --in /data/faces --against lfw.bin\n"
      "  pfcctl data clean --embeddings faces.safetensors --in /data/faces --self-test");
  verb->callback([flags] { run_clean(*flags); });
}

}  // namespace pfc
