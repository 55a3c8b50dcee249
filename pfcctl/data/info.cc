// pfcctl data info: summarises a data set.
#include "pfcctl/data/info.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/one_line.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/open_dataset.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

constexpr std::int64_t kLooked = 1000;  // images whose headers are read
constexpr std::int64_t kTold = 4096;

/// Counts formats, sizes and bytes of some images, spread over the data set. For embeddings,
/// counts the damaged ones.
void look_at_images(const Dataset& dataset, DataSummary& summary) {
  const std::int64_t images = dataset.info().images;
  const std::int64_t count = std::min(kLooked, images);
  ImageDecoder decoder;
  ImageBuffer storage;
  double bytes = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t image = k * images / count;
    try {
      const Sample sample = dataset.read(image, storage);
      if (dataset.info().embedding_size == 0) {
        const ImageSize size = decoder.size(sample.encoded);
        ++summary.formats[decoder.format(sample.encoded)];
        ++summary.sizes[fmt::format("{} x {}", size.height, size.width)];
      }
      bytes += static_cast<double>(sample.encoded.size());
      ++summary.looked_at;
    } catch (const DamagedImage&) {
      ++summary.damaged;
    } catch (const InputError&) {  // invalid label, so the data set does not return its image
      ++summary.mislabelled;
    }
  }
  if (summary.looked_at > 0)
    summary.bytes_an_image = bytes / static_cast<double>(summary.looked_at);
}

/// Returns the number of images of each class that has any, in rising order. Memory grows with
/// images, not classes, because one wrong label can imply many classes.
std::vector<std::int64_t> images_of_classes(std::vector<std::int64_t> labels) {
  std::ranges::sort(labels);
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (i == 0 || labels[i] != labels[i - 1]) counts.push_back(0);
    ++counts.back();
  }
  std::ranges::sort(counts);
  return counts;
}

void count_labels(const Dataset& dataset, const ShowProgress& progress, DataSummary& summary) {
  const DatasetInfo& info = dataset.info();
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> others(static_cast<std::size_t>(info.labels_per_image - 1));
  ImageBuffer storage;
  for (std::int64_t i = 0; i < info.images; ++i) {
    if (progress && i % kTold == 0) progress(i, info.images);
    try {
      labels.push_back(dataset.label(i, storage));
      dataset.other_labels(i, others);
      std::ranges::copy_if(others, std::back_inserter(labels),
                           [](auto label) { return label >= 0; });
    } catch (const InputError&) {
      ++summary.without_label;
    }
  }
  if (labels.empty()) return;
  const auto labelled = static_cast<double>(labels.size());
  const std::vector<std::int64_t> counts = images_of_classes(std::move(labels));
  summary.empty_classes = info.classes - static_cast<std::int64_t>(counts.size());
  const std::int64_t middle = info.classes / 2 - summary.empty_classes;
  summary.least = summary.empty_classes > 0 ? 0 : counts.front();
  summary.median = middle < 0 ? 0 : counts[static_cast<std::size_t>(middle)];
  summary.most = counts.back();
  summary.mean = labelled / static_cast<double>(info.classes);
  for (const std::int64_t count : counts) {
    const auto bin = static_cast<std::size_t>(std::log2(static_cast<double>(count)));
    if (summary.histogram.size() <= bin) summary.histogram.resize(bin + 1);
    ++summary.histogram[bin];
  }
}

std::string most_of(const std::map<std::string, std::int64_t>& counted, std::int64_t all) {
  constexpr std::size_t kShown = 4;
  std::vector<std::pair<std::string, std::int64_t>> sorted(counted.begin(), counted.end());
  std::ranges::stable_sort(sorted, std::greater{}, &std::pair<std::string, std::int64_t>::second);
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
    text += fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", sorted[i].first,
                        100.0 * static_cast<double>(sorted[i].second) / static_cast<double>(all));
  }
  if (sorted.size() > kShown) text += fmt::format(" and {} more", sorted.size() - kShown);
  return text;
}

std::string picture(const std::vector<std::int64_t>& histogram) {
  constexpr double kColumns = 48;
  const std::int64_t most = *std::ranges::max_element(histogram);
  std::string text;
  for (std::size_t bin = 0; bin < histogram.size(); ++bin) {
    const std::int64_t from = std::int64_t{1} << bin, to = (from << 1) - 1;
    const auto bar = static_cast<std::size_t>(
        std::ceil(kColumns * static_cast<double>(histogram[bin]) / static_cast<double>(most)));
    text += fmt::format("  {:>13}  {:<48} {}\n",
                        from == to ? fmt::format("{}", from) : fmt::format("{}-{}", from, to),
                        std::string(bar, '#'), histogram[bin]);
  }
  return text;
}

std::string decoding_text(const DecodeSpeed& speed) {
  if (speed.images_a_second == 0)
    return fmt::format("none of {} images drawn can be decoded", speed.drawn);
  std::string text = fmt::format("{:.0f} images/s", speed.images_a_second);
  if (speed.damaged > 0) {
    text += fmt::format(" ({} of {} images drawn are damaged)", speed.damaged, speed.drawn);
  }
  return text;
}

}  // namespace

DataSummary summarise(const Dataset& dataset, bool labels, const ShowProgress& progress) {
  DataSummary summary;
  look_at_images(dataset, summary);
  if (labels) count_labels(dataset, progress, summary);
  if (dataset.info().embedding_size == 0) summary.decoding = decode_speed(dataset);
  return summary;
}

std::string summary_text(const Dataset& dataset, const DataSummary& s) {
  const DatasetInfo& info = dataset.info();
  const bool images = info.embedding_size == 0;
  std::string text;
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<22}{}\n", what, value);
  };
  line("layout", info.layout);
  for (const FileBrief& brief : dataset.briefs()) line("", brief.file.string());
  line(images ? "images" : "embeddings", fmt::format("{}", info.images));
  line("classes", fmt::format("{}", info.classes));
  if (info.labels_per_image > 1) {
    line("labels per image", fmt::format("up to {}", info.labels_per_image));
  }
  line("size in training", images ? fmt::format("{} x {} (height x width)", info.height, info.width)
                                  : fmt::format("{} numbers", info.embedding_size));
  if (s.looked_at > 0 && images) {
    line("formats", most_of(s.formats, s.looked_at));
    line("sizes",
         most_of(s.sizes, s.looked_at) +
             (s.looked_at < info.images ? fmt::format(" (of {} images)", s.looked_at) : ""));
    line("bytes per image", fmt::format("{:.0f}", s.bytes_an_image));
  }
  if (s.damaged > 0) line("damaged", fmt::format("{} of the samples checked", s.damaged));
  if (s.mislabelled > 0)
    line("wrong labels", fmt::format("{} of the samples checked", s.mislabelled));
  line("memory of the index",
       fmt::format("{:.1f} MiB", static_cast<double>(info.index_bytes) / 1048576.0));
  if (images) line("decoding, one core", decoding_text(s.decoding));
  if (!s.histogram.empty()) {
    line("images per class", fmt::format("least {}, median {}, mean {:.1f}, most {}", s.least,
                                         s.median, s.mean, s.most));
    if (s.empty_classes > 0) line("empty classes", fmt::format("{}", s.empty_classes));
    if (s.without_label > 0) line("without a label", fmt::format("{} images", s.without_label));
    text += "classes by number of images:\n" + picture(s.histogram);
  }
  for (const std::string& warning : info.warnings) text += "warning: " + warning + "\n";
  return text;
}

std::string summary_json(const Dataset& dataset, const DataSummary& s) {
  const DatasetInfo& info = dataset.info();
  nlohmann::json object{{"layout", info.layout},
                        {"images", info.images},
                        {"classes", info.classes},
                        {"labels_per_image", info.labels_per_image},
                        {"height", info.height},
                        {"width", info.width},
                        {"embedding_size", info.embedding_size},
                        {"index_bytes", info.index_bytes},
                        {"formats", s.formats},
                        {"sizes", s.sizes},
                        {"looked_at", s.looked_at},
                        {"damaged", s.damaged},
                        {"mislabelled", s.mislabelled},
                        {"bytes_an_image", s.bytes_an_image},
                        {"decoded_a_second", s.decoding.images_a_second},
                        {"warnings", info.warnings}};
  if (!s.histogram.empty()) {
    object["images_a_class"] = {{"least", s.least},
                                {"median", s.median},
                                {"mean", s.mean},
                                {"most", s.most},
                                {"by_power_of_2", s.histogram}};
    object["empty_classes"] = s.empty_classes;
    object["without_label"] = s.without_label;
  }
  return json_text(object);
}

void add_data_info(CLI::App& data) {
  struct Flags {
    std::filesystem::path data;
    bool json = false, quick = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* verb = data.add_subcommand("info", "Summarises a data set");
  add_data_set(*verb, flags->data);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->add_flag("--quick", flags->quick,
                 "Does not read all labels, and so prints no images per class");
  verb->footer("Example:\n  pfcctl data info /data/faces");
  verb->callback([flags] {
    const auto dataset = open_dataset({.rec = flags->data});
    const DataSummary summary =
        summarise(*dataset, !flags->quick, Progress("reading labels", "images").as_function());
    const std::string text =
        flags->json ? summary_json(*dataset, summary) : summary_text(*dataset, summary);
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace pfc
