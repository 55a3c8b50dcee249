#include "worker/report/training_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/report/events.h"
#include "tests/worker/trained.h"

namespace pfc {
namespace {

/// Writes one event of each kind, with all possible keys.
void write_every_kind(TrainingLog& log) {
  log.start({.last_step = 9});
  log.step(record(1));
  log.evaluation(1, VerificationResult{.name = "lfw"});
  log.checkpoint({.step = 1, .published = true, .seconds = 0.5});
  log.end({.step = 1, .reason = "completed", .phase_seconds = {{"head", 1}}});
}

TEST(TrainingLine, HasTheFormatOfArcfaceTorchsLogger) {
  const std::string line = training_line(std::chrono::system_clock::now(), "Speed 1.00");
  EXPECT_TRUE(std::regex_match(
      line, std::regex(R"(Training: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}-Speed 1\.00)")))
      << line;
}

TEST(SpeedMessage, HasTheWordsAndSpacesOfArcfaceTorch) {
  LogWindow w{.samples_per_second = 884.42,
              .loss = 47.25321,
              .lr = 0.1,
              .epoch = 0,
              .step = 100,
              .loss_scale = 65536.0,
              .seconds_left = 3 * 3600.0};
  EXPECT_EQ(speed_message(w),
            "Speed 884.42 samples/sec   Loss 47.2532   LearningRate 0.1000   Epoch: 0   "
            "Global Step: 100   Fp16 Grad Scale: 65536   Required: 3 hours");
  w.loss_scale.reset();
  EXPECT_EQ(speed_message(w),
            "Speed 884.42 samples/sec   Loss 47.2532   LearningRate 0.1000   Epoch: 0   "
            "Global Step: 100   Required: 3 hours");
  w.distillation_loss = 0.25;
  EXPECT_EQ(speed_message(w),
            "Speed 884.42 samples/sec   Loss 47.2532   Distillation Loss 0.2500   LearningRate "
            "0.1000   Epoch: 0   Global Step: 100   Required: 3 hours");
  w.logits_loss = 1.5;
  EXPECT_EQ(speed_message(w),
            "Speed 884.42 samples/sec   Loss 47.2532   Distillation Loss 0.2500   Logits Loss "
            "1.5000   LearningRate 0.1000   Epoch: 0   Global Step: 100   Required: 3 hours");
}

/// Returns a plan of this many steps of one image each.
StepPlan steps(std::int64_t number) {
  JobConfig job;
  job.batch_size = 1;
  job.num_epoch = 1;
  return plan_steps(job, 1, number);
}

TEST(RemainingTime, CountsFutureEvaluationsAndCheckpoints) {
  RemainingTime time(steps(1000), {.verbose = 300, .save_every_steps = 500});
  time.add_step(2);
  EXPECT_DOUBLE_EQ(time.after(1), 2 * 999);
  time.add_evaluation(60);
  time.add_checkpoint(500, 10);
  EXPECT_DOUBLE_EQ(time.after(500), 2 * 500 + 60 * 3 + 10);  // evaluations at 600, 900 and the end
  EXPECT_DOUBLE_EQ(time.after(900), 2 * 100 + 60 + 10);
  EXPECT_DOUBLE_EQ(time.after(1000), 0);
}

TEST(RemainingTime, DoesNotJumpWithAnEvaluationOrASlowStep) {
  RemainingTime time(steps(10'000), {.verbose = 100});
  for (int step = 1; step <= 400; ++step) {
    time.add_step(1);
    if (step % 100 == 0) time.add_evaluation(50);
  }
  const double before = time.after(400);
  EXPECT_NEAR(before, 9'600 + 50 * 96, 1);
  time.add_step(5);
  EXPECT_NEAR(time.after(401), before, 0.03 * before);
}

TEST(RemainingTime, SpreadsCheckpointsThatAreDueByTimeOverAllSteps) {
  RemainingTime time(steps(20), {});
  for (int step = 1; step <= 10; ++step) time.add_step(1);
  time.add_checkpoint(10, 5);
  EXPECT_DOUBLE_EQ(time.after(10), 10 + 5);
}

TEST(TimeLeft, UsesTheLargestUnitWithTwoDigitsOrMore) {
  EXPECT_EQ(time_left(7300), "2 hours");
  EXPECT_EQ(time_left(5700), "95 minutes");
  EXPECT_EQ(time_left(150), "3 minutes");
  EXPECT_EQ(time_left(119), "119 seconds");
  EXPECT_EQ(time_left(0), "0 seconds");
}

TEST(TimeMessage, NamesTheLongestPhaseFirst) {
  EXPECT_EQ(time_message({{"head", 0.5}, {"backward", 2.25}, {"forward", 1.25}}),
            "where the time went: backward 56.2 %, forward 31.2 %, head 12.5 %");
}

TEST(PagingMessage, HasHitsBytesAndTheTimeWaited) {
  EXPECT_EQ(
      paging_message(
          {.used = 1024, .hits = 256, .read = 768, .written = 512, .waited_seconds = 1.25}),
      "class centres on disk: 25.0 % of the 4.00 MiB used were in the cache, read 3.00 MiB, wrote "
      "2.00 MiB, waited 1.2 s");
}

TEST(TrainingLog, WritesOneObjectForEachStepAndAddsUpItsPhases) {
  const TemporaryFolder folder;
  TrainingLog log({.output = folder.path(), .global_batch = 64});
  log.step(record(1));
  log.step(record(2));
  const auto lines = lines_of(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2U);
  const auto object = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(object["step"], 2);
  EXPECT_DOUBLE_EQ(object["samples_per_second"], 128);
  EXPECT_EQ(object["gpu_memory_bytes"], 5'000'000'000);
  EXPECT_NEAR(object["phases"]["forward"], 0.3, 1e-12);
  EXPECT_NEAR(object["head_share"], 0.05 / object["step_seconds"].get<double>(), 1e-12);
}

TEST(UtcTime, IsIso8601WithMilliseconds) {
  const std::chrono::system_clock::time_point when{std::chrono::milliseconds(1'234)};
  EXPECT_EQ(utc_time(when), "1970-01-01T00:00:01.234Z");
}

TEST(TrainingLog, AddsKindTimeSchemaAndGenerationToEveryEvent) {
  const TemporaryFolder folder;
  TrainingLog log({.output = folder.path(), .global_batch = 64, .generation = 3});
  write_every_kind(log);
  std::vector<std::string> kinds;
  for (const auto& event : events_of(folder.path())) {
    kinds.push_back(event["kind"]);
    EXPECT_EQ(event["schema"], 2);
    EXPECT_EQ(event["generation"], 3);
    EXPECT_TRUE(event["time"].is_string());
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"start", "step", "evaluation", "checkpoint", "end"}));
}

TEST(TrainingLog, OmitsValuesThatAStepDoesNotHave) {
  const TemporaryFolder folder;
  TrainingLog log({.output = folder.path(), .global_batch = 64});
  log.step({.stats = {.step = 1, .samples = 64}, .step_seconds = 1});
  const auto event = events_of(folder.path()).at(0);
  EXPECT_FALSE(event.contains("loss_scale"));
  EXPECT_FALSE(event.contains("distillation_loss"));
  EXPECT_FALSE(event.contains("gpu_memory_bytes"));
}

TEST(TrainingLog, CountsTheBytesOfEachCommunicator) {
  const TemporaryFolder folder;
  TrainingLog log({.output = folder.path(), .global_batch = 64});
  log.step(record(1));
  const auto event = events_of(folder.path()).at(0);
  EXPECT_EQ(event["comm_bytes"]["gradients"], 7'200'000);
  EXPECT_EQ(event["comm_calls"]["gradients"], 3);
}

/// A row of the table of keys in docs/observability.md, in which a row has the form
/// | `a`, `b` | kinds | type | meaning |.
struct DocumentedKeys {
  std::string kinds, type;
};

std::map<std::string, DocumentedKeys> documented_keys() {
  std::map<std::string, DocumentedKeys> keys;
  const std::regex row(R"(\| (`[^|]*`) \| ([a-z, ]+) \| ([a-z0-9 ]+) \|.*)");
  bool here = false;
  for (const std::string& line : lines_of(PFC_SOURCE_DIR "/docs/observability.md")) {
    if (line.starts_with("## ")) here = line == "## metrics.jsonl";
    std::smatch cells;
    if (!here || !std::regex_match(line, cells, row)) continue;
    const std::string names = cells[1];
    const std::regex name("`([^`]+)`");
    for (std::sregex_iterator i(names.begin(), names.end(), name), end; i != end; ++i) {
      keys[(*i)[1]] = {cells[2], cells[3]};
    }
  }
  return keys;
}

std::string type_of(const nlohmann::json& value) {
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  return value.type_name();
}

TEST(TrainingLog, WritesTheKeysThatTheDocumentationLists) {
  const TemporaryFolder folder;
  TrainingLog log({.output = folder.path(), .global_batch = 64});
  write_every_kind(log);
  const auto documented = documented_keys();
  std::set<std::string> used;
  for (const auto& event : events_of(folder.path())) {
    const std::string kind = event["kind"];
    for (const auto& [key, value] : event.items()) {
      used.insert(key + " of " + kind);
      ASSERT_TRUE(documented.contains(key)) << key;
      EXPECT_EQ(type_of(value), documented.at(key).type) << key;
    }
  }
  std::set<std::string> expected;
  for (const auto& [key, row] : documented) {
    for (const char* kind : {"start", "step", "evaluation", "checkpoint", "end"}) {
      if (row.kinds == "all" || row.kinds.find(kind) != std::string::npos) {
        expected.insert(key + " of " + kind);
      }
    }
  }
  EXPECT_EQ(used, expected);
}

TEST(TrainingLog, KeepsTheFilesOfAnEarlierRunUnderOtherNames) {
  const TemporaryFolder folder;
  for (int run = 1; run <= 3; ++run) {
    TrainingLog log({.output = folder.path(), .global_batch = run});
    log.step(record(1));
    if (run == 2) std::ofstream(folder / "backbone.safetensors") << "model";
  }
  const std::string kept =
      "an earlier run's files are kept: training.log.old-2, metrics.jsonl.old-2, "
      "backbone.safetensors.old-2";
  EXPECT_EQ(lines_of(folder / "training.log").at(0).substr(34), kept);
  const std::map<std::string, int> runs{
      {"metrics.jsonl.old-1", 1}, {"metrics.jsonl.old-2", 2}, {"metrics.jsonl", 3}};
  for (const auto& [name, images] : runs) {
    const auto lines = lines_of(folder / name);
    ASSERT_EQ(lines.size(), 1U) << name;
    EXPECT_EQ(nlohmann::json::parse(lines[0])["images_seen"], images);
  }
}

TEST(TrainingLog, ReportsWhyItCannotBeWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "training.log");
  std::filesystem::create_symlink("metrics.jsonl", folder / "metrics.jsonl");
  const auto error_of = [&](std::int64_t images) {
    return testing::message_of<StorageError>(
        [&] { TrainingLog({.output = folder.path(), .start = testing::trained_with(1, images)}); });
  };
  EXPECT_THAT(error_of(64), ::testing::AllOf(::testing::HasSubstr("metrics.jsonl: cannot read: "),
                                             ::testing::HasSubstr("Too many levels")));
  std::filesystem::remove(folder / "metrics.jsonl");
  EXPECT_THAT(error_of(64), ::testing::HasSubstr("training.log: not a regular file but a folder"));
}

TEST(TrainingLog, DoesNotWaitForAFifo) {
  for (const char* name : {"training.log", "metrics.jsonl"}) {
    const TemporaryFolder folder;
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
    EXPECT_THAT(testing::message_of<StorageError>([&] {
                  TrainingLog({.output = folder.path(), .start = testing::trained_with(1, 64)});
                }),
                ::testing::HasSubstr(std::string(name) + ": not a regular file but a FIFO"));
  }
}

}  // namespace
}  // namespace pfc
