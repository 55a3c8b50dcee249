// Applies the evaluation protocols to the arrays of a safetensors file, and prints the figures as
// JSON. evaluation_protocols.py compares them with NumPy.
#include <cstdio>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "common/files/safetensors.h"
#include "model/evaluation/identification.h"
#include "model/evaluation/lfw_protocol.h"
#include "model/evaluation/roc.h"
#include "model/evaluation/template_pooling.h"

namespace pfc {
namespace {

using nlohmann::json;

template <class Number>
std::vector<Number> numbers(const SafetensorsFile& file, const std::string& name) {
  const auto bytes = file.at(name).bytes;
  std::vector<Number> values(bytes.size() / sizeof(Number));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<bool> flags(const SafetensorsFile& file, const std::string& name) {
  const auto values = numbers<std::int64_t>(file, name);
  return {values.begin(), values.end()};
}

json verification(const SafetensorsFile& file) {
  const auto dimension = file.at("a").shape[1];
  const auto result = verify_pairs(numbers<float>(file, "a"), numbers<float>(file, "b"), dimension,
                                   flags(file, "same"));
  json tars = json::array();
  for (const TarAtFar& t : result.tars) tars.push_back({t.tar, t.deviation, t.measured});
  return {{"accuracy", result.accuracy},         {"deviation", result.deviation},
          {"threshold", result.threshold},       {"tars", tars},
          {"eer", equal_error_rate(result.roc)}, {"min_dcf", min_detection_cost(result.roc)}};
}

json scores(const SafetensorsFile& file) {
  const auto score = numbers<double>(file, "score");
  const auto same = flags(file, "score_same");
  std::vector<ScoredPair> pairs;
  for (std::size_t i = 0; i < score.size(); ++i) pairs.push_back({score[i], same[i]});
  const Roc roc = roc_of(pairs);
  json tpr = json::array(), points = json::array();
  for (const double fpr : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1}) tpr.push_back(tpr_near(roc, fpr));
  for (const RocPoint& p : roc.points) points.push_back({p.fpr, p.tpr});
  return {{"tpr", tpr}, {"points", points}};
}

json identification(const SafetensorsFile& file) {
  const auto features = numbers<float>(file, "features");
  const auto ids = numbers<std::int64_t>(file, "template"),
             media = numbers<std::int64_t>(file, "medium");
  const auto d = file.at("features").shape[1];
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(ids[i], media[i]); });
  TemplatePooling pooling(d);
  const auto width = static_cast<std::size_t>(d);
  for (const std::size_t i : order) {
    pooling.add(ids[i], media[i], std::span(features).subspan(i * width, width));
  }
  const Templates templates = pooling.finish();
  const auto subject = numbers<std::int64_t>(file, "subject");  // subject of each template
  const auto probes = static_cast<std::size_t>(numbers<std::int64_t>(file, "probes")[0]);
  const auto part = [&](std::size_t begin, std::size_t end) {
    const auto at = [](const auto& list, std::size_t i) {
      return list.begin() + static_cast<std::ptrdiff_t>(i);
    };
    return LabelledRows{d,
                        {at(templates.rows, begin * width), at(templates.rows, end * width)},
                        {at(subject, begin), at(subject, end)}};
  };
  const LabelledRows searched = part(0, probes), gallery = part(probes, subject.size());
  const std::vector<Search> found = search(searched, gallery, 2);
  json ranks = json::array(), tpirs = json::array();
  for (const int k : {1, 5, 10, 20}) ranks.push_back(rank_rate(found, k));
  for (const double fpir : {0.001, 0.01, 0.1}) tpirs.push_back(tpir_at_fpir(found, fpir));
  json recalls = json::array();
  const LabelledRows all = part(0, subject.size());
  // Searches in two parts, as if two workers shared the images.
  auto others = search_others(all, {0, 70}, 2);
  std::ranges::move(search_others(all, {70, std::ssize(subject)}, 1), std::back_inserter(others));
  for (const int k : {1, 2, 10}) recalls.push_back(rank_rate(others, k));
  return {{"templates", templates.rows},
          {"ranks", ranks},
          {"recalls", recalls},
          {"precisions", precisions(others)},
          {"tpirs", tpirs},
          {"among_distractors", ranks_among_distractors(searched, gallery, 2)}};
}

}  // namespace
}  // namespace pfc

int main(int, char** argv) {
  const pfc::SafetensorsFile file(argv[1]);
  const nlohmann::json figures{{"verification", pfc::verification(file)},
                               {"scores", pfc::scores(file)},
                               {"identification", pfc::identification(file)}};
  std::puts(figures.dump().c_str());
}
