// pfcctl data clean from files to findings.jsonl, with its self-test.
#include "pfcctl/data/clean/clean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/error.h"
#include "data/records/image_record.h"
#include "data/records/writing/record_writer.h"
#include "pfcctl/data/clean/calibration.h"
#include "tests/pfcctl/data/clean/drawn_embeddings.h"
#include "tests/pfcctl/data/clean/noise_images.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Finding stranger(double score) { return {.kind = FindingKind::kStranger, .score = score}; }

/// Returns the confidence of a finding with this score.
double confidence_at(double score, const std::vector<JudgedFinding>& judged,
                     std::vector<Finding> found, FindingKind kind = FindingKind::kStranger) {
  found.push_back({.kind = kind, .score = score});
  set_confidence(found, judged);
  return found.back().confidence;
}

TEST(Confidence, IsTheFractionOfRightFindingsByScore) {
  // Right findings score 0.50 to 0.99, wrong ones 0.40 to 0.69.
  std::vector<JudgedFinding> judged;
  std::vector<Finding> found;
  for (int i = 0; i < 500; ++i) judged.push_back({stranger(0.5 + i * 0.001), true});
  for (const JudgedFinding& j : judged) found.push_back(j.finding);
  for (int i = 0; i < 300; ++i) judged.push_back({stranger(0.4 + i * 0.001), false});
  EXPECT_NEAR(confidence_at(0.3, judged, found), 0, 0.02);
  EXPECT_NEAR(confidence_at(0.45, judged, found), 0, 0.02);
  EXPECT_NEAR(confidence_at(0.6, judged, found), 0.5, 0.02);
  EXPECT_NEAR(confidence_at(0.8, judged, found), 1, 0.02);
  EXPECT_NEAR(confidence_at(2, judged, found), 1, 0.02);
  for (double score = 0.4; score < 1; score += 0.01) {
    EXPECT_LE(confidence_at(score, judged, found), confidence_at(score + 0.01, judged, found));
  }
  EXPECT_NEAR(confidence_at(1, judged, found, FindingKind::kLeaked), 0, 0.02);
}

TEST(Confidence, FallsIfMoreFindingsThanExpectedHaveLowScores) {
  std::vector<JudgedFinding> judged;
  std::vector<Finding> found;
  for (int i = 0; i < 400; ++i) {
    judged.push_back({stranger(0.5 + i * 0.001), true});
    found.push_back(judged.back().finding);
  }
  EXPECT_NEAR(confidence_at(0.51, judged, found), 1, 0.02);
  for (int i = 0; i < 400; ++i) found.push_back(stranger(0.5));  // high scores predict 40 of these
  EXPECT_NEAR(confidence_at(0.51, judged, found), (1.25 * 40 + 2 * std::sqrt(80)) / 440, 0.01);
  EXPECT_NEAR(confidence_at(0.6, judged, found), 1, 0.02);
  EXPECT_NEAR(confidence_at(0.8, judged, found), 1, 0.02);
}

TEST(Confidence, IsLowIfManyFindingsHaveLowScoresAndNoneHasAHighOne) {
  std::vector<JudgedFinding> judged;
  std::vector<Finding> found;
  for (int i = 0; i < 100; ++i) judged.push_back({stranger(0.5 + i * 0.005), true});
  for (int i = 0; i < 100; ++i) found.push_back(stranger(0.4 + i * 0.002));
  EXPECT_LT(confidence_at(0.52, judged, found), 0.05);
  found.clear();  // one finding says nothing about others
  EXPECT_NEAR(confidence_at(0.52, judged, found), 1, 0.02);
}

TEST(Confidence, ExpectsLowerScoresIfTheModelWasTrainedOnTheErrors) {
  const auto wrong_label = [](double own) {
    return Finding{.kind = FindingKind::kWrongLabel,
                   .score = 0.9 - own,
                   .evidence = {{kSimilarityToOwn, own}}};
  };
  std::vector<JudgedFinding> judged;
  std::vector<Finding> strangers;
  for (int i = 0; i < 100; ++i) judged.push_back({stranger(0.5 + i * 0.005), true});
  for (int i = 0; i < 100; ++i) strangers.push_back(stranger(0.2 + i * 0.005));
  for (int i = 0; i < 40; ++i) judged.push_back({wrong_label(i * 0.001), true});
  const auto with_wrong_labels = [&](double own) {
    std::vector<Finding> found = strangers;
    for (int i = 0; i < 40; ++i) found.push_back(wrong_label(own + i * 0.001));
    return found;
  };
  EXPECT_LT(confidence_at(0.4, judged, strangers), 0.3);
  EXPECT_LT(confidence_at(0.4, judged, with_wrong_labels(0.01)), 0.3) << "a small difference";
  EXPECT_NEAR(confidence_at(0.4, judged, with_wrong_labels(0.3)), 1, 0.03);
}

TEST(Confidence, IsLowIfFewFindingsWereJudged) {
  EXPECT_NEAR(confidence_at(0.5, {{stranger(0.5), true}}, {}), 2.0 / 3, 1e-9);
}

TEST(Confidence, OfLeakedPeopleIgnoresTheScoresOfOthers) {
  std::vector<JudgedFinding> judged;
  std::vector<Finding> found;
  for (int i = 0; i < 100; ++i) {
    judged.push_back({{.kind = FindingKind::kLeaked, .score = 0.5 + i * 0.005}, true});
    found.push_back({.kind = FindingKind::kLeaked, .score = 0.4 + i * 0.002});
  }
  EXPECT_NEAR(confidence_at(0.52, judged, found, FindingKind::kLeaked), 1, 0.02);
}

TEST(Confidence, DoesNotFallIfDuplicatesWithSimilarPixelsHaveLowScores) {
  std::vector<JudgedFinding> judged;
  std::vector<Finding> found;
  for (int i = 0; i < 100; ++i) {
    judged.push_back({{.kind = FindingKind::kDuplicate, .score = 0.98 + i * 0.0002}, true});
    found.push_back({.kind = FindingKind::kDuplicate, .score = 0.95 + i * 0.0003});
  }
  EXPECT_LT(confidence_at(0.96, judged, found, FindingKind::kDuplicate), 0.1);
  for (Finding& f : found) f.same_pixels = true;
  EXPECT_NEAR(confidence_at(0.96, judged, found, FindingKind::kDuplicate), 1, 0.03);
}

TEST(PlantedErrors, MatchTheChangedLabels) {
  ImageLabels labels;
  for (std::int64_t i = 0; i < 6000; ++i) labels.of_image.push_back(i % 1000);
  labels.is_test.resize(1010);
  for (std::size_t i = 1000; i < 1010; ++i) labels.is_test[i] = true;
  const FoundErrors nothing{
      .thresholds = {}, .findings = {}, .agrees = std::vector<bool>(labels.of_image.size(), true)};
  const PlantedErrors planted = plant_errors(labels, nothing, 3);
  std::array<std::int64_t, kErrorNames.size()> counts{};
  for (const PlantedError& e : planted.errors) {
    ++counts[static_cast<std::size_t>(e.kind)];
    if (e.kind == ErrorKind::kFlipped) {
      const auto i = static_cast<std::size_t>(e.image);
      EXPECT_NE(planted.labels.of_image[i], planted.person[i]);
    } else if (e.kind == ErrorKind::kSplit || e.kind == ErrorKind::kLeaked) {
      EXPECT_EQ(planted.labels.test(e.identity), e.kind == ErrorKind::kLeaked);
      EXPECT_GE(e.identity, 1010);
    }
  }
  EXPECT_EQ(counts[1], 62);  // a sixteenth of the people
  EXPECT_EQ(counts[2], 62);
  EXPECT_EQ(counts[3], 100);
  EXPECT_EQ(counts[4], 62);
  EXPECT_NEAR(static_cast<double>(counts[0]), 100 + 7 * 6, 10);
  EXPECT_EQ(plant_errors(labels, nothing, 3).labels.of_image, planted.labels.of_image);
  EXPECT_NE(plant_errors(labels, nothing, 4).labels.of_image, planted.labels.of_image);
}

TEST(Judge, DoesNotCountPossibleRealErrorsAsWrong) {
  ImageLabels labels{.of_image = {0, 0, 1, 1, 2}, .is_test = std::vector<bool>(3), .copies = {}};
  const PlantedErrors planted = plant_errors(
      labels, {.thresholds = {}, .findings = {}, .agrees = {true, true, true, true, true}}, 1);
  const auto same = [](std::int64_t a, std::int64_t b) {
    return Finding{.kind = FindingKind::kSamePerson, .identity = a, .other_identity = b};
  };
  const auto judged = judge(planted, {same(0, 1), same(0, 2)});  // 2 has one image
  ASSERT_EQ(judged.size(), 1u);
  EXPECT_EQ(judged[0].finding.other_identity, 1);
  EXPECT_FALSE(judged[0].right);
}

TEST(Judge, LeavesOutImagesOfOnePersonThatGetTheSameOtherLabel) {
  ImageLabels labels{
      .of_image = {0, 0, 0, 1, 1, 2, 2}, .is_test = std::vector<bool>(3), .copies = {}};
  const PlantedErrors planted = plant_errors(
      labels, {.thresholds = {}, .findings = {}, .agrees = std::vector<bool>(7, true)}, 1);
  const auto wrong = [](std::int64_t image, std::int64_t label, std::int64_t other) {
    return Finding{.image = image, .identity = label, .other_identity = other};
  };
  const auto judged =
      judge(planted, {wrong(0, 0, 1), wrong(1, 0, 1), wrong(2, 0, 2), wrong(3, 1, 2)});
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_EQ(judged[0].finding.image, 2);
  EXPECT_EQ(judged[1].finding.image, 3);
  EXPECT_FALSE(judged[0].right);
}

class Clean : public ::testing::Test {
 protected:
  Clean() : drawn_(5), centres_(drawn_.add_people(0, 400, 6)) {}

  Cleaned clean(const std::filesystem::path& against = {}, const std::filesystem::path& in = {}) {
    drawn_.write(folder_ / "set");
    return clean_labels({.embeddings = folder_ / "set",
                         .against = against,
                         .in = in,
                         .output = folder_ / "findings.jsonl",
                         .threads = 2});
  }
  std::vector<json> written() {
    const auto bytes = read_file(folder_ / "findings.jsonl");
    std::istringstream text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    std::vector<json> all;
    for (std::string line; std::getline(text, line);) all.push_back(json::parse(line));
    return all;
  }
  std::string refused() {
    return message_of<InputError>([&] {
      (void)clean_labels({.embeddings = folder_ / "set", .output = folder_ / "findings.jsonl"});
    });
  }

  TemporaryFolder folder_;
  DrawnEmbeddings drawn_;
  const std::vector<Vector> centres_;
};

TEST_F(Clean, WritesFindingsWithNamesEvidenceAndActions) {
  for (std::int64_t i = 0; i < 40; ++i) {
    drawn_.labels[static_cast<std::size_t>(60 * i)] = (10 * i + 3) % 400;
  }
  drawn_.add_person(centres_[7], 400, 3);
  std::string names, people;
  for (std::size_t i = 0; i < drawn_.rows.size(); ++i) names += "img" + std::to_string(i) + "\n";
  for (int i = 0; i <= 400; ++i) people += "p" + std::to_string(i) + "\n";
  std::filesystem::create_directories(folder_ / "set");
  write_file(folder_ / "set/embeddings.names.txt", names);
  write_file(folder_ / "set/identities.txt", people);
  const Cleaned cleaned = clean();
  const std::vector<json> all = written();
  ASSERT_EQ(all.size(), 41u);
  EXPECT_EQ(cleaned.findings.size(), 41u);
  EXPECT_EQ(cleaned.proposed, 43);
  double least = 1;
  std::int64_t moved = 0;
  for (const json& f : all) {
    EXPECT_LE(f["confidence"], least);
    least = f["confidence"];
    if (f["kind"] == "same_person") {
      EXPECT_EQ(f["action"], "merge");
      EXPECT_EQ(f["identity"], json({{"label", 7}, {"name", "p7"}}));
      EXPECT_EQ(f["other_identity"], json({{"label", 400}, {"name", "p400"}}));
      EXPECT_EQ(f["evidence"]["images_of_other"], 3);
      continue;
    }
    ++moved;
    ASSERT_EQ(f["kind"], "wrong_label");
    EXPECT_EQ(f["action"], "move");
    const std::int64_t row = f["image"]["row"];
    EXPECT_EQ(row % 60, 0);
    EXPECT_EQ(f["image"]["name"], "img" + std::to_string(row));
    EXPECT_EQ(f["other_identity"]["label"], row / 6);
    EXPECT_GT(f["evidence"]["similarity_to_other"], f["evidence"]["similarity_to_own"]);
  }
  EXPECT_EQ(moved, 40);
}

TEST_F(Clean, ProposesNearlyNothingWithoutErrors) {
  const Cleaned cleaned = clean();
  EXPECT_LE(cleaned.proposed, 2);
  EXPECT_EQ(written().size(), cleaned.findings.size());
}

TEST_F(Clean, FindsMostPlantedErrors) {
  DrawnEmbeddings test(6);
  test.add_people(0, 10, 4);
  test.write(folder_ / "test");
  const Cleaned cleaned = clean(folder_ / "test");
  for (const SelfTest& t : cleaned.self_test) {
    EXPECT_GE(t.planted[0], 20);
    EXPECT_GE(static_cast<double>(t.found[0]), 0.9 * static_cast<double>(t.planted[0]));
    EXPECT_LE(static_cast<double>(t.wrong), 0.05 * static_cast<double>(t.right + t.wrong));
  }
}

TEST_F(Clean, ReportsLeakedPeopleWithTheirTestLabels) {
  DrawnEmbeddings test(6);
  for (int i = 0; i < 12; ++i) test.add_person(centres_[static_cast<std::size_t>(9 * i)], i, 4);
  test.write(folder_ / "test");
  (void)clean(folder_ / "test");
  std::set<std::int64_t> leaked;
  for (const json& f : written()) {
    ASSERT_EQ(f["kind"], "leaked");
    EXPECT_EQ(f["action"], "drop");
    EXPECT_EQ(f["other_identity"]["test"], true);
    EXPECT_EQ(f["identity"]["label"], 9 * f["other_identity"]["label"].get<int>());
    leaked.insert(f["identity"]["label"].get<std::int64_t>());
  }
  EXPECT_EQ(leaked.size(), 12u);
}

TEST_F(Clean, FindsLeakedPeopleAlsoIfHalfOfTheSetIsLeaked) {
  DrawnEmbeddings test(6);
  for (std::size_t p = 0; p < 200; ++p) {
    test.add_person(centres_[p], static_cast<std::int64_t>(p), 4);
  }
  test.write(folder_ / "test");
  EXPECT_GE(
      std::ranges::count(clean(folder_ / "test").findings, FindingKind::kLeaked, &Finding::kind),
      190);
}

/// Writes small images with these labels. `seeds`: equal ones give equal images.
void write_images(const std::filesystem::path& folder, const std::vector<std::int64_t>& labels,
                  const std::vector<unsigned>& seeds) {
  std::filesystem::create_directories(folder);
  RecordWriter writer(folder / "train.rec", folder / "train.idx");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    writer.append(static_cast<std::int64_t>(i),
                  encode_image_record(labels[i], i, noise_jpeg(seeds[i])));
  }
  writer.close();
}

TEST_F(Clean, ComparesThePixelsOfDuplicates) {
  for (const double cosine : {0.96, 0.99}) drawn_.add(drawn_.near(drawn_.rows[0], cosine), 0);
  for (const double cosine : {0.96, 0.99}) drawn_.add(drawn_.near(drawn_.rows[6], cosine), 1);
  std::vector<unsigned> seeds = different_seeds(drawn_.labels.size());
  seeds[2400] = 0;  // of the copies, two are of the same image as their sources
  seeds[2403] = 6;
  write_images(folder_ / "images", drawn_.labels, seeds);
  const Cleaned cleaned = clean({}, folder_ / "images");
  std::vector<std::int64_t> dropped;
  for (const json& f : written()) {
    if (f["kind"] != "duplicate") continue;
    dropped.push_back(f["image"]["row"]);
    EXPECT_GT(f["confidence"], 0.9);
    EXPECT_GT(f["evidence"]["correlation_of_pixels"], 0.99);
  }
  EXPECT_THAT(dropped, ::testing::UnorderedElementsAre(2400, 2403));
  EXPECT_GE(cleaned.self_test[3].found[0], 90);
}

TEST_F(Clean, RefusesImagesThatWereNotEmbedded) {
  std::vector<std::int64_t> labels = drawn_.labels;
  labels[5] = 7;
  write_images(folder_ / "images", labels, std::vector<unsigned>(labels.size()));
  const auto refused_images = [&] {
    return message_of<InputError>([&] { clean({}, folder_ / "images"); });
  };
  EXPECT_THAT(refused_images(), HasSubstr("found label 7, expected 0 as in row 5"));
  labels.pop_back();
  write_images(folder_ / "images", labels, std::vector<unsigned>(labels.size()));
  EXPECT_THAT(refused_images(), HasSubstr("found 2399 images, expected 2400"));
}

TEST_F(Clean, RefusesLabelsWithLargeGaps) {
  drawn_.labels[0] = 2'000'000'000;
  drawn_.write(folder_ / "set");
  EXPECT_THAT(refused(), HasSubstr("found labels up to 2000000000 for 2400 embeddings"));
}

TEST_F(Clean, LeavesOutEmbeddingsWithoutADirection) {
  drawn_.rows[5].assign(64, 0.f);
  drawn_.rows[17][3] = std::numeric_limits<float>::quiet_NaN();
  drawn_.rows[18][3] = std::numeric_limits<float>::infinity();
  const Cleaned cleaned = clean();
  EXPECT_EQ(cleaned.damaged, 3);
  EXPECT_LE(cleaned.proposed, 2);
}

TEST_F(Clean, FindsErrorsAlsoIfAllEmbeddingsAreSimilar) {
  const Cleaned expected = clean();
  for (auto& row : drawn_.rows) {
    for (std::size_t k = 0; k < row.size(); ++k) row[k] = 0.1f * row[k] + (k == 0 ? 1.f : 0.f);
  }
  const Cleaned similar = clean();
  EXPECT_LT(similar.thresholds.nearest, 0.9);
  for (std::size_t kind = 0; kind < kErrorNames.size(); ++kind) {
    EXPECT_NEAR(static_cast<double>(similar.self_test[kind].right),
                static_cast<double>(expected.self_test[kind].right),
                0.2 * static_cast<double>(expected.self_test[kind].right));
  }
}

TEST_F(Clean, RefusesUnusableFiles) {
  drawn_.write(folder_ / "set");
  write_file(folder_ / "set/embeddings.names.txt", "one\ntwo\n");
  EXPECT_THAT(refused(), HasSubstr("found 2 lines, expected 2400"));
  std::filesystem::resize_file(folder_ / "set/embeddings.npy", 1000);
  EXPECT_THAT(refused(), HasSubstr("embeddings.npy"));
  write_file(folder_ / "set/embeddings.npy", npy("<f4", "(0, 64)", ""));
  write_file(folder_ / "set/labels.npy", npy("<i8", "(0,)", ""));
  EXPECT_THAT(refused(), HasSubstr("found no embeddings"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "findings.jsonl"));
}

TEST_F(Clean, DoesNotReplaceItsInput) {
  drawn_.write(folder_ / "set");
  for (const char* name : {"embeddings.npy", "labels.npy"}) {
    EXPECT_THAT(
        message_of<InputError>([&] {
          (void)clean_labels({.embeddings = folder_ / "set", .output = folder_ / "set" / name});
        }),
        HasSubstr(name));
  }
}

TEST_F(Clean, LeavesNoFileIfTheDiskIsFull) {
  for (std::int64_t i = 0; i < 40; ++i) {
    drawn_.labels[static_cast<std::size_t>(60 * i)] = (10 * i + 3) % 400;
  }
  drawn_.write(folder_ / "set");
  const FileSizeLimit full(1000);
  EXPECT_THAT(
      message_of<StorageError>([&] {
        (void)clean_labels({.embeddings = folder_ / "set", .output = folder_ / "findings.jsonl"});
      }),
      HasSubstr("findings.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "findings.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "findings.jsonl.tmp"));
}

}  // namespace
}  // namespace pfc::testing
