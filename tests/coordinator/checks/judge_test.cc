#include "coordinator/checks/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

proto::CheckFinding finding(const std::string& host, const std::string& found,
                            proto::CheckComparison comparison, double value = 0) {
  proto::CheckFinding finding;
  finding.set_host(host);
  finding.set_what("train.idx");
  finding.set_found(found);
  finding.set_comparison(comparison);
  finding.set_value(value);
  finding.set_otherwise(comparison == proto::CHECK_SAME_EVERYWHERE ? proto::CHECK_STOPS
                                                                   : proto::CHECK_SLOWS);
  finding.set_remedy("mend it");
  return finding;
}

std::vector<proto::CheckVerdict> verdicts(const std::vector<proto::CheckFinding>& findings) {
  std::vector<proto::CheckVerdict> verdicts;
  for (const auto& each : findings) verdicts.push_back(each.verdict());
  return verdicts;
}

std::vector<proto::CheckFinding> same(const std::vector<std::string>& found,
                                      const KnownValues& known = {}) {
  std::vector<proto::CheckFinding> findings;
  for (std::size_t i = 0; i < found.size(); ++i) {
    findings.push_back(finding(std::string(1, static_cast<char>('a' + i)), found[i],
                               proto::CHECK_SAME_EVERYWHERE));
  }
  compare(findings, known);
  return findings;
}

std::vector<proto::CheckFinding> fast(const std::vector<double>& values, double enough = 0) {
  std::vector<proto::CheckFinding> findings;
  for (std::size_t i = 0; i < values.size(); ++i) {
    findings.push_back(finding(std::string(1, static_cast<char>('a' + i)),
                               std::to_string(static_cast<int>(values[i])) + " MB/s",
                               proto::CHECK_AS_FAST_AS_OTHERS, values[i]));
    findings.back().set_enough(enough);
  }
  compare(findings, {});
  return findings;
}

TEST(CheckJudge, AcceptsAValueThatAllHostsHave) {
  const auto findings = same({"80 images", "80 images", "80 images"});
  EXPECT_THAT(verdicts(findings), ElementsAre(proto::CHECK_OK, proto::CHECK_OK, proto::CHECK_OK));
  EXPECT_EQ(findings[0].remedy(), "");
}

TEST(CheckJudge, NamesTheHostThatDiffersFromMostEvenIfItIsTheFirst) {
  const auto findings = same({"88 images", "80 images", "80 images"});
  EXPECT_THAT(verdicts(findings),
              ElementsAre(proto::CHECK_STOPS, proto::CHECK_OK, proto::CHECK_OK));
  EXPECT_EQ(findings[0].expected(), "80 images, as b has");
  EXPECT_EQ(findings[0].remedy(), "mend it");
}

TEST(CheckJudge, PrefersTheFirstOfTwoHostsThatDiffer) {
  EXPECT_THAT(verdicts(same({"88 images", "80 images"})),
              ElementsAre(proto::CHECK_OK, proto::CHECK_STOPS));
}

TEST(CheckJudge, PrefersTheCoordinatorsValue) {
  const auto findings = same({"version 2", "version 2"}, {{"train.idx", "version 1"}});
  EXPECT_THAT(verdicts(findings), ElementsAre(proto::CHECK_STOPS, proto::CHECK_STOPS));
  EXPECT_EQ(findings[1].expected(), "version 1, as the coordinator has");
}

TEST(CheckJudge, NamesTheHostThatIsSlowerThanHalfOfTheMedian) {
  const auto findings = fast({100, 49, 110});
  EXPECT_THAT(verdicts(findings),
              ElementsAre(proto::CHECK_OK, proto::CHECK_SLOWS, proto::CHECK_OK));
  EXPECT_EQ(findings[1].expected(), "about 100 MB/s, as a has");
}

TEST(CheckJudge, ComparesTwoHostsWithTheFasterHost) {
  EXPECT_THAT(verdicts(fast({49, 100})), ElementsAre(proto::CHECK_SLOWS, proto::CHECK_OK));
}

TEST(CheckJudge, DoesNotCallAFastEnoughHostSlow) {
  EXPECT_THAT(verdicts(fast({1000, 410}, 400)), ElementsAre(proto::CHECK_OK, proto::CHECK_OK));
}

proto::CheckPair pair(const std::string& from, const std::string& to, double speed,
                      const std::string& error = "") {
  proto::CheckPair pair;
  pair.set_from(from);
  pair.set_to(to);
  pair.set_bits_per_second(speed);
  pair.set_error(error);
  return pair;
}

TEST(CheckJudge, FindsNothingIfAllLinksAreEquallyFast) {
  EXPECT_THAT(judge_pairs({pair("a", "b", 1e9), pair("b", "a", 9e8), pair("a", "c", 5e8)}),
              IsEmpty());
}

TEST(CheckJudge, NamesTheHostWithTheSlowLinkOnce) {
  const auto findings =
      judge_pairs({pair("a", "b", 1e9), pair("a", "c", 1e9), pair("b", "a", 1e9),
                   pair("b", "c", 1e9), pair("c", "a", 2e7), pair("c", "b", 3e7)});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].host(), "c");
  EXPECT_EQ(findings[0].verdict(), proto::CHECK_SLOWS);
  EXPECT_EQ(findings[0].found(), "c to a 20 Mbit/s, and 1 other pair");
  EXPECT_EQ(findings[0].expected(), "about 1.0 Gbit/s, as between other pairs");
}

TEST(CheckJudge, NamesTheHostThatNoHostReaches) {
  const auto findings =
      judge_pairs({pair("a", "b", 0), pair("b", "a", 0), pair("a", "c", 0, "Connection timed out"),
                   pair("b", "c", 0, "Connection timed out"), pair("c", "a", 0)});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].host(), "c");
  EXPECT_EQ(findings[0].verdict(), proto::CHECK_STOPS);
  EXPECT_THAT(findings[0].found(), HasSubstr("a to c: Connection timed out"));
  EXPECT_THAT(findings[0].remedy(), HasSubstr("firewalls"));
}

TEST(CheckJudge, SortsTheWorstFirst) {
  std::vector<proto::CheckFinding> findings(3);
  findings[1].set_verdict(proto::CHECK_STOPS);
  findings[2].set_verdict(proto::CHECK_SLOWS);
  sort_by_verdict(findings);
  EXPECT_THAT(verdicts(findings),
              ElementsAre(proto::CHECK_STOPS, proto::CHECK_SLOWS, proto::CHECK_OK));
}

}  // namespace
}  // namespace pfc
