// Tests what the page at / can request, and which roles may do so.
#include "coordinator/web/actions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "coordinator/web/assets.h"
#include "coordinator/web/live/live_state.h"
#include "coordinator/web/pages.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/coordinator/text_output.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kJob = "0123456789abcdef";

class ActionsOfThePage : public ::testing::Test {
 protected:
  ActionsOfThePage() {
    coordinator.jobs().add({.id = kJob, .file = "job.json", .json = R"({"network":"r18"})"});
    coordinator.start("127.0.0.1:1");
  }

  HttpReply asks(const std::string& path, const std::string& body = {}, Role role = Role::kAdmin) {
    HttpReply got{.status = 0};
    pages.site().handler(
        {.post = !body.empty(),
         .path = path.substr(0, path.find('?')),
         .query = path.find('?') == path.npos ? "" : path.substr(path.find('?') + 1),
         .body = body,
         .caller = {.peer = "127.0.0.1:4711", .identity = {.role = role}}},
        [&](HttpReply reply) { got = std::move(reply); });
    return got;
  }
  /// Waits until the audit log, which has its own thread, contains this text.
  void is_audited(const std::string& text) {
    testing::wait_until([&] {
      std::ifstream file(folder / "state" / "audit.jsonl");
      const std::string all{std::istreambuf_iterator<char>(file), {}};
      return all.find(text) != std::string::npos;
    });
  }

  TemporaryFolder folder;
  Gate gate{{.state_dir = folder / "state"}};
  boost::asio::io_context loop;
  testing::TextOutput output;
  Terminal terminal{output, false};
  std::optional<Verdict> verdict;
  Coordinator coordinator{
      loop, {.hosts = {{.name = "a", .slots = 1}}}, terminal, [this](const Verdict& end) {
        verdict = end;
      }};
  Pages pages{loop, coordinator, &gate,
              [this](const HttpRequest& request) { return serve_page(coordinator, request.path); }};
};

TEST_F(ActionsOfThePage, ReportTheRightsOfAReader) {
  EXPECT_THAT(asks("/api/me").body,
              AllOf(HasSubstr(R"("role":"admin")"), HasSubstr(R"("may_stop":true)")));
  EXPECT_THAT(asks("/api/me", {}, Role::kReader).body,
              AllOf(HasSubstr(R"("may_stop":false)"), HasSubstr(R"("may_read_logs":false)")));
}

TEST_F(ActionsOfThePage, StopTheJobAndAreAudited) {
  const HttpReply reply = asks("/api/stop", R"({"job":"0123456789abcdef"})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_THAT(reply.body, HasSubstr(kJob));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, Verdict::Kind::kStopped);
  EXPECT_THAT(verdict->message, HasSubstr("the page at / (127.0.0.1:4711)"));
  is_audited(R"("what":"stop")");
}

TEST_F(ActionsOfThePage, AreRefusedToReaders) {
  for (const char* path : {"/api/stop", "/api/drain"}) {
    EXPECT_EQ(asks(path, R"({"job":"0123456789abcdef","host":"a"})", Role::kReader).status, 403);
  }
  EXPECT_EQ(asks("/api/log?rank=0", {}, Role::kReader).status, 403);
  EXPECT_FALSE(verdict);
  EXPECT_THAT(coordinator.status().state(), "waiting");
  is_audited("wrong_role");
}

TEST_F(ActionsOfThePage, StopOnlyTheJobThatTheRequestNames) {
  const HttpReply reply = asks("/api/stop", R"({"job":"fedcba9876543210"})");
  EXPECT_EQ(reply.status, 409) << reply.body;
  EXPECT_FALSE(verdict);
}

TEST_F(ActionsOfThePage, AreNotAvailableByGet) {
  EXPECT_EQ(asks("/api/stop").status, 404);
  EXPECT_FALSE(verdict);
}

TEST_F(ActionsOfThePage, AnswerAnInvalidRequestWithAnError) {
  EXPECT_THAT(asks("/api/stop", "nonsense").body, HasSubstr("error"));
  EXPECT_EQ(asks("/api/stop", "[]").status, 400);
  EXPECT_EQ(asks("/api/stop", R"({"job":7})").status, 400);
  EXPECT_EQ(asks("/api/stop", std::string(10'000, '[')).status, 400);
  EXPECT_EQ(asks("/api/log?rank=x").status, 400);
  EXPECT_EQ(asks("/api/log?rank=99999999999999999999").status, 400);
  EXPECT_EQ(asks("/api/log?rank=4294967296").status, 400) << "2^32 must not become rank 0";
  EXPECT_EQ(asks("/api/nothing").status, 404);
}

TEST_F(ActionsOfThePage, DrainOnlyAKnownHost) {
  EXPECT_EQ(asks("/api/drain", R"({"job":"0123456789abcdef","host":"a"})").status, 200);
  is_audited(R"("what":"drain")");
  EXPECT_EQ(asks("/api/drain", R"({"job":"0123456789abcdef","host":"b"})").status, 400);
  EXPECT_EQ(asks("/api/drain", R"({"job":"fedcba9876543210","host":"a"})").status, 409);
}

TEST_F(ActionsOfThePage, ReturnAnEmptyLogBeforeAnyWorkerHasRun) {
  EXPECT_THAT(asks("/api/log?rank=0&part=-1&offset=100").body, HasSubstr(R"("text":"")"));
}

TEST_F(ActionsOfThePage, ParseQueryValues) {
  EXPECT_EQ(query_value("rank=0&part=1", "part"), "1");
  EXPECT_EQ(query_value("rank=0&part=1", "par"), "");
  EXPECT_EQ(query_value("rank", "rank"), "");
  EXPECT_EQ(query_value("", "rank"), "");
  EXPECT_EQ(query_value("&&=&rank=1", "rank"), "1");
}

TEST_F(ActionsOfThePage, ShareTheServerWithThePagesFilesAndMetrics) {
  const HttpReply page = asks("/");
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("/assets/page.js"));
  EXPECT_EQ(asks("/assets/uPlot.iife.min.js").status, 200);
  EXPECT_EQ(asks("/assets/../gate.cc").status, 404);
  EXPECT_EQ(asks("/assets/").status, 404);
  EXPECT_THAT(asks("/metrics").body, HasSubstr("pfc_build_info"));
}

TEST_F(ActionsOfThePage, FilesAreNotSentAgainIfCached) {
  const Asset& asset = assets().front();
  const auto reply = serve_asset({.path = "/assets/" + std::string(asset.name),
                                  .if_none_match = "W/\"0\", " + std::string(asset.etag)});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 304);
  EXPECT_THAT(reply->body, IsEmpty());
}

TEST_F(ActionsOfThePage, FilesHaveNoExternalReferences) {
  for (const Asset& asset : assets()) {
    if (asset.name.starts_with("uPlot")) continue;
    EXPECT_THAT(std::string(asset.contents), Not(HasSubstr("innerHTML"))) << asset.name;
    EXPECT_THAT(std::string(asset.contents), Not(HasSubstr("https://"))) << asset.name;
    EXPECT_THAT(std::string(asset.contents), Not(HasSubstr("style=\""))) << asset.name;
  }
}

TEST_F(ActionsOfThePage, SendTheWholeStateFirstAndThenChanges) {
  LiveState state(coordinator);
  EXPECT_THAT(state.all(), AllOf(HasSubstr(R"("whole":true)"), HasSubstr(R"("network":"r18")")));
  const auto first = LiveJson::parse(state.changes());
  EXPECT_TRUE(first.contains("status"));
  EXPECT_TRUE(first.contains("curves"));
  const std::string second = state.changes();
  EXPECT_THAT(second, Not(HasSubstr("\"plan\"")));
  coordinator.stop("a person", false);
  const auto third = LiveJson::parse(state.changes());
  EXPECT_EQ(third["status"]["state"], "stopped");
  EXPECT_EQ(third["events"].back()["kind"], "job");
}

}  // namespace
}  // namespace pfc
