#include "pfcctl/data/review/review.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/error.h"
#include "pfcctl/data/review/page.h"
#include "tests/support/error_message.h"
#include "tests/support/face_folder.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHostileName = "</script><img src=x onerror=alert(1)><!--";

/// The JSON in an element of the page.
json page_json(const std::string& page, const std::string& id) {
  const std::string begin = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t at = page.find(begin);
  if (at == std::string::npos) return {};
  const std::size_t from = at + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

json image_json(std::int64_t row) { return {{"row", row}}; }
json identity_json(std::int64_t label) { return {{"label", label}}; }

class Review : public ::testing::Test {
 protected:
  Review() { write_insightface(faces_); }

  static json wrong_label(std::int64_t row, std::int64_t label, std::int64_t other) {
    return {{"kind", "wrong_label"},
            {"action", "move"},
            {"confidence", 0.9},
            {"image", image_json(row)},
            {"identity", identity_json(label)},
            {"other_identity", identity_json(other)}};
  }
  static json stranger(std::int64_t row) {
    return {{"kind", "stranger"},
            {"action", "drop"},
            {"confidence", 0.8},
            {"image", image_json(row)},
            {"identity", identity_json(row / 4)}};
  }
  std::string write_text(const std::string& text) {
    write_file(options_.findings, text);
    return write_review(options_);
  }
  std::string write(std::initializer_list<json> findings) {
    std::string text;
    for (const json& f : findings) text += f.dump() + "\n";
    return write_text(text);
  }
  std::string error_of(const json& finding) {
    return message_of<InputError>([&] { write({wrong_label(0, 0, 1), finding}); });
  }
  [[nodiscard]] std::string page() const {
    const auto bytes = read_file(options_.output);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] json groups(std::size_t finding) const {
    return page_json(page(), "data")["findings"][finding]["groups"];
  }
  /// Returns the rows of these places; the images are all different.
  [[nodiscard]] std::vector<std::int64_t> rows(const json& places) const {
    std::vector<std::int64_t> found;
    for (const json& place : places) {
      const json entry = page_json(page(), "images-0")[place.get<std::size_t>()];
      for (std::int64_t row = 0; row < faces_.images(); ++row) {
        if (entry[1] == data_address("jpeg", faces_.encoded(row))) found.push_back(row);
      }
    }
    return found;
  }

  TemporaryFolder folder_;
  FaceFolder faces_{.folder = folder_.path()};  // row r has the label r / 4
  ReviewOptions options_{.findings = folder_ / "findings.jsonl",
                         .in = faces_.folder,
                         .against = {},
                         .output = folder_ / "review.html"};
};

TEST_F(Review, ShowsAnIdentityByItsFirstImagesThatNoFindingWouldChange) {
  write({wrong_label(0, 0, 1), stranger(5)});
  const json of_first = groups(0), of_second = groups(1);
  EXPECT_THAT(rows(of_first["image"]), ElementsAre(0));
  EXPECT_THAT(rows(of_first["identity"]), ElementsAre(1, 2, 3));
  EXPECT_THAT(rows(of_first["other_identity"]), ElementsAre(4, 6, 7));
  EXPECT_THAT(rows(of_second["image"]), ElementsAre(5));
  EXPECT_EQ(of_second["identity"], of_first["other_identity"]);
  EXPECT_EQ(page_json(page(), "images-0").size(), 8u) << "each image once";
}

TEST_F(Review, ShowsDuplicatesAndBothOfTwoPeople) {
  write({json{{"kind", "duplicate"},
              {"action", "drop"},
              {"confidence", 1},
              {"image", image_json(9)},
              {"identity", identity_json(2)},
              {"other_image", image_json(4)},
              {"other_identity", identity_json(1)}},
         json{{"kind", "two_people"},
              {"action", "split"},
              {"confidence", 1},
              {"identity", identity_json(4)},
              {"images", {image_json(18), image_json(19)}}}});
  EXPECT_THAT(rows(groups(0)["image"]), ElementsAre(9));
  EXPECT_THAT(rows(groups(0)["other_image"]), ElementsAre(4));
  EXPECT_FALSE(groups(0).contains("identity"));
  EXPECT_THAT(rows(groups(1)["images"]), ElementsAre(18, 19));
  EXPECT_THAT(rows(groups(1)["identity"]), ElementsAre(16, 17));
}

TEST_F(Review, ShowsImagesOfTheTestSetOnlyIfItIsGiven) {
  const FaceFolder test{.folder = folder_ / "test", .identities = 2, .images_per_identity = 2};
  std::filesystem::create_directory(test.folder);
  write_insightface(test);
  const json leaked{{"kind", "leaked"},
                    {"action", "drop"},
                    {"confidence", 1},
                    {"identity", identity_json(3)},
                    {"other_identity", {{"label", 1}, {"test", true}}}};
  write({leaked});
  EXPECT_EQ(rows(groups(0)["identity"]).size(), 4u);
  EXPECT_TRUE(groups(0)["other_identity"].empty());
  options_.against = test.folder;
  write({leaked});
  EXPECT_THAT(rows(groups(0)["other_identity"]), ElementsAre(2, 3));
}

TEST_F(Review, KeepsLinesAndDecisions) {
  const std::string line =
      " {\"kind\": \"stranger\", \"action\": \"drop\", \"confidence\": 0.10, "
      "\"image\": {\"row\": 2}, \"identity\": {\"label\": 0}}";
  json rejected = stranger(5);
  rejected["decision"] = "reject";
  write_text(line + "\n" + rejected.dump());
  const json findings = page_json(page(), "data")["findings"];
  EXPECT_EQ(findings[0]["line"], line);
  EXPECT_EQ(findings[0]["decision"], "");
  EXPECT_EQ(findings[1]["line"], stranger(5).dump());
  EXPECT_EQ(findings[1]["decision"], "reject");
}

TEST_F(Review, NamesAreNeverHtml) {
  json f = stranger(2);
  f["identity"]["name"] = kHostileName;
  write({f});
  EXPECT_EQ(json::parse(page_json(page(), "data")["findings"][0]["line"].get<std::string>()), f);
  EXPECT_THAT(page(), Not(HasSubstr("<img")));
  EXPECT_THAT(page(), HasSubstr("default-src 'none'; img-src data:; style-src 'sha256-"));
}

TEST_F(Review, LeavesOutFindingsAfterTheLimit) {
  options_.limit = 1;
  EXPECT_THAT(write({stranger(2), stranger(5), stranger(6)}),
              HasSubstr("1 finding with 4 images, "));
  EXPECT_EQ(page_json(page(), "data")["left_out"], 2);
  EXPECT_EQ(page_json(page(), "data")["findings"].size(), 1u);
}

TEST_F(Review, ShrinksLargeImagesAndNamesUnreadableOnes) {
  options_.in = folder_ / "people";
  for (const char* person : {"a", "b"}) std::filesystem::create_directories(options_.in / person);
  write_file(options_.in / "a/0.jpg", make_jpeg(300, 600, 1));
  write_file(options_.in / "b/0.jpg", std::string_view("text"));
  const std::string told = write({json{{"kind", "same_person"},
                                       {"action", "merge"},
                                       {"confidence", 1},
                                       {"identity", identity_json(0)},
                                       {"other_identity", identity_json(1)}}});
  EXPECT_THAT(told, HasSubstr("1 image cannot be read"));
  const json images = page_json(page(), "images-0");
  EXPECT_LT(images[0][1].get<std::string>().size(), 20'000u);
  EXPECT_THAT(images[1][0].get<std::string>(), HasSubstr("b/0.jpg"));
  EXPECT_TRUE(images[1][1].is_null());
}

TEST_F(Review, WritesAPageWithoutFindings) {
  EXPECT_THAT(write({}), HasSubstr("0 findings with 0 images"));
}

TEST_F(Review, RejectsFindingsOfAnotherSet) {
  json f = stranger(2);
  f["image"]["name"] = "elsewhere/train.rec: record 3 (offset 8)";
  EXPECT_THAT(error_of(f), AllOf(HasSubstr("findings.jsonl: line 2: row 2: found "),
                                 HasSubstr("train.rec: record 3 (offset "),
                                 HasSubstr("expected 'elsewhere/train.rec: record 3 (offset 8)'")));
  EXPECT_THAT(error_of(wrong_label(4, 0, 2)), HasSubstr("row 4: found label 1 ("));
  EXPECT_THAT(error_of(stranger(20)), HasSubstr("label: expected an integer of 0 .. 4, found 5"));
  EXPECT_THAT(error_of(wrong_label(20, 0, 1)),
              HasSubstr("row: expected an integer of 0 .. 19, found 20"));
  EXPECT_FALSE(std::filesystem::exists(options_.output));
}

TEST_F(Review, AcceptsAMovedSet) {
  json f = stranger(2);
  write({f});
  const std::string name = page_json(page(), "images-0")[0][0].get<std::string>();
  f["image"]["name"] = "/elsewhere" + name.substr(faces_.folder.string().size());
  EXPECT_THAT(write({f}), HasSubstr("1 finding"));
}

TEST_F(Review, RejectsMalformedFindings) {
  json f = stranger(2);
  f["kind"] = "blurred";
  EXPECT_THAT(error_of(f), HasSubstr("findings.jsonl: line 2: found kind \"blurred\""));
}

TEST_F(Review, RejectsFindingsOfAnotherTestSet) {
  const FaceFolder test{.folder = folder_ / "test", .identities = 2, .images_per_identity = 2};
  std::filesystem::create_directory(test.folder);
  write_insightface(test);
  options_.against = test.folder;
  json f{{"kind", "duplicate"},
         {"action", "drop"},
         {"confidence", 1},
         {"image", image_json(9)},
         {"identity", identity_json(2)},
         {"other_image", {{"row", 3}, {"test", true}}},
         {"other_identity", {{"label", 0}, {"test", true}}}};
  EXPECT_THAT(error_of(f), AllOf(HasSubstr("line 2: row 3 of the test set: found label 1 ("),
                                 HasSubstr("expected 0; give --against the test set")));
  f["other_identity"]["label"] = 1;
  EXPECT_THAT(write({f}), HasSubstr("1 finding with 2 images"));
  f["other_image"]["row"] = 4;
  EXPECT_THAT(error_of(f), HasSubstr("other_image: row: expected an integer of 0 .. 3, found 4"));
}

TEST_F(Review, ReadsFilesWithAByteOrderMark) {
  write_text("\xef\xbb\xbf" + stranger(2).dump() + "\n");
  EXPECT_THAT(rows(groups(0)["image"]), ElementsAre(2));
}

TEST_F(Review, OverwritesNoInput) {
  options_.output = faces_.folder / "train.rec";
  EXPECT_THAT(message_of<InputError>([&] { write({stranger(2)}); }), HasSubstr("ends with .html"));
  options_.output = options_.findings = folder_ / "findings.html";
  EXPECT_THAT(message_of<InputError>([&] { write({stranger(2)}); }),
              HasSubstr("is the input file"));
}

}  // namespace
}  // namespace pfc::testing
