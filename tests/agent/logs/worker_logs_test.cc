#include "agent/logs/worker_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <future>
#include <mutex>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class Logs : public ::testing::Test {
 protected:
  std::unique_ptr<WorkerLogs> logs(int jobs = 2, const std::string& name = "logs") {
    return std::make_unique<WorkerLogs>(folder / name, LogLimits{.jobs = jobs},
                                        [this](const std::string& problem) {
                                          const std::lock_guard lock(mutex);
                                          warnings.push_back(problem);
                                        });
  }

  /// Returns the text or the problem, after all earlier output was written.
  static std::string reads(WorkerLogs& logs, const std::string& job, Rank rank) {
    std::promise<std::string> promise;
    logs.read(job, rank, 0, 0, 1'000, [&](const LogPiece& piece, const std::string& problem) {
      promise.set_value(problem.empty() ? piece.text : problem);
    });
    return promise.get_future().get();
  }

  std::vector<std::string> jobs() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / "logs")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  TemporaryFolder folder;
  std::mutex mutex;
  std::vector<std::string> warnings;  // guarded by mutex, until the logs are gone
};

TEST_F(Logs, HaveOneFilePerJobAndRank) {
  const auto writer = logs();
  writer->add("job1", 0, "a\n");
  writer->add("job1", 3, "b\n");
  writer->add("job1", 0, "c\n");
  EXPECT_EQ(reads(*writer, "job1", 0), "a\nc\n");
  EXPECT_EQ(reads(*writer, "job1", 3), "b\n");
  EXPECT_THAT(reads(*writer, "job1", 1), HasSubstr("rank-1.log: this log does not exist"));
  EXPECT_TRUE(fs::exists(folder / "logs/job1/rank-3.log"));
}

TEST_F(Logs, AreInFoldersThatOnlyTheirUserCanOpen) {
  const mode_t before = ::umask(022);
  const auto writer = logs(2, "made/pfc/logs");
  writer->add("job1", 0, "a\n");
  reads(*writer, "job1", 0);
  ::umask(before);
  for (const char* made : {"made", "made/pfc", "made/pfc/logs", "made/pfc/logs/job1"}) {
    EXPECT_EQ(fs::status(folder / made).permissions(), fs::perms::owner_all) << made;
  }
}

TEST_F(Logs, AreRemovedForTheOldestJobs) {
  const auto writer = logs();
  for (const std::string job : {"job1", "job2", "job3", "job4"}) {
    writer->add(job, 0, "a\n");
    reads(*writer, job, 0);
    const auto age = std::chrono::hours{job == "job1" ? 4 : job == "job2" ? 3 : 2};
    fs::last_write_time(folder / "logs" / job, fs::file_time_type::clock::now() - age);
  }
  EXPECT_THAT(jobs(), UnorderedElementsAre("job3", "job4"));
}

TEST_F(Logs, AreKeptInFoldersWithForeignFiles) {
  const fs::path home = folder / "logs";
  fs::create_directories(home / "photos/2026");
  std::ofstream(home / "photos/2026/face.jpg") << "x";
  fs::create_directories(home / "job0");
  std::ofstream(home / "job0/rank-0.log") << "made by another program";
  fs::create_directories(home / "empty");
  const auto writer = logs(1);
  for (const std::string job : {"job1", "job2", "job3", "job4"}) {
    writer->add(job, 0, "a\n");
    reads(*writer, job, 0);
    if (job == "job1") std::ofstream(home / "job1/notes.txt") << "kept by a person";
    if (job == "job2") fs::create_directory(home / "job2/rank-1.log.1");
    fs::last_write_time(home / job, fs::file_time_type::clock::now() - std::chrono::hours{2});
  }
  EXPECT_THAT(jobs(), UnorderedElementsAre("photos", "job0", "empty", "job1", "job2", "job4"));
  EXPECT_TRUE(fs::exists(home / "photos/2026/face.jpg"));
  EXPECT_TRUE(fs::exists(home / "job0/rank-0.log"));
  EXPECT_TRUE(fs::exists(home / "job1/rank-0.log")) << "a folder is never removed in part";
}

TEST_F(Logs, AreKeptWhileAnotherAgentWritesThem) {
  const auto another = logs();
  another->add("theirs", 0, "a\n");
  reads(*another, "theirs", 0);
  fs::last_write_time(folder / "logs/theirs",
                      fs::file_time_type::clock::now() - std::chrono::hours{9});
  const auto writer = logs(1);
  for (const std::string job : {"job1", "job2"}) writer->add(job, 0, "a\n");
  reads(*writer, "job2", 0);
  EXPECT_THAT(jobs(), UnorderedElementsAre("theirs", "job2"));
}

TEST_F(Logs, ReportAWriteErrorOncePerJob) {
  std::ofstream(folder / "logs") << "a file where a folder is needed";
  auto writer = logs();
  for (int line = 0; line < 3; ++line) writer->add("job1", 0, "a\n");
  writer->add("job2", 0, "a\n");
  writer.reset();
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("--log-dir"), HasSubstr("job2")));
}

TEST_F(Logs, ReportAWriteErrorOfOneRankOnceAndKeepOtherRanksLogs) {
  fs::create_directories(folder / "logs/job1/rank-0.log");
  auto writer = logs();
  for (int line = 0; line < 3; ++line) writer->add("job1", 0, "a\n");
  writer->add("job1", 1, "b\n");
  EXPECT_EQ(reads(*writer, "job1", 1), "b\n");
  writer.reset();
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("rank-0.log: ")));
}

TEST_F(Logs, RejectJobIdsThatLeadToAnotherFolder) {
  auto writer = logs();
  writer->add("../elsewhere", 0, "a\n");
  EXPECT_EQ(reads(*writer, "../elsewhere", 0),
            "malformed job id; expected one that pfcctl queue lists");
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
}

TEST_F(Logs, LimitMemoryWhileTheDiskHangsAndReportTheLoss) {
  const auto writer = logs();
  std::promise<void> hangs;
  writer->read("job1", 0, 0, 0, 1,
               [&](const LogPiece&, const std::string&) { hangs.get_future().wait(); });
  const std::string mebibyte(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 10; ++i) writer->add("job1", 0, mebibyte);
  hangs.set_value();
  writer->add("job1", 1, "");
  EXPECT_THAT(reads(*writer, "job1", 0), ::testing::StartsWith("(dropped here: 2.00 MiB of"));
}

}  // namespace
}  // namespace pfc
