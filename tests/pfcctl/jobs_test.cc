#include "pfcctl/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pfc {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json absolute(Json job) {
  make_paths_absolute(job, "/home/me");
  return job;
}

TEST(PathsOfAJob, AreResolvedInTheFolderOfTheCaller) {
  EXPECT_EQ(absolute({{"rec", "../data"}, {"output", "out/1"}, {"init_from", "/a/b"}}),
            Json({{"rec", "/home/data"}, {"output", "/home/me/out/1"}, {"init_from", "/a/b"}}));
}

TEST(PathsOfAJob, AreAllMadeAbsolute) {
  EXPECT_EQ(absolute({{"rec", {"a", "/b"}},
                      {"identities", {"", "n.txt"}},
                      {"overlay", "o.jsonl"},
                      {"stage", "fast"},
                      {"teacher", "t.pt"},
                      {"output", "o"}}),
            Json({{"rec", {"/home/me/a", "/b"}},
                  {"identities", {"", "/home/me/n.txt"}},
                  {"overlay", "/home/me/o.jsonl"},
                  {"stage", "/home/me/fast"},
                  {"teacher", "/home/me/t.pt"},
                  {"output", "/home/me/o"}}));
}

TEST(PathsOfAJob, IncludeTheDefaultOutput) {
  EXPECT_EQ(absolute(Json::object())["output"], "/home/me/work_dirs/job");
}

TEST(PathsOfAJob, KeepNamesOfVerificationSets) {
  EXPECT_EQ(absolute({{"val_targets", {"lfw", "sets/agedb.bin"}}})["val_targets"],
            Json({"lfw", "/home/me/sets/agedb.bin"}));
}

TEST(PathsOfAJob, KeepValuesThatAreNotPaths) {
  EXPECT_EQ(absolute({{"rec", 3}, {"init_from", ""}, {"val_targets", "lfw"}})["rec"], 3);
}

TEST(QueueText, ShowsEachJobAndWhyNoneRuns) {
  proto::QueueReply queue;
  proto::JobStatus& job = *queue.add_jobs();
  job.set_job_id("0123456789abcdef");
  job.set_state("waiting");
  job.set_file("job.json");
  job.set_name("night run\n\033[2J");
  job.set_output("/out");
  queue.set_reason("1 job in the queue; waiting for b to register");
  queue.set_refused(2);
  const std::string text = queue_text(queue);
  EXPECT_THAT(text, HasSubstr("0123456789abcdef  waiting "));
  EXPECT_THAT(text,
              HasSubstr("night run  [2J, /out\n2 refused\n1 job in the queue; waiting for b"));
  const auto json = queue_json(queue)["jobs"][0];
  EXPECT_EQ(json["started"], nullptr);
  EXPECT_EQ(json["output"], "/out");
}

}  // namespace
}  // namespace pfc
