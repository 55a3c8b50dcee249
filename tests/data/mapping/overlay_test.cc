#include "data/mapping/overlay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/job_data.h"
#include "data/layouts/synthetic_dataset.h"
#include "tests/support/data_folder.h"
#include "tests/support/encoded_images.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::message_of;

constexpr const char* kHeader = "{\"overlay\": 1, \"images\": 8, \"identities\": 4, ";

class Overlays : public testing::DataFolder {
 protected:
  /// Writes people/p0/0.jpg ...: two images of each of four people.
  Overlays() {
    for (unsigned i = 0; i < 8; ++i) {
      write("people/p" + std::to_string(i / 2) + "/" + std::to_string(i % 2) + ".jpg",
            testing::make_jpeg(8, 8, i));
    }
  }
  /// Writes an overlay of these people with as many changes as there are lines.
  void write_lines(const std::string& lines) const {
    write("o.jsonl", kHeader + ("\"changes\": " + std::to_string(std::ranges::count(lines, '\n'))) +
                         "}\n" + lines);
  }
  [[nodiscard]] std::unique_ptr<Dataset> open() const {
    return open_dataset({.rec = folder_ / "people", .overlay = folder_ / "o.jsonl"});
  }
  [[nodiscard]] std::string refusal() const {
    return message_of<InputError>([&] { (void)open(); });
  }
};

TEST_F(Overlays, MoveMergeSplitAndLeaveOut) {
  write_lines(
      "{\"identity\": 1, \"label\": 0}\n{\"identity\": 3, \"label\": null}\n"
      "{\"image\": 0, \"label\": 2}\n{\"image\": 3, \"label\": 9}\n"
      "{\"image\": 6, \"label\": null}\n{\"image\": 7, \"label\": null}\n");
  const auto dataset = open();
  EXPECT_THAT(labels_of(*dataset), ElementsAre(1, 0, 0, 2, 1, 1));
  EXPECT_EQ(dataset->info().images, 6);
  EXPECT_EQ(dataset->info().classes, 3);
  EXPECT_EQ(dataset->identity(0), "p0");
  EXPECT_EQ(dataset->identity(1), "p2");
  EXPECT_THAT(dataset->identity(2), ::testing::StartsWith("new identity 9 of "));
  EXPECT_THAT(dataset->name(5), EndsWith("p2/1.jpg"));
  EXPECT_EQ(image_of(*dataset, 5), testing::make_jpeg(8, 8, 5));
}

TEST_F(Overlays, NumberTheImagesThatRemain) {
  write_lines(
      "{\"image\": 0, \"label\": null}\n{\"image\": 3, \"label\": null}\n"
      "{\"image\": 4, \"label\": null}\n");
  EXPECT_THAT(labels_of(*open()), ElementsAre(0, 1, 2, 3, 3));
  EXPECT_THAT(open()->name(1), EndsWith("p1/0.jpg"));
}

TEST_F(Overlays, ChangeTheBriefs) {
  const auto contents = [&] { return open()->briefs().back().holds; };
  write_lines("{\"image\": 3, \"label\": 0}\n");
  const std::string before = contents();
  EXPECT_EQ(contents(), before);
  write_lines("{\"image\": 3, \"label\": 2}\n");
  EXPECT_NE(contents(), before);
  write_lines("{\"identity\": 3, \"label\": 2}\n");
  const std::string of_identity = contents();
  write_lines("{\"image\": 3, \"label\": 2}\n");
  EXPECT_NE(contents(), of_identity);
}

TEST_F(Overlays, RejectMalformedLines) {
  const std::string image = "{\"image\": 3, \"label\": 2}\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{\"image\": 3, \"lable\": 2}\n", "line 2: found {\"image\":3,\"lable\":2}, expected"},
      {"{\"image\": 3, \"label\": 2, \"identity\": 1}\n", "line 2: found {"},
      {"{\"image\": 3}\n", "line 2: found {"},
      {"[3, 2]\n", "line 2: found [3,2], expected {\"image\": I"},
      {"7\n", "line 2: found 7, expected"},
      {"\n", "line 2:1:1: not valid JSON"},
      {"{\"image\": 3, \"label\": NaN}\n", "line 2:1:23: not valid JSON"},
      {"{\"image\": 3, \"label\": 1e999}\n", "line 2: label: expected a number of at most"},
      {"{\"image\": 3, \"label\": 2.5}\n", "line 2: label: expected an integer of 0 .. 109951162"},
      {"{\"image\": 3, \"label\": -1}\n", "line 2: label: expected an integer of 0 .. "},
      {"{\"image\": 3, \"label\": 1099511627776}\n", "line 2: label: expected an integer of 0 .. "},
      {"{\"image\": 3, \"label\": 18446744073709551616}\n", "line 2: label: expected an integer"},
      {"{\"image\": 3, \"label\": \"2\"}\n", "line 2: label: expected an integer of 0 .. "},
      {"{\"image\": 8, \"label\": 2}\n", "line 2: image: expected an integer of 0 .. 7, found 8"},
      {"{\"image\": null, \"label\": 2}\n", "line 2: image: expected an integer of 0 .. 7, found"},
      {"{\"identity\": 4, \"label\": 2}\n", "line 2: identity: expected an integer of 0 .. 3"},
      {image + image, "line 3: found {\"image\":3,\"label\":2}, expected image numbers in asc"},
      {image + "{\"image\": 2, \"label\": 2}\n", "line 3: found {"},
      {image + "{\"identity\": 1, \"label\": 2}\n",
       "line 3: found {\"identity\":1,\"label\":2}, expected identities before all images"},
      {"{\"identity\": 2, \"label\": 1}\n" + image, "line 3: found label 2, but line 2 changes"},
      {"{\"identity\": 1, \"label\": 2}\n{\"identity\": 2, \"label\": 0}\n",
       "line 2: found label 2, but line 3 changes this identity; expected a label that does not"}};
  for (const auto& [lines, expected] : cases) {
    write_lines(lines);
    EXPECT_THAT(refusal(), HasSubstr((folder_ / "o.jsonl").string() + ": " + expected)) << lines;
  }
}

TEST_F(Overlays, RejectMalformedHeadersAndTruncatedFiles) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "is empty, expected an overlay"},
      {"{\"overlay\": 1, \"images\": 8}\n", "line 1: found {"},
      {"{\"overlay\": 2, \"images\": 8, \"identities\": 4, \"changes\": 0}\n",
       "line 1: overlay: expected 1, found 2"},
      {"{\"overlay\": 1, \"images\": 0, \"identities\": 4, \"changes\": 0}\n",
       "line 1: images: expected an integer of 1 .. "},
      {kHeader + std::string("\"changes\": 2}\n{\"image\": 3, \"label\": 2}\n"),
       "found 1 change, expected 2 (\"changes\" in line 1); make the overlay again"},
      {kHeader + std::string("\"changes\": 1}\n{\"image\": 3, \"lab"), "line 2:1:"},
      {kHeader + std::string("\"changes\": 0}\n{\"image\": 3, \"label\": 2}\n"),
       "found 1 change, expected 0"}};
  for (const auto& [text, expected] : cases) {
    write("o.jsonl", text);
    EXPECT_THAT(refusal(), HasSubstr("o.jsonl: " + expected)) << text;
  }
}

TEST_F(Overlays, RejectOtherData) {
  write("o.jsonl",
        std::string("{\"overlay\": 1, \"images\": 9, \"identities\": 4, \"changes\": 0}"));
  EXPECT_THAT(refusal(),
              HasSubstr("line 1: belongs to 9 images of 4 identities, but " +
                        (folder_ / "people").string() + " has 8 images of 4 identities"));
  write_lines("{\"identity\": 2, \"label\": null}\n{\"image\": 4, \"label\": null}\n");
  const auto dataset = open();
  ImageBuffer buffer;
  EXPECT_EQ(dataset->label(3, buffer), 1);
  EXPECT_THAT(message_of<InputError>([&] { dataset->label(4, buffer); }),
              HasSubstr("p2/1.jpg: found label 2, but " + (folder_ / "o.jsonl").string() +
                        " leaves no image of this identity"));
  std::string all;
  for (int i = 0; i < 8; ++i) all += "{\"image\": " + std::to_string(i) + ", \"label\": null}\n";
  write_lines(all);
  EXPECT_THAT(refusal(), HasSubstr("leaves out all images"));
}

/// Compares with labels that are replaced one by one.
TEST_F(Overlays, MatchASimpleReference) {
  std::mt19937 random(3);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 100; ++round) {
    const std::int64_t images = 1 + below(30), identities = 1 + below(8);
    std::string list = "x.jpg\t" + std::to_string(identities - 1) + "\n";
    std::vector<std::int64_t> labels{identities - 1};
    for (std::int64_t i = 1; i < images; ++i) {
      labels.push_back(below(identities));
      list += "x.jpg\t" + std::to_string(labels.back()) + "\n";
    }
    // Identity 0 never changes, and others may become a part of it or of a new one.
    Overlay overlay{.images = images, .identities = identities};
    std::map<std::int64_t, std::int64_t> merged;
    for (std::int64_t c = 1; c < identities; ++c) {
      if (below(3) == 0) {
        merged[c] = below(2) * (identities + below(3));
        overlay.of_identities.push_back({.of = c, .label = merged[c]});
      }
    }
    std::vector<std::int64_t> expected;
    std::set<std::int64_t> classes;
    for (std::int64_t c = 0; c < identities; ++c) {
      classes.insert(merged.contains(c) ? merged[c] : c);
    }
    for (std::int64_t i = 0; i < images; ++i) {
      const std::int64_t before = labels[static_cast<std::size_t>(i)];
      std::int64_t label = merged.contains(before) ? merged[before] : before;
      if (i > 0 && below(3) == 0) {
        const std::array<std::int64_t, 3> choices{-1, 0, identities + below(5)};
        label = choices[static_cast<std::size_t>(below(3))];
        overlay.of_images.push_back({.of = i, .label = label});
      }
      if (label < 0) continue;
      expected.push_back(label);
      classes.insert(label);
    }
    for (std::int64_t& label : expected)
      label = std::distance(classes.begin(), classes.find(label));
    write("x.jpg", testing::make_jpeg(8, 8, 1));
    write("list.tsv", list);
    write_overlay(folder_ / "o.jsonl", overlay);
    const auto dataset =
        open_dataset({.rec = folder_ / "list.tsv", .overlay = folder_ / "o.jsonl"});
    EXPECT_EQ(labels_of(*dataset), expected) << "round " << round;
    EXPECT_EQ(dataset->info().classes, std::ssize(classes)) << "round " << round;
    EXPECT_EQ(dataset->info().images, std::ssize(expected));
  }
}

TEST_F(Overlays, BelongToOneDataSetOfAJob) {
  write_lines("{\"identity\": 1, \"label\": 0}\n{\"image\": 7, \"label\": null}\n");
  JobConfig job;
  job.rec = {folder_ / "people"};
  job.overlay = {folder_ / "o.jsonl"};
  EXPECT_THAT(labels_of(*open_job_data_and_complete(job)), ElementsAre(0, 0, 0, 0, 1, 1, 2));
  EXPECT_EQ(job.num_classes, 3);
  EXPECT_EQ(job.num_image, 7);
  EXPECT_EQ(open_job_data(job)->info().classes, 3) << "another worker opens the completed job";
  job.num_classes = 4;
  EXPECT_THAT(message_of<InputError>([&] { open_job_data(job); }),
              HasSubstr("found 3 with the overlay " + (folder_ / "o.jsonl").string() +
                        ", but num_classes is 4"));
  job.num_classes = job.num_image = 0;
  write("others/a/1.jpg", testing::make_jpeg(8, 8, 1));
  job.rec.push_back(folder_ / "others");
  job.overlay.emplace_back("");
  EXPECT_THAT(labels_of(*open_job_data(job)), ElementsAre(0, 0, 0, 0, 1, 1, 2, 3));
  EXPECT_EQ(open_job_data(job)->identity(3), "a");
  job.rec = {kSyntheticData};
  EXPECT_THAT(message_of<InputError>([&] { open_job_data(job); }),
              HasSubstr("the labels of \"synthetic\" cannot change"));
}

}  // namespace
}  // namespace pfc
