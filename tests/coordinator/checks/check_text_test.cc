#include "proto/check_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

proto::CheckFinding& add(proto::CheckReport& report, const std::string& host,
                         const std::string& what, const std::string& found,
                         proto::CheckVerdict verdict = proto::CHECK_OK) {
  proto::CheckFinding& finding = *report.add_findings();
  finding.set_host(host);
  finding.set_rank(-1);
  finding.set_what(what);
  finding.set_found(found);
  finding.set_verdict(verdict);
  finding.set_remedy("do something");
  return finding;
}

proto::CheckReport report_of_three_hosts() {
  proto::CheckReport report;
  report.set_hosts(3);
  report.set_workers(6);
  report.set_job_file("job.json");
  return report;
}

TEST(CheckText, SaysThatTheClusterWouldRunTheJob) {
  EXPECT_EQ(check_sentence(report_of_three_hosts()),
            "the cluster would run this job: 6 workers on 3 hosts");
}

TEST(CheckText, SaysHowManyThingsWouldStopOrSlowTheJob) {
  proto::CheckReport report = report_of_three_hosts();
  add(report, "b", "agent", "none", proto::CHECK_STOPS);
  EXPECT_EQ(check_sentence(report), "1 thing would stop this job");
  add(report, "c", "clock", "slow", proto::CHECK_SLOWS);
  add(report, "c", "output", "not shared", proto::CHECK_NOTE);
  EXPECT_EQ(check_sentence(report), "1 thing would stop this job, and 1 would slow it");
  EXPECT_FALSE(is_good(report));
}

TEST(CheckText, CountsAFindingOfAllHostsOnce) {
  proto::CheckReport report = report_of_three_hosts();
  for (const char* host : {"a", "b", "c"}) add(report, host, "memory", "1 GiB", proto::CHECK_STOPS);
  EXPECT_EQ(check_sentence(report), "1 thing would stop this job");
  EXPECT_THAT(check_text(report), HasSubstr("STOPS  all 3 hosts  memory  1 GiB"));
}

TEST(CheckText, ShowsARemedyOnlyBelowBadFindings) {
  proto::CheckReport report = report_of_three_hosts();
  add(report, "b", "open files", "40", proto::CHECK_STOPS).set_expected("at least 100");
  add(report, "a", "open files", "1024");
  EXPECT_EQ(check_text(report),
            "       host  what        found  expected\n"
            "STOPS  b     open files  40     at least 100\n"
            "         -> do something\n"
            "ok     a     open files  1024\n"
            "\n"
            "1 thing would stop this job (0 s)\n");
}

TEST(CheckText, DrawsTheSpeedsBetweenHosts) {
  proto::CheckReport report = report_of_three_hosts();
  const auto pair = [&](const char* from, const char* to, double speed, const char* error = "") {
    proto::CheckPair& added = *report.add_pairs();
    added.set_from(from);
    added.set_to(to);
    added.set_bits_per_second(speed);
    added.set_error(error);
  };
  pair("a", "b", 9.4e9);
  pair("b", "a", 2e7);
  pair("a", "c", 0, "Connection timed out");
  EXPECT_THAT(check_text(report), AllOf(HasSubstr("          a         b         c\n"),
                                        HasSubstr("a         .         █ 9.4G    x none\n"),
                                        HasSubstr("b         ░ 20M     .         ?\n")));
}

TEST(CheckText, NumbersHostsWhoseNamesAreTooLongForAColumn) {
  proto::CheckReport report = report_of_three_hosts();
  for (const auto& [from, to] :
       {std::pair("gpu-node-11", "gpu-node-12"), {"gpu-node-12", "gpu-node-11"}}) {
    proto::CheckPair& added = *report.add_pairs();
    added.set_from(from);
    added.set_to(to);
    added.set_bits_per_second(1e9);
  }
  EXPECT_THAT(check_text(report), AllOf(HasSubstr("               1         2\n"),
                                        HasSubstr("1 gpu-node-11  .         █ 1.0G\n"),
                                        HasSubstr("2 gpu-node-12  █ 1.0G    .\n")));
}

TEST(CheckText, ContainsNoControlCharactersOfAHost) {
  proto::CheckReport report = report_of_three_hosts();
  add(report, "b", "data", "\x1b[2J\xff", proto::CHECK_STOPS);
  EXPECT_THAT(check_text(report), Not(HasSubstr("\x1b")));
  EXPECT_NO_THROW(static_cast<void>(check_json(report).dump()));
}

TEST(CheckText, HasAJsonForm) {
  proto::CheckReport report = report_of_three_hosts();
  proto::CheckFinding& slow = add(report, "b", "decode speed", "10 images/s", proto::CHECK_SLOWS);
  slow.set_value(10);
  slow.set_unit("images/s");
  const auto printed = check_json(report);
  EXPECT_EQ(printed["would_run"], true);
  EXPECT_EQ(printed["good"], false);
  EXPECT_EQ(printed["findings"][0]["verdict"], "slows");
  EXPECT_EQ(printed["findings"][0]["rank"], nullptr);
  EXPECT_EQ(printed["findings"][0]["value"], 10);
  EXPECT_EQ(printed["findings"][0]["remedy"], "do something");
}

TEST(CheckWithoutWorkers, DoesNotPass) {
  const proto::CheckReport nothing;
  EXPECT_FALSE(is_good(nothing));
  EXPECT_EQ(check_sentence(nothing), "no worker completed the check: nothing is known about a job");
}

}  // namespace
}  // namespace pfc
