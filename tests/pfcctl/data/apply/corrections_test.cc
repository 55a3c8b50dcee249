#include "pfcctl/data/apply/corrections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/fake_dataset.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Findings about 8 images, each of its own identity.
class Findings : public ::testing::Test {
 protected:
  Findings() {
    sets_.cleaned = {
        .path = {}, .dataset = std::make_unique<FakeDataset>(8), .labels = labels_of(8)};
  }

  static std::vector<std::int64_t> labels_of(std::int64_t images) {
    std::vector<std::int64_t> labels(static_cast<std::size_t>(images));
    std::iota(labels.begin(), labels.end(), 0);
    return labels;
  }

  SelectedFindings read(const std::string& lines, std::optional<double> min_confidence = {}) {
    write_file(folder_ / "f.jsonl", lines);
    return select_findings(folder_ / "f.jsonl", sets_, min_confidence);
  }
  std::string refusal(const std::string& line) {
    return message_of<InputError>([&] { (void)read(line, 0.5); });
  }
  /// A finding of kind stranger. `more`: its other members, with the confidence.
  static std::string stranger(int image, const std::string& more) {
    const std::string row = std::to_string(image);
    return R"({"kind": "stranger", "action": "drop", "image": {"row": )" + row +
           R"(}, "identity": {"label": )" + row + "}" + more + "}\n";
  }

  const TemporaryFolder folder_;
  SetsOfFindings sets_;
};

TEST_F(Findings, AreSelectedByDecisionAndConfidence) {
  const std::string lines = stranger(0, R"(, "confidence": 0.1, "decision": "accept")") +
                            stranger(1, R"(, "confidence": 0.9, "decision": "reject")") +
                            stranger(2, R"(, "confidence": 0.9)") +
                            stranger(3, R"(, "confidence": 0.8, "decision": null)");
  const auto applied = [](const SelectedFindings& selected) {
    std::vector<std::int64_t> images;
    for (const Correction& c : selected.corrections) images.push_back(c.image);
    return images;
  };
  const SelectedFindings decided = read(lines);
  EXPECT_THAT(applied(decided), ElementsAre(0));
  EXPECT_EQ(decided.accepted, 1);
  EXPECT_EQ(decided.rejected, 1);
  EXPECT_EQ(decided.uncertain, 2);
  const SelectedFindings certain = read(lines, 0.9);
  EXPECT_THAT(applied(certain), ElementsAre(0, 2));
  EXPECT_EQ(certain.certain, 1);
  EXPECT_EQ(certain.uncertain, 1);
  EXPECT_THAT(applied(read(lines, 0)), ElementsAre(0, 2, 3));
}

TEST_F(Findings, AreReadByKind) {
  sets_.cleaned.labels[5] = 4;
  const auto corrections =
      read(
          R"({"kind": "wrong_label", "action": "move", "confidence": 1, "decision": "accept", "image": {"row": 3, "name": "fake.rec: record 3"}, "identity": {"label": 3}, "other_identity": {"label": 6}}
{"kind": "wrong_label", "action": "drop", "confidence": 1, "decision": "accept", "image": {"row": 3}, "identity": {"label": 3}, "other_identity": {"label": 600, "test": true}}
{"kind": "duplicate", "action": "drop", "confidence": 1, "decision": "accept", "image": {"row": 1}, "identity": {"label": 1}, "other_image": {"row": 2}, "other_identity": {"label": 2}}
{"kind": "duplicate", "action": "drop", "confidence": 1, "decision": "accept", "image": {"row": 1}, "identity": {"label": 1}, "other_image": {"row": 99, "name": "x", "test": true}, "other_identity": {"label": 9, "test": true}}
{"kind": "same_person", "action": "merge", "confidence": 1, "decision": "accept", "identity": {"label": 0}, "other_identity": {"label": 7}}
{"kind": "two_people", "action": "split", "confidence": 1, "decision": "accept", "identity": {"label": 4}, "images": [{"row": 4}, {"row": 5}]}
{"kind": "leaked", "action": "drop", "confidence": 1, "decision": "accept", "identity": {"label": 2}, "other_identity": {"label": 0, "test": true}})")
          .corrections;
  using enum CorrectionKind;
  ASSERT_EQ(corrections.size(), 7u);
  const auto is = [&](std::size_t i, CorrectionKind kind, std::int64_t image,
                      std::int64_t other_image, std::int64_t identity, std::int64_t other) {
    const Correction& c = corrections[i];
    EXPECT_EQ(std::tuple(c.kind, c.image, c.other_image, c.identity, c.other_identity),
              std::tuple(kind, image, other_image, identity, other))
        << "line " << i + 1;
  };
  is(0, kMove, 3, -1, 3, 6);
  is(1, kDrop, 3, -1, 3, 608);
  is(2, kDropDuplicate, 1, 2, 1, 2);
  is(3, kDropDuplicate, 1, -1, 1, 17);
  is(4, kMerge, -1, -1, 0, 7);
  is(5, kSplit, -1, -1, 4, -1);
  is(6, kDropIdentity, -1, -1, 2, 8);
  EXPECT_THAT(corrections[5].images, ElementsAre(4, 5));
}

TEST_F(Findings, AreRejectedIfMalformedOrOfOtherData) {
  const std::string good = R"({"kind": "stranger", "action": "drop", "image": )";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"[]", "found an array of 0, expected an object"},
      {"{", "1:2: not valid JSON"},
      {good + R"({"row": 8}, "identity": {"label": 3}})",
       "image: row: expected an integer of 0 .. 7, found 8"},
      {good + R"({"row": 3}, "identity": {"label": 8}})",
       "identity: label: expected an integer of 0 .. 7, found 8"},
      {good + R"({"row": 3}, "identity": {}})", "identity: label: expected an integer of 0 .. 7"},
      {good + R"({"row": 3}})", "identity: found null, expected an object"},
      {good + R"({"row": 3}, "identity": {"label": 2}})",
       "row 3: found label 3 (fake.rec: record 3), expected 2; give --in the data set"},
      {good + R"({"row": 3, "name": "a/3.jpg"}, "identity": {"label": 3}})",
       "row 3: found the image 'fake.rec: record 3', expected 'a/3.jpg'; give --in"},
      {good + R"({"row": 3, "test": true}, "identity": {"label": 3}})",
       "image: found \"test\": true, expected one of the data set"},
      {good + R"({"row": 3}, "identity": {"label": 3}, "confidence": 1, "decision": "accpt"})",
       "decision: expected \"accept\" or \"reject\", found \"accpt\""},
      {good + R"({"row": 3}, "identity": {"label": 3}, "confidence": 2})",
       "confidence: expected 0 .. 1, found 2"},
      {good + R"({"row": 3}, "identity": {"label": 3}})",
       "confidence: expected 0 .. 1, found null"},
      {R"({"kind": "two_people", "action": "split", "identity": {"label": 3}, "images": []})",
       "images: found an array of 0, expected a non-empty array"},
      {R"({"kind": "duplicate", "action": "drop", "image": {"row": 3}, "identity": {"label": 3}, )"
       R"("other_image": {"row": 3}, "other_identity": {"label": 3}})",
       "found image and other_image 3, expected different rows"},
      {R"({"kind": "duplicate", "action": "drop", "image": {"row": 3}, "identity": {"label": 3}, )"
       R"("other_image": {"row": 4}, "other_identity": {"label": 5}})",
       "row 4: found label 4 (fake.rec: record 4), expected 5"},
      {R"({"kind": "leaked", "action": "merge", "identity": {"label": 3}})",
       "found kind \"leaked\" with action \"merge\", expected a kind and an action"},
      {good +
           R"({"row": 3}, "identity": {"label": 3}, "confidence": 1, "evidence": {"cosine": "x"}})",
       "evidence: cosine: found \"x\" (string), expected a number"}};
  for (const auto& [line, expected] : cases) {
    EXPECT_THAT(refusal(line), HasSubstr((folder_ / "f.jsonl").string() + ": line 1")) << line;
    EXPECT_THAT(refusal(line), HasSubstr(expected)) << line;
  }
}

TEST_F(Findings, MayNameManyImages) {
  std::string images = R"({"row": 3})";
  for (int i = 0; i < 5000; ++i) images += R"(, {"row": 3})";
  EXPECT_EQ(
      read(R"({"kind": "two_people", "action": "split", "decision": "accept", "confidence": 1, )"
           R"("identity": {"label": 3}, "images": [)" +
           images + "]}")
          .corrections[0]
          .images.size(),
      5001u);
}

}  // namespace
}  // namespace pfc::testing
