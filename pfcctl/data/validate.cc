#include "pfcctl/data/validate.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>
#include <utility>

#include "common/counted.h"
#include "common/error.h"
#include "common/files/sha256.h"
#include "common/one_line.h"
#include "common/ordered_work.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/mapping/chosen_dataset.h"
#include "data/open_dataset.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/pack/pack.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"
#include "pfcctl/verbs.h"

namespace pfc {

namespace {

constexpr std::int64_t kExamples = 5;  // maximum number of examples of each kind of fault

/// The result of reading one image.
struct Looked {
  std::array<std::uint64_t, 2> sum{};  ///< checksum of its bytes
  std::int64_t label = 0;
  std::string damage;
  std::string wrong_label;
};

struct Whole {
  std::array<std::uint64_t, 2> sum;
  std::int64_t label, image;
};

/// Returns the image's labels after the first.
std::vector<std::int64_t> others_of(const Dataset& dataset, std::int64_t image) {
  std::vector<std::int64_t> others(static_cast<std::size_t>(dataset.info().labels_per_image - 1));
  dataset.other_labels(image, others);
  return others;
}

std::array<std::uint64_t, 2> sum_of(std::span<const std::byte> bytes) {
  const std::string hex = sha256_hex(bytes);
  std::array<std::uint64_t, 2> sum{};
  for (std::size_t i = 0; i < sum.size(); ++i) {
    std::from_chars(hex.data() + 16 * i, hex.data() + 16 * (i + 1), sum[i], 16);
  }
  return sum;
}

Looked look_at(const Dataset& dataset, std::int64_t image) {
  thread_local ImageDecoder decoder;
  thread_local ImageBuffer storage;
  thread_local std::vector<std::uint8_t> rgb;
  Looked looked;
  try {
    const Sample sample = dataset.read(image, storage);
    looked.label = sample.label;
    looked.sum = sum_of(sample.encoded);
    if (dataset.info().embedding_size == 0) decoder.decode_whole(sample.encoded, rgb);
  } catch (const DamagedImage& e) {  // before InputError, its base class
    looked.damage = named_damage(dataset.name(image), e);
  } catch (const InputError& e) {
    looked.wrong_label = e.what();
  }
  return looked;
}

/// Finds undamaged images that have the same bytes, with equal or different labels.
class Comparison {
 public:
  Comparison(const Dataset& dataset, Validation& result) : dataset_(dataset), result_(result) {}

  void compare(std::vector<Whole> whole) {
    std::ranges::sort(whole, [](const Whole& a, const Whole& b) {
      return std::tie(a.sum, a.image) < std::tie(b.sum, b.image);
    });
    for (auto begin = whole.begin(); begin != whole.end();) {
      const auto end = std::find_if(begin, whole.end(),
                                    [&](const Whole& each) { return each.sum != begin->sum; });
      judge({begin, end});
      begin = end;
    }
    std::ranges::sort(result_.good);
    std::ranges::sort(odd_);
    std::int64_t told_repeated = 0, told_contradicted = 0;
    for (const auto& [image, other, contradicts] : odd_) {
      std::int64_t& told = contradicts ? told_contradicted : told_repeated;
      if (told++ >= kExamples) continue;
      result_.examples.push_back(fmt::format("{}: has the same bytes as {}{}", dataset_.name(image),
                                             dataset_.name(other),
                                             contradicts ? ", which has another label" : ""));
    }
  }

 private:
  struct Odd {
    std::int64_t image, other;
    bool contradicts;
    auto operator<=>(const Odd&) const = default;
  };

  [[nodiscard]] bool have_same_labels(const Whole& a, const Whole& b) const {
    return a.label == b.label && others_of(dataset_, a.image) == others_of(dataset_, b.image);
  }

  /// Classifies all images with the same bytes.
  void judge(std::span<const Whole> same) {
    const bool agree = std::ranges::all_of(
        same, [&](const Whole& each) { return have_same_labels(each, same.front()); });
    if (agree) result_.good.push_back(same.front().image);
    if (same.size() == 1) return;
    (agree ? result_.repeated : result_.contradicted) += std::ssize(same) - (agree ? 1 : 0);
    for (const Whole& each : same.subspan(1)) {
      odd_.push_back({each.image, same.front().image, !agree});
    }
  }

  const Dataset& dataset_;
  Validation& result_;
  std::vector<Odd> odd_;
};

/// Memory grows with images, not classes, because one wrong label can imply many classes.
std::int64_t count_classes(const Dataset& dataset, const std::vector<Whole>& whole) {
  std::vector<std::int64_t> labels;
  for (const Whole& each : whole) {
    labels.push_back(each.label);
    std::ranges::copy_if(others_of(dataset, each.image), std::back_inserter(labels),
                         [](std::int64_t label) { return label >= 0; });
  }
  std::ranges::sort(labels);
  return std::unique(labels.begin(), labels.end()) - labels.begin();
}

}  // namespace

Validation validate(const Dataset& dataset, int threads, const ShowProgress& progress) {
  const DatasetInfo& info = dataset.info();
  Validation result{.images = info.images,
                    .classes = info.classes,
                    .embeddings = info.embedding_size > 0,
                    .warnings = info.warnings};
  std::vector<Whole> whole;
  ordered_work<Looked>(
      info.images, threads, [&](std::int64_t i) { return look_at(dataset, i); },
      [&](std::int64_t i, const Looked& looked) {
        if (progress) progress(i + 1, info.images);
        if (!looked.damage.empty()) {
          if (result.damaged++ < kExamples) result.examples.push_back(looked.damage);
        } else if (!looked.wrong_label.empty()) {
          if (result.mislabelled++ < kExamples) result.examples.push_back(looked.wrong_label);
        } else {
          whole.push_back({looked.sum, looked.label, i});
        }
      });
  result.empty_classes = info.classes - count_classes(dataset, whole);
  Comparison(dataset, result).compare(std::move(whole));
  return result;
}

std::string validation_text(const Validation& v) {
  std::string text;
  for (const std::string& example : v.examples) text += one_line(example) + "\n";
  for (const std::string& warning : v.warnings) text += "warning: " + one_line(warning) + "\n";
  text += fmt::format("{:<34}{}\n", "images", v.images);
  const auto line = [&](const char* what, std::int64_t count) {
    if (count > 0) text += fmt::format("{:<34}{}\n", what, count);
  };
  line("damaged", v.damaged);
  line("with a wrong label", v.mislabelled);
  line("repeated, with the same label", v.repeated);
  line("repeated, with different labels", v.contradicted);
  line("classes without an image", v.empty_classes);
  if (v.is_good()) return text + "found no faults\n";
  const char* remedy = v.embeddings ? "" : "; --fix OUT writes a copy without them";
  return text + fmt::format("{} of {} images have faults{}\n", v.images - std::ssize(v.good),
                            v.images, remedy);
}

std::string validation_json(const Validation& v) {
  return json_text(nlohmann::ordered_json{{"good", v.is_good()},
                                          {"images", v.images},
                                          {"classes", v.classes},
                                          {"damaged", v.damaged},
                                          {"mislabelled", v.mislabelled},
                                          {"repeated", v.repeated},
                                          {"contradicted", v.contradicted},
                                          {"empty_classes", v.empty_classes},
                                          {"examples", v.examples},
                                          {"warnings", v.warnings}});
}

void add_data_validate(CLI::App& data) {
  struct Flags {
    std::filesystem::path data;
    PackOptions fix;
    bool json = false;
  };
  const auto flags = std::make_shared<Flags>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand(
      "validate",
      "Reads all of a data set and reports its faults; fails if an image or a label is bad");
  add_data_set(*verb, flags->data);
  verb->add_option(
      "--fix", flags->fix.out,
      "Output folder for a copy without the bad images, as pfcctl data pack writes it");
  add_force(*verb, flags->fix.replace, "--fix");
  add_threads(*verb, flags->fix.threads);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Decodes every image, checks every label, and finds images with the same bytes. Example:\n"
      "  pfcctl data validate /data/faces --fix /data/faces-clean");
  verb->callback([flags] {
    PackOptions& fix = flags->fix;
    fix.in = flags->data;
    const auto dataset = open_dataset({.rec = flags->data});
    if (!fix.out.empty()) {
      expect_labelled_images(*dataset, "validate --fix");
      prepare_folder(fix.in, fix.out, fix.replace);
    }
    const Validation result =
        validate(*dataset, fix.threads, Progress("validating", "images").as_function());
    std::fputs((flags->json ? validation_json(result) : validation_text(result)).c_str(), stdout);
    if (!fix.out.empty()) {
      if (result.good.empty())
        throw InputError("--fix: every image is bad, so there is nothing to write");
      Progress progress("writing", "images");
      const Packed packed = pack_dataset(*choose(*dataset, {.images = result.good, .classes = {}}),
                                         fix, progress.as_function());
      std::fprintf(stderr, "%s: %lld images\n", (fix.out / "train.rec").c_str(),
                   static_cast<long long>(packed.images));
    }
    if (!result.is_good()) throw ExitStatus{1};
  });
}

}  // namespace pfc
