#include "pfcctl/data/merge_split.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "data/combined_dataset.h"
#include "data/damaged_image.h"
#include "data/mapping/chosen_dataset.h"
#include "data/open_dataset.h"
#include "data/order/global_order.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

/// Checks the sets as a job does.
void check_sets(const MergeOptions& options) {
  const std::vector<fs::path>& sets = options.in;
  if (sets.size() < 2) throw InputError("merge: found one data set, expected two or more");
  if (options.share_identities) return;
  for (auto set = sets.begin(); set != sets.end(); ++set) {
    std::error_code ignored;
    const bool twice = std::any_of(sets.begin(), set, [&](const fs::path& before) {
      return before == *set || fs::equivalent(before, *set, ignored);
    });
    if (!twice) continue;
    throw InputError(
        fmt::format("merge: found {} twice, so each of its people would be two classes; remove "
                    "one, or give --share-identities",
                    set->string()));
  }
}

std::unique_ptr<Dataset> open_all(const MergeOptions& options) {
  check_sets(options);
  if (!options.identities.empty() && options.identities.size() != options.in.size()) {
    throw InputError(
        fmt::format("--identities: found {} files, expected one for each of the {} data sets",
                    options.identities.size(), options.in.size()));
  }
  std::vector<PartDataset> parts;
  for (std::size_t i = 0; i < options.in.size(); ++i) {
    parts.push_back(
        {.dataset = open_dataset({.rec = options.in[i], .doing = end_at_interrupt}), .names = {}});
    if (options.identities.empty() || options.identities[i].empty()) continue;
    PartDataset& part = parts.back();
    part.names = read_identity_names(options.identities[i], part.dataset->info().classes);
    if (part.names.size() == 0) {
      throw InputError(options.identities[i].string() + ": cannot read this file of names");
    }
  }
  return combine_datasets(std::move(parts), options.share_identities ? SharedIdentities::kByName
                                                                     : SharedIdentities::kNone);
}

/// Returns the classes that have images, in rising order.
std::vector<std::int64_t> classes_in(std::vector<std::int64_t> labels, std::int64_t classes) {
  std::ranges::sort(labels);
  const auto rest = std::ranges::unique(labels);
  labels.erase(rest.begin(), rest.end());
  // A damaged image's label may be unknown.
  std::erase_if(labels, [&](std::int64_t label) { return label < 0 || label >= classes; });
  return labels;
}

/// Returns the held-out classes of `all`, in rising order.
std::vector<std::int64_t> draw_classes(const SplitOptions& options,
                                       const std::vector<std::int64_t>& all) {
  const auto classes = std::ssize(all);
  const std::int64_t count = std::llround(options.held_out * static_cast<double>(classes));
  if (count < 1 || count >= classes) {
    throw InputError(fmt::format(
        "--held-out {}: {} of {} people would be held out, expected at least 1 in both parts",
        options.held_out, count, classes));
  }
  const GlobalOrder order(classes, options.seed, /*shuffle=*/true);
  std::vector<std::int64_t> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    drawn.push_back(all[static_cast<std::size_t>(order.at(0, i))]);
  }
  std::ranges::sort(drawn);
  return drawn;
}

/// Returns the images for training and the held-out images, by class. A damaged image whose label
/// is not known goes to `train`, which reports it. A label without images is in neither.
std::pair<Choice, Choice> choices(const Dataset& whole, const SplitOptions& options) {
  Choice train, held_out;
  const std::vector<std::int64_t> labels = labels_of(whole);
  const std::vector<std::int64_t> classes = classes_in(labels, whole.info().classes);
  std::vector<std::int64_t> held = draw_classes(options, classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool is_held = std::ranges::binary_search(held, labels[i]);
    (is_held ? held_out : train).images.push_back(static_cast<std::int64_t>(i));
  }
  for (const std::int64_t c : classes) {
    if (!std::ranges::binary_search(held, c)) train.classes.push_back(c);
  }
  held_out.classes = std::move(held);
  return {std::move(train), std::move(held_out)};
}

void add_pack_options(CLI::App& verb, PackOptions& o) {
  verb.add_option("--out", o.out, "Output folder")->required();
  add_threads(verb, o.threads);
  add_max_damaged(verb, o.max_damaged);
  add_force(verb, o.replace);
}

}  // namespace

Packed merge_datasets(const MergeOptions& options, const ShowProgress& progress) {
  const auto all = open_all(options);
  expect_labelled_images(*all, "merge");
  for (const fs::path& in : options.in) {
    prepare_folder(in, options.pack.out, options.pack.replace);
  }
  for (const std::string& warning : all->info().warnings) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  PackOptions pack = options.pack;
  pack.in = options.in.front();
  return pack_dataset(*all, pack, progress);
}

Split split_dataset(const SplitOptions& options, const ShowProgress& progress) {
  const auto whole = open_dataset({.rec = options.pack.in, .doing = end_at_interrupt});
  expect_labelled_images(*whole, "split");
  check_classes(whole->info(), options.pack.in);
  auto [train, held_out] = choices(*whole, options);
  const std::int64_t first = std::ssize(train.images), all = whole->info().images;
  const auto train_set = choose(*whole, std::move(train));
  const auto held_out_set = choose(*whole, std::move(held_out));
  PackOptions train_pack = options.pack, held_out_pack = options.pack;
  train_pack.out /= "train";
  held_out_pack.out /= "held-out";
  const auto from = [&](std::int64_t before) {
    return [&progress, before, all](std::int64_t done, std::int64_t) {
      if (progress) progress(before + done, all);
    };
  };
  // Check both before anything is written.
  for (const PackOptions& pack : {train_pack, held_out_pack}) {
    prepare_folder(pack.in, pack.out, pack.replace);
  }
  UnfinishedSet first_set = write_set(*train_set, train_pack, from(0));
  UnfinishedSet second_set = write_set(*held_out_set, held_out_pack, from(first));
  return {.train = finish_set(*train_set, train_pack, std::move(first_set)),
          .held_out = finish_set(*held_out_set, held_out_pack, std::move(second_set))};
}

void add_data_merge(CLI::App& data) {
  const auto o = std::make_shared<MergeOptions>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand("merge", "Merges several data sets into one");
  verb->add_option("data", o->in, "Data sets in any layout")->required()->expected(1, 1000);
  add_pack_options(*verb, o->pack);
  verb->add_flag("--share-identities", o->share_identities,
                 "Treats people with the same name as one person. Without it, the people of "
                 "different sets are different");
  verb->add_option("--identities", o->identities,
                   "For each set, a file with one name of a person per line. Default: the names "
                   "stored with the data")
      ->delimiter(',');
  verb->footer(
      "The labels are the same as in a job with these sets as its \"rec\". Example:\n"
      "  pfcctl data merge /data/faces /data/more-faces --out /data/all");
  verb->callback([o] {
    const TimePoint start = Clock::now();
    const Packed packed = merge_datasets(*o, Progress("merging", "images").as_function());
    tell_written(o->pack.out / "train.rec", packed.images, packed.classes, packed.damaged, start);
  });
}

void add_data_split(CLI::App& data) {
  const auto o = std::make_shared<SplitOptions>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand("split", "Splits a data set into two that share no person");
  add_data_set(*verb, o->pack.in);
  add_pack_options(*verb, o->pack);
  verb->add_option("--held-out", o->held_out, "Fraction of the people for the second set")
      ->check(part_of_one())
      ->capture_default_str();
  verb->add_option("--seed", o->seed, "Seed of the random choice of people")->capture_default_str();
  verb->footer(
      "Writes the folders train and held-out. Example:\n"
      "  pfcctl data split /data/faces --held-out 0.05 --out /data/split");
  verb->callback([o] {
    const TimePoint start = Clock::now();
    const Split split = split_dataset(*o, Progress("splitting", "images").as_function());
    tell_written(o->pack.out / "train/train.rec", split.train.images, split.train.classes,
                 split.train.damaged, start);
    tell_written(o->pack.out / "held-out/train.rec", split.held_out.images, split.held_out.classes,
                 split.held_out.damaged, start);
  });
}

}  // namespace pfc
