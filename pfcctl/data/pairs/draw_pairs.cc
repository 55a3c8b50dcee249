#include "pfcctl/data/pairs/draw_pairs.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "kernels/math/philox.h"
#include "model/evaluation/verification_bin.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/pairs/pack_pairs.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

// After this many consecutive draws without a new pair, hardly any pair is left.
constexpr int kPatience = 1000;

/// A sequence of uniform integers.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  std::int64_t below(std::size_t n) {
    // Shuffles of the same seed use the streams 0 and 1.
    const Philox4 random = random_words(seed_, Stream::kShuffle, 2, count_++);
    const std::uint64_t wide = std::uint64_t{random.x[0]} << 32 | random.x[1];
    return static_cast<std::int64_t>(wide % n);
  }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(all.size()))];
  }

 private:
  const std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

using Person = std::vector<std::int64_t>;  // indices of the person's images

struct People {
  std::vector<Person> all;
  std::vector<Person> with_two;  ///< people with at least two images
};

People people_of(const std::vector<std::int64_t>& labels) {
  std::map<std::int64_t, Person> by_label;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0) by_label[labels[i]].push_back(static_cast<std::int64_t>(i));
  }
  People people;
  for (auto& [label, person] : by_label) {
    if (person.size() > 1) people.with_two.push_back(person);
    people.all.push_back(std::move(person));
  }
  return people;
}

DrawnPair draw_one(Draws& draws, const People& people, bool same) {
  if (same) {
    const Person& person = draws.of(people.with_two);
    const std::int64_t one = draws.below(person.size());
    const std::int64_t behind = 1 + draws.below(person.size() - 1);
    const auto other = static_cast<std::size_t>(one + behind) % person.size();
    return {person[static_cast<std::size_t>(one)], person[other], true};
  }
  const Person& one = draws.of(people.all);
  const Person& other = draws.of(people.all);
  if (&one == &other) return {one.front(), one.front(), false};  // not a pair; drawn again
  return {draws.of(one), draws.of(other), false};
}

std::vector<std::byte> checked_image(const Dataset& dataset, std::int64_t image,
                                     ImageDecoder& decoder) {
  ImageBuffer storage;
  std::vector<std::uint8_t> rgb;
  try {
    const Sample sample = dataset.read(image, storage);
    decoder.decode_whole(sample.encoded, rgb);
    return {sample.encoded.begin(), sample.encoded.end()};
  } catch (const DamagedImage& e) {
    throw InputError(
        fmt::format("{}: {}; pfcctl data validate --fix writes a copy without such images",
                    dataset.name(image), e.what()));
  }
}

}  // namespace

std::vector<DrawnPair> draw_pairs(const std::vector<std::int64_t>& labels, std::int64_t pairs,
                                  std::uint64_t seed) {
  const People people = people_of(labels);
  if (people.all.size() < 2 || people.with_two.empty()) {
    throw InputError(
        fmt::format("found {} people, {} of them with two images or more; expected at least two "
                    "people, and one with two images",
                    people.all.size(), people.with_two.size()));
  }
  Draws draws(seed);
  std::set<std::pair<std::int64_t, std::int64_t>> taken;
  std::vector<DrawnPair> drawn;
  for (int in_vain = 0; std::ssize(drawn) < pairs;) {
    const DrawnPair pair = draw_one(draws, people, /*same=*/drawn.size() % 2 == 0);
    const bool is_new =
        pair.first != pair.second && taken.insert(std::minmax(pair.first, pair.second)).second;
    in_vain = is_new ? 0 : in_vain + 1;
    if (is_new) drawn.push_back(pair);
    if (in_vain < kPatience) continue;
    throw InputError(fmt::format(
        "only {} different pairs were found, expected {}: ask for fewer with --pairs, or give more "
        "images",
        drawn.size(), pairs));
  }
  return drawn;
}

DrawnPairs pack_drawn_pairs(const DrawPairsOptions& options, const ShowProgress& progress) {
  expect_bin_to_write(options.out, options.replace);
  const auto dataset = open_dataset({.rec = options.in, .doing = end_at_interrupt});
  expect_labelled_images(*dataset, "draw-pairs");
  const std::vector<std::int64_t> labels = labels_of(*dataset);
  std::vector<std::vector<std::byte>> images;
  std::vector<bool> same;
  std::set<std::int64_t> people;
  ImageDecoder decoder;
  std::vector<DrawnPair> pairs;
  try {
    pairs = draw_pairs(labels, options.pairs, options.seed);
  } catch (const InputError& error) {
    throw InputError(options.in.string() + ": " + error.what());
  }
  for (const DrawnPair& pair : pairs) {
    if (progress) progress(std::ssize(same), options.pairs);
    for (const std::int64_t image : {pair.first, pair.second}) {
      images.push_back(checked_image(*dataset, image, decoder));
      people.insert(labels[static_cast<std::size_t>(image)]);
    }
    same.push_back(pair.same);
  }
  write_verification_bin(options.out, images, same);
  if (progress) progress(options.pairs, options.pairs);
  return {.pairs = std::ssize(same), .people = std::ssize(people)};
}

void add_data_draw_pairs(CLI::App& data) {
  const auto o = std::make_shared<DrawPairsOptions>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand(
      "draw-pairs", "Draws pairs of images of a data set and writes a verification set");
  add_data_set(*verb, o->in);
  verb->add_option("--out", o->out, "NAME.bin, for \"val_targets\": [\"NAME\"]")->required();
  verb->add_option("--pairs", o->pairs, "Number of pairs: half of one person, half of two")
      ->check(CLI::Range(2, 1'000'000))
      ->capture_default_str();
  verb->add_option("--seed", o->seed, "Seed of the random choice of pairs")->capture_default_str();
  verb->add_flag("--force", o->replace, "Replaces an existing file");
  verb->footer(
      "The people should not be in the training data of the model. Example:\n"
      "  pfcctl data split faces --held-out 0.1 --out split\n"
      "  pfcctl data draw-pairs split/held-out --out split/train/mine.bin");
  verb->callback([o] {
    const DrawnPairs drawn = pack_drawn_pairs(*o, Progress("packing", "pairs").as_function());
    std::printf("%s: %lld pairs of %lld people\n", o->out.c_str(),
                static_cast<long long>(drawn.pairs), static_cast<long long>(drawn.people));
  });
}

}  // namespace pfc
