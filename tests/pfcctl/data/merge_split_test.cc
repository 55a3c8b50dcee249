#include "pfcctl/data/merge_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>

#include "common/error.h"
#include "data/open_dataset.h"
#include "pfcctl/data/pack/unpack.h"
#include "pfcctl/data/validate.h"
#include "pfcctl/verbs.h"
#include "tests/pfcctl/data/people.h"
#include "tests/pfcctl/run_pfcctl.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using testing::contents;
using ::testing::HasSubstr;
using testing::Labelled;
using testing::message_of;
using testing::read_file;
using testing::write_people;

class DataSetsOfPeople : public ::testing::Test {
 protected:
  DataSetsOfPeople() { write_people(folder_ / "people", 20, 3); }
  [[nodiscard]] static std::set<std::string> names_of(const Dataset& dataset) {
    std::set<std::string> names;
    for (std::int64_t c = 0; c < dataset.info().classes; ++c) names.insert(dataset.identity(c));
    return names;
  }

  TemporaryFolder folder_;
  PackOptions pack_{.in = folder_ / "people", .out = folder_ / "out", .threads = 2};
};

TEST_F(DataSetsOfPeople, AreSplitByPersonAndMergedAgain) {
  const Split split = split_dataset({.held_out = 0.25, .seed = 1, .pack = pack_}, {});
  EXPECT_EQ(split.train.classes, 15);
  EXPECT_EQ(split.held_out.classes, 5);
  EXPECT_EQ(split.train.images + split.held_out.images, 60);
  const auto train = open_dataset({.rec = pack_.out / "train"});
  const auto held = open_dataset({.rec = pack_.out / "held-out"});
  std::set<std::string> all = names_of(*train);
  all.merge(names_of(*held));
  EXPECT_EQ(all.size(), 20u) << "no person is in both parts";

  const MergeOptions merge{.in = {pack_.out / "train", pack_.out / "held-out"},
                           .identities = {},
                           .share_identities = false,
                           .pack = {.out = folder_ / "merged"}};
  EXPECT_EQ(merge_datasets(merge, {}).images, 60);
  const auto merged = open_dataset({.rec = merge.pack.out});
  const auto before = open_dataset({.rec = pack_.in});
  // The same bytes of the same people under other numbers.
  const auto by_name = [](const Dataset& dataset) {
    std::vector<std::pair<std::string, std::vector<std::byte>>> named;
    for (Labelled& each : contents(dataset)) {
      named.emplace_back(dataset.identity(each.label), std::move(each.bytes));
    }
    std::ranges::sort(named);
    return named;
  };
  EXPECT_EQ(by_name(*merged), by_name(*before));
}

TEST_F(DataSetsOfPeople, AnotherSeedHoldsOutOtherPeople) {
  split_dataset({.held_out = 0.5, .seed = 1, .pack = pack_}, {});
  const auto first = names_of(*open_dataset({.rec = pack_.out / "held-out"}));
  pack_.out = folder_ / "other";
  split_dataset({.held_out = 0.5, .seed = 2, .pack = pack_}, {});
  EXPECT_NE(names_of(*open_dataset({.rec = pack_.out / "held-out"})), first);
}

TEST_F(DataSetsOfPeople, SplitContinuesAfterAnInterrupt) {
  split_dataset({.held_out = 0.25, .seed = 1, .pack = pack_}, {});
  const auto whole = read_file(pack_.out / "held-out/train.rec");
  for (const std::int64_t end : {10, 50}) {  // an interrupt in the first and in the second part
    pack_.out = folder_ / ("cut-" + std::to_string(end));
    const auto stop = [&](std::int64_t done, std::int64_t) {
      if (done >= end) throw ExitStatus{130};
    };
    EXPECT_THROW(split_dataset({.held_out = 0.25, .seed = 1, .pack = pack_}, stop), ExitStatus);
    EXPECT_FALSE(fs::exists(pack_.out / "train/train.rec"));
    std::int64_t first = -1;
    split_dataset({.held_out = 0.25, .seed = 1, .pack = pack_},
                  [&](std::int64_t done, std::int64_t) {
                    if (first < 0) first = done;
                  });
    EXPECT_GT(first, 1);
    EXPECT_EQ(read_file(pack_.out / "held-out/train.rec"), whole);
  }
}

TEST_F(DataSetsOfPeople, SplitCountsOnlyPeopleWithImages) {
  std::string list;
  for (int person = 0; person < 20; ++person) {  // labels 0, 50, 100, ...
    list += fmt::format("{}\t{}\tp{:02}/0.jpg\n", person, 50 * person, person);
  }
  testing::write_file(pack_.in / "train.lst", list);
  pack_.in /= "train.lst";
  const Split split = split_dataset({.held_out = 0.1, .seed = 1, .pack = pack_}, {});
  EXPECT_EQ(split.held_out.classes, 2);
  EXPECT_EQ(split.held_out.images, 2);
  EXPECT_EQ(split.train.classes, 18);
  EXPECT_EQ(split.train.images, 18);
}

TEST_F(DataSetsOfPeople, SplitNeedsPeopleInBothParts) {
  EXPECT_THAT(message_of<InputError>(
                  [&] { split_dataset({.held_out = 0.01, .seed = 1, .pack = pack_}, {}); }),
              HasSubstr("0 of 20 people would be held out, expected at least 1 in both parts"));
}

TEST_F(DataSetsOfPeople, MergeHasSharedPeopleOnce) {
  write_people(folder_ / "more", 5, 7);
  MergeOptions merge{.in = {folder_ / "people", folder_ / "more"},
                     .identities = {},
                     .share_identities = true,
                     .pack = {.out = folder_ / "merged"}};
  const Packed packed = merge_datasets(merge, {});
  EXPECT_EQ(packed.classes, 20);
  EXPECT_EQ(packed.images, 60 + 35);
  merge.share_identities = false;
  merge.pack.out = folder_ / "apart";
  EXPECT_EQ(merge_datasets(merge, {}).classes, 25);
  merge.identities = {folder_ / "one.txt"};
  EXPECT_THAT(message_of<InputError>([&] { merge_datasets(merge, {}); }),
              HasSubstr("--identities: found 1 files, expected one for each of the 2 data sets"));
}

TEST_F(DataSetsOfPeople, MergeContinuesOnlyWithTheSameNames) {
  std::string names, reversed;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "n" + std::to_string(i) + "\n";
    names += name;
    reversed.insert(0, name);
  }
  testing::write_file(folder_ / "names.txt", names);
  testing::write_file(folder_ / "reversed.txt", reversed);
  MergeOptions merge{.in = {folder_ / "people", folder_ / "people"},
                     .identities = {folder_ / "names.txt", folder_ / "reversed.txt"},
                     .share_identities = true,
                     .pack = {.out = folder_ / "whole", .threads = 1}};
  merge_datasets(merge, {});
  const auto whole = read_file(merge.pack.out / "train.rec");
  merge.pack.out = folder_ / "merged";
  const auto stop = [](std::int64_t done, std::int64_t) {
    if (done >= 30) throw ExitStatus{130};
  };
  const auto first_done = [&] {
    std::int64_t first = -1;
    merge_datasets(merge, [&](std::int64_t done, std::int64_t) {
      if (first < 0) first = done;
    });
    return first;
  };
  EXPECT_THROW(merge_datasets(merge, stop), ExitStatus);
  EXPECT_GT(first_done(), 1);
  merge.pack.out = folder_ / "merged-with-others";
  merge.identities[1] = folder_ / "names.txt";
  EXPECT_THROW(merge_datasets(merge, stop), ExitStatus);
  merge.identities[1] = folder_ / "reversed.txt";
  EXPECT_EQ(first_done(), 1);
  EXPECT_EQ(read_file(merge.pack.out / "train.rec"), whole);
}

TEST_F(DataSetsOfPeople, MergeNeedsTwoDifferentSets) {
  MergeOptions merge{.in = {pack_.in, pack_.in / "."},
                     .identities = {},
                     .share_identities = false,
                     .pack = {.out = folder_ / "merged"}};
  EXPECT_THAT(message_of<InputError>([&] { merge_datasets(merge, {}); }),
              HasSubstr("people/. twice, so each of its people would be two"));
  expect_refused("data merge " + pack_.in.string() + " --out " + merge.pack.out.string(),
                 "found one data set, expected two or more");
  EXPECT_FALSE(fs::exists(merge.pack.out));
}

TEST_F(DataSetsOfPeople, RejectAFolderOfPeopleAsOutput) {
  const auto refusal = [](const auto& work) { return message_of<InputError>(work); };
  pack_.out = pack_.in / "p00";
  EXPECT_THAT(refusal([&] { pack_dataset(pack_, {}); }), HasSubstr("--out is inside the data"));
  pack_.out = pack_.in;
  EXPECT_THAT(refusal([&] { split_dataset({.held_out = 0.5, .seed = 1, .pack = pack_}, {}); }),
              HasSubstr("people/train: --out is inside the data set"));
  EXPECT_FALSE(fs::exists(pack_.in / "train"));
}

TEST_F(DataSetsOfPeople, NamesWithLineBreaksStayDifferent) {
  write_people(folder_ / "lines", 3, 1);
  fs::rename(folder_ / "lines/p00", folder_ / "lines/a\nb");
  fs::rename(folder_ / "lines/p01", folder_ / "lines/a\rb");
  fs::rename(folder_ / "lines/p02", folder_ / "lines/a_b");
  pack_.in = folder_ / "lines";
  pack_dataset(pack_, {});
  EXPECT_EQ(names_of(*open_dataset({.rec = pack_.out})),
            (std::set<std::string>{"a_b", "a_b_", "a_b__"}));
}

TEST_F(DataSetsOfPeople, UnpackIsReadAsTheSameDataSet) {
  pack_dataset(pack_, {});
  const UnpackOptions unpack{.in = pack_.out, .out = folder_ / "unpacked", .threads = 2};
  EXPECT_EQ(unpack_dataset(unpack, {}).images, 60);
  const auto before = open_dataset({.rec = pack_.out});
  const auto after = open_dataset({.rec = unpack.out});
  EXPECT_EQ(contents(*after), contents(*before));
  EXPECT_EQ(after->identity(3), "p03");
  EXPECT_TRUE(fs::exists(unpack.out / "p00/01.jpg"));
  PackOptions again{.in = unpack.out, .out = folder_ / "again"};
  pack_dataset(again, {});
  EXPECT_EQ(read_file(again.out / "train.rec"), read_file(pack_.out / "train.rec"));
  EXPECT_THAT(message_of<InputError>([&] { unpack_dataset(unpack, {}); }),
              HasSubstr("train.lst: already exists"));
}

TEST_F(DataSetsOfPeople, UnpackContinuesAfterAnInterrupt) {
  const UnpackOptions unpack{.in = pack_.in, .out = folder_ / "unpacked", .threads = 1};
  const auto stop = [](std::int64_t done, std::int64_t) {
    if (done >= 30) throw ExitStatus{130};
  };
  EXPECT_THROW(unpack_dataset(unpack, stop), ExitStatus);
  EXPECT_FALSE(fs::exists(unpack.out / "train.lst"));
  EXPECT_THAT(message_of<InputError>([&] { open_dataset({.rec = unpack.out}); }),
              HasSubstr("train.lst.part: this data set is not finished"));
  const fs::path written = unpack.out / "p00/01.jpg";
  fs::create_hard_link(written, folder_ / "kept");  // shows whether it is still the same file
  EXPECT_EQ(unpack_dataset(unpack, {}).images, 60);
  EXPECT_EQ(fs::hard_link_count(written), 2u) << "the file was written again";
  EXPECT_EQ(contents(*open_dataset({.rec = unpack.out})),
            contents(*open_dataset({.rec = pack_.in})));
}

TEST_F(DataSetsOfPeople, ContinuedUnpackReplacesNoFileWithOtherContent) {
  const UnpackOptions unpack{.in = pack_.in, .out = folder_ / "unpacked", .threads = 1};
  const auto stop = [](std::int64_t done, std::int64_t) {
    if (done >= 30) throw ExitStatus{130};
  };
  EXPECT_THROW(unpack_dataset(unpack, stop), ExitStatus);
  // A file of the same size with other bytes: a user's, or of data that have changed since.
  const fs::path image = unpack.out / "p00/01.jpg";
  auto bytes = read_file(image);
  const auto before = bytes;
  bytes[bytes.size() / 2] ^= std::byte{1};
  testing::write_file(image, bytes);
  EXPECT_THAT(message_of<InputError>([&] { unpack_dataset(unpack, {}); }),
              HasSubstr("p00/01.jpg: already exists with other content"));
  EXPECT_EQ(read_file(image), bytes);
  testing::write_file(image, "");  // a possible result of a power cut
  EXPECT_EQ(unpack_dataset(unpack, {}).images, 60);
  EXPECT_EQ(read_file(image), before);
}

TEST_F(DataSetsOfPeople, UnpackReplacesNoFileThatItDidNotWrite) {
  const UnpackOptions unpack{.in = pack_.in, .out = folder_ / "unpacked", .threads = 1};
  const fs::path mine = unpack.out / "p19/60.jpg";
  fs::create_directories(mine.parent_path());
  testing::write_file(mine, "precious\n");
  testing::write_file(unpack.out / "p19/61.jpg", "no image has this number\n");
  for (int start = 0; start < 2; ++start) {
    EXPECT_THAT(message_of<InputError>([&] { unpack_dataset(unpack, {}); }),
                HasSubstr("p19/60.jpg: already exists with other content"));
    EXPECT_FALSE(fs::exists(unpack.out / "train.lst.part"));
  }
  EXPECT_EQ(fs::file_size(mine), 9u);
  fs::copy_file(pack_.in / "p19/2.jpg", mine, fs::copy_options::overwrite_existing);
  EXPECT_EQ(unpack_dataset(unpack, {}).images, 60);
}

TEST_F(DataSetsOfPeople, UnpackReplacesNoNamesThatItDidNotWrite) {
  const UnpackOptions unpack{.in = pack_.in, .out = folder_ / "unpacked"};
  fs::create_directories(unpack.out);
  testing::write_file(unpack.out / "identities.txt", "ada\n");
  EXPECT_THAT(message_of<InputError>([&] { unpack_dataset(unpack, {}); }),
              HasSubstr("identities.txt: already exists with other content"));
}

TEST_F(DataSetsOfPeople, UnpackNeedsItsOwnFolder) {
  UnpackOptions unpack{.in = pack_.in, .out = pack_.in / "unpacked"};
  EXPECT_THAT(message_of<InputError>([&] { unpack_dataset(unpack, {}); }),
              HasSubstr("unpacked: --out is inside the data set"));
  unpack.out = folder_ / "unpacked";
  const auto again = [&](std::int64_t, std::int64_t) {
    EXPECT_THAT(message_of<StorageError>([&] { unpack_dataset(unpack, {}); }),
                HasSubstr("train.lst.part: another process writes this file"));
    throw ExitStatus{130};
  };
  EXPECT_THROW(unpack_dataset(unpack, again), ExitStatus);
}

TEST_F(DataSetsOfPeople, HugeLabelIsRejectedWithoutAllocatingForIt) {
  testing::write_file(folder_ / "wrong.tsv",
                      "people/p00/0.jpg\t0\npeople/p01/0.jpg\t1099511627775\n");
  pack_.in = folder_ / "wrong.tsv";
  const std::string expected = "found 1099511627776 classes, but only 2 images; check the labels";
  EXPECT_THAT(message_of<InputError>(
                  [&] { split_dataset({.held_out = 0.5, .seed = 1, .pack = pack_}, {}); }),
              HasSubstr(expected));
  EXPECT_THAT(message_of<InputError>(
                  [&] { unpack_dataset({.in = pack_.in, .out = folder_ / "unpacked"}, {}); }),
              HasSubstr(expected));
  EXPECT_EQ(validate(*open_dataset({.rec = pack_.in}), 1, {}).empty_classes, 1099511627774);
  const MergeOptions merge{.in = {pack_.in, pack_.in},
                           .identities = {},
                           .share_identities = true,
                           .pack = {.out = folder_ / "merged"}};
  EXPECT_THAT(message_of<InputError>([&] { merge_datasets(merge, {}); }), HasSubstr("has no name"));
}

TEST_F(DataSetsOfPeople, MergeUsesTheDataSetsNamesForAnEmptyFile) {
  std::string names;
  for (int i = 0; i < 20; ++i) names += "p" + std::to_string(i) + "\n";
  testing::write_file(folder_ / "names.txt", names);
  const MergeOptions merge{.in = {folder_ / "people", folder_ / "people"},
                           .identities = {"", folder_ / "names.txt"},
                           .share_identities = true,
                           .pack = {.out = folder_ / "merged"}};
  EXPECT_EQ(merge_datasets(merge, {}).classes, 30) << "p10 .. p19 are in both";
}

/// Names are untrusted.
TEST_F(DataSetsOfPeople, UnpackWritesNothingOutsideItsFolder) {
  pack_dataset(pack_, {});
  std::string names = "../../up\n/etc/passwd\n..\n.hidden\nimages\nsame\nsame\n\x01\ntrain.lst\n";
  names += "train.rec\nproperty\na.tar\n";
  for (int i = 12; i < 20; ++i) names += std::to_string(i) + "\n";
  testing::write_file(pack_.out / "identities.txt", names);
  const UnpackOptions unpack{.in = pack_.out, .out = folder_ / "a/unpacked"};
  unpack_dataset(unpack, {});
  EXPECT_FALSE(fs::exists(folder_ / "up"));
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(unpack.out)) {
    if (entry.is_directory()) folders.insert(entry.path().filename());
  }
  EXPECT_EQ(folders.size(), 20u);
  EXPECT_TRUE(folders.contains("_.._.._up") || folders.contains("_.._up")) << *folders.begin();
  EXPECT_EQ(contents(*open_dataset({.rec = unpack.out})),
            contents(*open_dataset({.rec = pack_.out})));
}

}  // namespace
}  // namespace pfc
