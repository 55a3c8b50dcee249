// Tests which existing events a resumed job drops.
#include "worker/report/event_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/worker/report/events.h"
#include "tests/worker/trained.h"

namespace pfc {
namespace {

TEST(EventTail, DropsTheStepsThatAResumedRunRepeats) {
  const TemporaryFolder folder;
  {
    TrainingLog log({.output = folder.path(), .global_batch = 64});
    for (int step = 1; step <= 5; ++step) log.step(record(step));
  }
  std::ofstream(folder / "metrics.jsonl", std::ios::app) << R"({"step":6,"lo)";  // killed here
  TrainingLog log(
      {.output = folder.path(), .start = testing::trained_with(3, 64), .global_batch = 64});
  log.step(record(4));
  const auto lines = lines_of(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(nlohmann::json::parse(lines[static_cast<std::size_t>(i)])["step"], i + 1);
  }
}

TEST(EventTail, CutsALongFileInPlace) {
  const TemporaryFolder folder;
  {
    TrainingLog log({.output = folder.path(), .global_batch = 64});
    for (int step = 1; step <= 3'000; ++step) log.step(record(step));
  }
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat((folder / "metrics.jsonl").c_str(), &before), 0);
  { const TrainingLog log({.output = folder.path(), .start = testing::trained_with(1'200, 64)}); }
  ASSERT_EQ(::stat((folder / "metrics.jsonl").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  const auto events = events_of(folder.path());
  ASSERT_EQ(events.size(), 1'200U);
  EXPECT_EQ(events.back()["step"], 1'200);
}

TEST(EventTail, KeepsALongFileWhoseEventsAreAllBeforeTheCheckpoint) {
  const TemporaryFolder folder;
  {
    TrainingLog log({.output = folder.path(), .global_batch = 64});
    for (int step = 1; step <= 1'000; ++step) log.step(record(step));
  }
  { const TrainingLog log({.output = folder.path(), .start = testing::trained_with(1'000, 64)}); }
  EXPECT_EQ(events_of(folder.path()).size(), 1'000U);
}

TEST(EventTail, DropsAllEventsOfALongFileAfterTheFirst) {
  const TemporaryFolder folder;
  {
    TrainingLog log({.output = folder.path(), .global_batch = 64});
    for (int step = 1; step <= 1'000; ++step) log.step(record(step));
  }
  { const TrainingLog log({.output = folder.path(), .start = testing::trained_with(1, 64)}); }
  EXPECT_EQ(events_of(folder.path()).size(), 1U);
}

TEST(EventTail, ComparesImagesSeenWhenTheGlobalBatchHasChanged) {
  const TemporaryFolder folder;
  const auto images_seen = [&] {
    std::vector<std::int64_t> images;
    for (const std::string& line : lines_of(folder / "metrics.jsonl")) {
      images.push_back(nlohmann::json::parse(line)["images_seen"]);
    }
    return images;
  };
  {
    TrainingLog log({.output = folder.path(), .global_batch = 8});
    for (int step = 1; step <= 6; ++step) log.step(record(step));
    log.evaluation(6, VerificationResult{.name = "lfw"});
  }
  const TrainedSoFar checkpoint = testing::trained_with(4, 8);
  {  // with fewer workers
    TrainingLog log({.output = folder.path(), .start = checkpoint, .global_batch = 2});
    log.step(record(5));
    log.step(record(6));
    EXPECT_EQ(images_seen(), (std::vector<std::int64_t>{8, 16, 24, 32, 34, 36}));
  }
  TrainingLog log({.output = folder.path(), .start = checkpoint, .global_batch = 12});
  log.step(record(5));
  EXPECT_EQ(images_seen(), (std::vector<std::int64_t>{8, 16, 24, 32, 44}));
}

TEST(EventTail, DropsEventsOfEveryKindAfterTheCheckpoint) {
  const TemporaryFolder folder;
  {
    TrainingLog log({.output = folder.path(), .global_batch = 64});
    log.start({.steps_done = 0});
    log.step(record(1));
    log.checkpoint({.step = 1});
    log.step(record(2));
    log.checkpoint({.step = 1, .published = true});
    log.checkpoint({.step = 2});
    log.evaluation(2, VerificationResult{.name = "lfw"});
    log.end({.step = 2});
  }
  const TrainingLog log(
      {.output = folder.path(), .start = testing::trained_with(1, 64), .global_batch = 64});
  std::vector<std::string> kept;
  for (const auto& event : events_of(folder.path())) kept.push_back(event["kind"]);
  EXPECT_EQ(kept, (std::vector<std::string>{"start", "step", "checkpoint", "checkpoint"}));
}

TEST(EventTail, ContinuesAFileOfAnEarlierVersion) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl")
      << R"({"step":1,"images_seen":64,"loss":3.5})" << '\n'
      << R"({"step":1,"images_seen":64,"val_target":"lfw","accuracy":0.5})" << '\n'
      << R"({"step":2,"images_seen":128,"loss":3.25})" << '\n';
  TrainingLog log(
      {.output = folder.path(), .start = testing::trained_with(1, 64), .global_batch = 64});
  log.step(record(2));
  const auto events = events_of(folder.path());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1]["val_target"], "lfw");
  EXPECT_EQ(events[2]["kind"], "step");
}

TEST(EventTail, DropsLinesThatAreNotEventsWithAWarning) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl") << R"({"step": 1, "images_seen": 64})" << '\n'
                                          << R"({"images_seen": null})" << '\n'
                                          << R"({"images_seen": 1e3})"
                                          << "\nno JSON\n"
                                          << R"({"a note": "of a person"})" << '\n';
  ::testing::internal::CaptureStdout();
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::stdout_sink_mt>()));
  const TrainingLog log(
      {.output = folder.path(), .start = testing::trained_with(1, 64), .global_batch = 64});
  spdlog::set_default_logger(before);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStdout(),
      ::testing::HasSubstr((folder / "metrics.jsonl").string() +
                           ": line 2 is not an event with a whole number as images_seen; it "
                           "and 2 more are dropped"));
  EXPECT_THAT(
      lines_of(folder / "metrics.jsonl"),
      ::testing::ElementsAre(R"({"step": 1, "images_seen": 64})", R"({"a note": "of a person"})"));
}

TEST(EventTail, DropsAnEventWhoseImageCountOverflows) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl") << R"({"step": 1, "images_seen": 64})"
                                          << "\nno JSON\n"
                                          << R"({"images_seen": 18446744073709551615})" << '\n';
  const TrainingLog log(
      {.output = folder.path(), .start = testing::trained_with(1, 64), .global_batch = 64});
  EXPECT_THAT(lines_of(folder / "metrics.jsonl"),
              ::testing::ElementsAre(R"({"step": 1, "images_seen": 64})"));
}

TEST(EventTail, DropsATooDeeplyNestedLine) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl")
      << R"({"images_seen": 64})" << '\n'
      << R"({"images_seen": 64, "deep": )" << std::string(20, '[') << std::string(20, ']') << "}\n";
  { const TrainingLog log({.output = folder.path(), .start = testing::trained_with(1, 64)}); }
  EXPECT_EQ(lines_of(folder / "metrics.jsonl"), std::vector<std::string>{R"({"images_seen": 64})"});
}

}  // namespace
}  // namespace pfc
