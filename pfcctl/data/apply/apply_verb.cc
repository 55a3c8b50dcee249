// pfcctl data apply: corrects labels with the findings of pfcctl data clean (docs/cleaning.md).
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "data/mapping/overlay.h"
#include "data/open_dataset.h"
#include "pfcctl/data/apply/corrections.h"
#include "pfcctl/data/apply/resolution.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/shuffle.h"
#include "pfcctl/data/verbs.h"
#include "pfcctl/data/writing.h"

namespace pfc {

namespace {

struct ApplyFlags {
  std::filesystem::path findings, overlay;  ///< overlay: empty if a data set is written
  std::optional<double> min_confidence;
  ShuffleOptions write{.keep_order = true};  ///< `in` is always used, `out` if it is not empty
};

/// Describes the lines that are not applied.
std::string skipped_text(const SelectedFindings& selected, const ApplyFlags& flags) {
  const std::string less =
      flags.min_confidence ? fmt::format(" and less certain than {}", *flags.min_confidence) : "";
  return fmt::format("{} rejected, {} without a decision{}", counted(selected.rejected, "finding"),
                     selected.uncertain, less);
}

std::string applied_text(const SelectedFindings& selected, const Resolution& done,
                         const ApplyFlags& flags) {
  std::string text = fmt::format(
      "{}: {} chosen ({} accepted, {} certain), {}\n", one_line(flags.findings.string()),
      counted(std::ssize(selected.corrections), "finding"), selected.accepted, selected.certain,
      skipped_text(selected, flags));
  text += fmt::format("  {} moved, {} left out; {} merged, {} split off\n",
                      counted(done.moved, "image"), done.left_out,
                      done.merged == 1 ? "1 identity" : fmt::format("{} identities", done.merged),
                      done.split);
  if (done.conflicts > 0) {
    text += fmt::format("  {} not applied: an earlier finding decided about the image\n",
                        counted(done.conflicts, "correction"));
  }
  if (done.kept_duplicates > 0) {
    text += fmt::format("  {} kept, because another copy is left out\n",
                        counted(done.kept_duplicates, "duplicate"));
  }
  return text;
}

/// Throws InputError if the overlay would replace another file, or, without --force, an overlay.
void check_overlay_file(const ApplyFlags& flags) {
  constexpr std::string_view kBegin = R"({"overlay")";
  if (!something_at(flags.overlay)) return;
  if (read_text(flags.overlay, kBegin.size()) != kBegin) {
    throw InputError(flags.overlay.string() +
                     ": found a file that is not an overlay; give another name");
  }
  if (flags.write.replace) return;
  throw InputError(flags.overlay.string() + ": exists already; give --force to replace it");
}

void run_apply(const ApplyFlags& flags) {
  if (flags.overlay.empty() && flags.write.out.empty()) {
    throw InputError("pfcctl data apply: found neither --overlay nor --out, expected one of them");
  }
  const TimePoint start = Clock::now();
  SetsOfFindings sets{.cleaned = {.path = flags.write.in}};
  std::unique_ptr<Dataset>& dataset = sets.cleaned.dataset;
  dataset = open_dataset({.rec = flags.write.in, .doing = end_at_interrupt});
  expect_one_label(*dataset, "pfcctl data apply");
  check_classes(dataset->info(), flags.write.in);
  if (flags.overlay.empty()) {
    expect_images(*dataset, "apply --out");
    prepare_folder(flags.write.in, flags.write.out, flags.write.replace);
  } else {
    check_overlay_file(flags);
  }
  sets.cleaned.labels = labels_of(*dataset);
  const SelectedFindings selected = select_findings(flags.findings, sets, flags.min_confidence);
  if (selected.corrections.empty()) {
    throw InputError(
        fmt::format("{}: found nothing to apply: {}; accept findings, or give {} --min-confidence",
                    flags.findings.string(), skipped_text(selected, flags),
                    flags.min_confidence ? "a lower" : "a"));
  }
  Resolution done = resolve(selected.corrections, sets.cleaned.labels, dataset->info().classes);
  done.overlay.file = flags.overlay.empty() ? flags.findings : flags.overlay;
  const auto changed = overlaid(std::move(dataset), done.overlay);
  if (flags.overlay.empty()) {
    const Shuffled written =
        shuffle_dataset(*changed, flags.write, Progress("writing", "images").as_function());
    std::fputs(applied_text(selected, done, flags).c_str(), stdout);
    return tell_written(flags.write.out / "train.rec", written.images, written.classes,
                        written.damaged, start);
  }
  write_overlay(flags.overlay, done.overlay);
  std::fputs(applied_text(selected, done, flags).c_str(), stdout);
  std::printf("%s: %s of %lld identities remain (%.1f s)\n",
              one_line(flags.overlay.string()).c_str(),
              counted(changed->info().images, "image").c_str(),
              static_cast<long long>(changed->info().classes), seconds_since(start));
}

}  // namespace

void add_data_apply(CLI::App& data) {
  const auto flags = std::make_shared<ApplyFlags>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand("apply", "Corrects labels by the findings of clean");
  verb->add_option("--findings", flags->findings, "Findings; may contain decisions")->required();
  verb->add_option("--in", flags->write.in, "The data set that was embedded")->required();
  CLI::Option* out = verb->add_option(
      "--out", flags->write.out,
      "Output folder for train.rec, train.idx and property with the changed labels");
  verb->add_option("--overlay", flags->overlay,
                   "File to write instead: the changed labels, for a job's key \"overlay\"")
      ->excludes(out);
  verb->add_option("--min-confidence", flags->min_confidence,
                   "Also applies findings without a decision that are at least this likely to be "
                   "right")
      ->check(part_of_one());
  add_threads(*verb, flags->write.threads);
  add_max_damaged(*verb, flags->write.max_damaged);
  add_force(*verb, flags->write.replace);
  verb->footer(
      "Applies findings with \"decision\": \"accept\" (docs/cleaning.md). Example:\n"
      "  pfcctl data apply --findings findings.jsonl --in /data/faces --overlay "
      "faces.overlay.jsonl");
  verb->callback([flags] { run_apply(*flags); });
}

}  // namespace pfc
