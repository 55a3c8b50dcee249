#include "worker/start/host_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "common/error.h"
#include "common/version.h"
#include "data/open_dataset.h"
#include "tests/support/error_message.h"
#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;

const std::vector<std::string> kHosts{"a", "a", "b", "b", "c"};

std::vector<HostFact> with_index(const std::string& value) {
  return {{"pfc-worker", "version 1", "install the same version on all hosts"},
          {"/data/train.idx", value, "give every host the same data"}};
}

/// Returns each worker's error if the ranks in `differ` have another index file than the others.
std::array<std::string, 5> errors_where(const std::vector<int>& differ) {
  std::array<std::string, 5> errors;
  testing::run_ranks(5, [&](Comm& comm) {
    const bool other = std::ranges::find(differ, comm.rank()) != differ.end();
    errors[static_cast<std::size_t>(comm.rank())] = message_of<InputError>(
        [&] { compare_hosts(comm, kHosts, with_index(other ? "79 images" : "80 images")); });
  });
  return errors;
}

TEST(CompareHosts, AcceptsEqualDataOnAllHosts) {
  testing::run_ranks(5, [](Comm& comm) {
    EXPECT_THAT(compare_hosts(comm, kHosts, with_index("80 images")), IsEmpty());
  });
}

TEST(CompareHosts, NamesTheHostWithDifferentDataInTheSameMessageOnAllWorkers) {
  for (const std::string& error : errors_where({2, 3})) {
    EXPECT_EQ(error,
              "host b: /data/train.idx has 79 images, rank 0 on host a has 80 images; give every "
              "host the same data");
  }
}

TEST(CompareHosts, FindsADifferenceAmongMoreFactsThanFitIntoAMessage) {
  const auto many = [](const std::string& last) {
    std::vector<HostFact> facts(1'000, {std::string(200, 'x'), "12 bytes", "give the same data"});
    facts.back().value = last;
    return facts;
  };
  testing::run_ranks(5, [&](Comm& comm) {
    const std::string value = comm.rank() == 4 ? "13 bytes" : "12 bytes";
    EXPECT_THAT(message_of<InputError>([&] { compare_hosts(comm, kHosts, many(value)); }),
                HasSubstr("host c: "));
  });
}

TEST(CompareHosts, NamesEveryHostThatDiffers) {
  EXPECT_THAT(errors_where({0, 1})[0], HasSubstr("host b: "));
  EXPECT_THAT(errors_where({0, 1})[0], HasSubstr("host c: "));
}

TEST(CompareHosts, NamesAHostWithAnOlderProgram) {
  testing::run_ranks(5, [](Comm& comm) {
    auto facts = with_index("80 images");
    if (comm.rank() == 4) facts[0].value = "version 0";
    EXPECT_EQ(message_of<InputError>([&] { compare_hosts(comm, kHosts, facts); }),
              "host c: pfc-worker has version 0, rank 0 on host a has version 1; install the same "
              "version on all hosts");
  });
}

TEST(CompareHosts, AcceptsNamesInAnyEncoding) {
  testing::run_ranks(5, [](Comm& comm) {
    EXPECT_THAT(compare_hosts(comm, kHosts, {{"/data/\xff", "1 image", ""}}), IsEmpty());
  });
}

TEST(CompareHosts, WarnsOfAHostWhoseClockIsOff) {
  testing::run_ranks(5, [](Comm& comm) {
    const auto off = std::array{0s, 0s, 60s, 60s, -4s}.at(static_cast<std::size_t>(comm.rank()));
    const auto now = [off] { return std::chrono::sys_days{2026y / 5 / 12} + off; };
    const auto warnings = compare_hosts(comm, kHosts, with_index("80 images"), now);
    EXPECT_EQ(warnings.empty(), comm.rank() != 0) << "only rank 0 warns";
    if (comm.rank() != 0) return;
    EXPECT_THAT(warnings,
                ElementsAre("host b: its clock is 60 s ahead of that of host a: training does not "
                            "depend on it, but times in its logs are wrong; synchronize both with "
                            "a time server"));
  });
}

TEST(CompareHosts, WarnsOfAClockThatIsBehind) {
  testing::run_ranks(2, [](Comm& comm) {
    const auto now = [&] { return std::chrono::sys_days{2026y / 5 / 12} - comm.rank() * 90s; };
    const std::vector<std::string> hosts{"a", "b"};
    const auto warnings = compare_hosts(comm, hosts, {}, now);
    if (comm.rank() != 0) return;
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("90 s behind that of host a")));
  });
}

class FactsOfAHost : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<HostFact> facts_with(const testing::FaceFolder& faces) const {
    testing::write_insightface(faces);
    return facts_of_host(*open_dataset({.rec = faces.folder}), {});
  }
  static std::vector<std::string> values(const std::vector<HostFact>& facts) {
    std::vector<std::string> all;
    for (const HostFact& fact : facts) all.push_back(fact.value);
    return all;
  }
  const TemporaryFolder folder_;
};

TEST_F(FactsOfAHost, ListVersionIndexAndRecords) {
  const auto facts = facts_with({.folder = folder_.path()});
  ASSERT_EQ(facts.size(), 3U);
  EXPECT_EQ(facts[0].value, std::string("version ") + version());
  EXPECT_EQ(facts[1].what, folder_ / "train.idx");
  EXPECT_THAT(facts[1].value, HasSubstr("20 images of 5 classes, 16 x 16 pixels, sha256 of "));
  EXPECT_EQ(facts[2].what, folder_ / "train.rec");
  EXPECT_THAT(facts[2].value, HasSubstr(" bytes, sha256 of some records "));
}

TEST_F(FactsOfAHost, AreTheSameForTheSameData) {
  const auto first = values(facts_with({.folder = folder_.path()}));
  EXPECT_EQ(values(facts_with({.folder = folder_.path()})), first);
}

TEST_F(FactsOfAHost, DifferIfAnImageIsMissing) {
  const auto first = values(facts_with({.folder = folder_.path()}));
  EXPECT_NE(values(facts_with({.folder = folder_.path(), .images_per_identity = 3}))[1], first[1]);
}

TEST_F(FactsOfAHost, DifferIfOnlyLabelsDo) {
  const auto first = values(facts_with({.folder = folder_.path()}));
  const auto other =
      values(facts_with({.folder = folder_.path(), .identities = 4, .images_per_identity = 5}));
  EXPECT_NE(other[2], first[2]);
}

TEST_F(FactsOfAHost, ContainTheSizesOfVerificationSets) {
  testing::write_insightface({.folder = folder_.path()});
  EvaluationSets sets;
  sets.verification.push_back(
      {.name = "lfw", .file = "/data/lfw.bin", .images = {{std::byte{1}}, {std::byte{2}}}});
  const auto facts = facts_of_host(*open_dataset({.rec = folder_.path()}), sets);
  EXPECT_EQ(facts.back().what, "/data/lfw.bin");
  EXPECT_EQ(facts.back().value, "2 images of 2 bytes");
}

}  // namespace
}  // namespace pfc
