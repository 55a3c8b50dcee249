#include "pfcctl/data/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/mapping/chosen_dataset.h"
#include "data/open_dataset.h"
#include "data/records/image_record.h"
#include "data/records/property_file.h"
#include "data/records/writing/record_writer.h"
#include "pfcctl/data/pack/pack.h"
#include "tests/pfcctl/data/people.h"
#include "tests/pfcctl/run_pfcctl.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_jpeg;
using testing::write_file;

class Validate : public ::testing::Test {
 protected:
  Validate() { testing::write_people(people_, 5, 3); }
  [[nodiscard]] Validation look() const { return validate(*open_dataset({.rec = people_}), 3, {}); }

  TemporaryFolder folder_;
  fs::path people_ = folder_ / "people";
};

TEST_F(Validate, ReportsNoFaultInGoodData) {
  const Validation v = look();
  EXPECT_TRUE(v.is_good());
  EXPECT_EQ(v.images, 15);
  EXPECT_EQ(v.good.size(), 15u);
  EXPECT_THAT(validation_text(v), HasSubstr("found no faults\n"));
  EXPECT_EQ(nlohmann::json::parse(validation_json(v))["good"], true);
}

TEST_F(Validate, NamesDamagedImages) {
  const auto whole = make_jpeg(16, 16, 99);
  write_file(people_ / "p01/1.jpg", std::span(whole).first(whole.size() / 2));
  write_file(people_ / "p03/0.jpg", "text");
  const Validation v = look();
  EXPECT_EQ(v.damaged, 2);
  EXPECT_EQ(v.good.size(), 13u);
  EXPECT_THAT(v.examples, ElementsAre(HasSubstr("p01/1.jpg: "), HasSubstr("p03/0.jpg: ")));
  EXPECT_THAT(validation_text(v), HasSubstr("2 of 15 images have faults; --fix OUT"));
}

TEST_F(Validate, FindsRepeatedBytes) {
  fs::copy_file(people_ / "p01/0.jpg", people_ / "p01/7.jpg");
  fs::copy_file(people_ / "p01/0.jpg", people_ / "p01/8.jpg");
  const Validation v = look();
  EXPECT_EQ(v.repeated, 2);
  EXPECT_EQ(v.contradicted, 0);
  EXPECT_EQ(v.good.size(), 15u);
  EXPECT_THAT(v.examples, ElementsAre(HasSubstr("p01/7.jpg: has the same bytes as "),
                                      HasSubstr("p01/8.jpg: has the same bytes as ")));
}

TEST_F(Validate, ComparesAllLabelsButPackRefusesImagesWithSeveralLabels) {
  write_file(people_ / "list.tsv",
             "p00/0.jpg\t0,2\np00/0.jpg\t2,0\np00/1.jpg\t1,2\np00/1.jpg\t2\n");
  const auto dataset = open_dataset({.rec = people_ / "list.tsv"});
  const Validation v = validate(*dataset, 2, {});
  EXPECT_EQ(v.repeated, 1);
  EXPECT_EQ(v.contradicted, 2);
  EXPECT_EQ(v.empty_classes, 0);
  EXPECT_THAT(testing::message_of<InputError>(
                  [&] { pack_dataset({.in = people_ / "list.tsv", .out = folder_ / "out"}, {}); }),
              HasSubstr("list.tsv: found up to 2 labels for an image, but pfcctl data pack needs "
                        "exactly one; use a list with one label per image"));
}

TEST_F(Validate, FindsTheSameImageWithTwoLabels) {
  fs::copy_file(people_ / "p01/0.jpg", people_ / "p04/7.jpg");
  const Validation v = look();
  EXPECT_EQ(v.contradicted, 2);
  EXPECT_EQ(v.good.size(), 14u) << "which of two labels is right is unknown";
  EXPECT_THAT(v.examples, ElementsAre(HasSubstr(", which has another label")));
}

TEST_F(Validate, FindsWrongLabelsAndEmptyClasses) {
  const fs::path set = folder_ / "set";
  fs::create_directories(set);
  RecordWriter writer(set / "train.rec", set / "train.idx");
  writer.append(0, encode_image_record(0, 0, make_jpeg(16, 16, 1)));
  writer.append(1, encode_image_record(9, 1, make_jpeg(16, 16, 2)));
  writer.append(2, encode_image_record(std::vector<float>{1.5f}, 2, make_jpeg(16, 16, 3)));
  writer.close();
  write_property(set / "property", {4, 16, 16});
  const Validation v = validate(*open_dataset({.rec = set}), 2, {});
  EXPECT_EQ(v.mislabelled, 2);
  EXPECT_EQ(v.empty_classes, 3);
  EXPECT_THAT(v.good, ElementsAre(0));
  EXPECT_THAT(v.examples.front(), HasSubstr("found label 9, expected 0 .. 3"));
}

TEST_F(Validate, CopyOfGoodImagesIsClean) {
  write_file(people_ / "p01/1.jpg", "text");
  fs::copy_file(people_ / "p02/0.jpg", people_ / "p02/7.jpg");
  const auto dataset = open_dataset({.rec = people_});
  const Validation v = validate(*dataset, 2, {});
  const PackOptions fix{.in = people_, .out = folder_ / "clean"};
  pack_dataset(*choose(*dataset, {.images = v.good, .classes = {}}), fix, {});
  const auto clean = open_dataset({.rec = fix.out});
  EXPECT_TRUE(validate(*clean, 2, {}).is_good());
  EXPECT_EQ(clean->info().images, 14);
  EXPECT_EQ(clean->info().classes, 5);
}

TEST_F(Validate, CreatesNoFolderForMissingData) {
  const fs::path clean = folder_ / "clean";
  expect_refused("data validate " + (folder_ / "none").string() + " --fix " + clean.string(),
                 "none: not found");
  EXPECT_FALSE(fs::exists(clean));
}

TEST_F(Validate, AcceptsRealFaces) {
  const auto data = testing::test_data();
  if (!data) GTEST_SKIP() << "PFC_TEST_DATA is not set";
  EXPECT_TRUE(validate(*open_dataset({.rec = *data / "lfw112"}), 0, {}).is_good());
}

}  // namespace
}  // namespace pfc
