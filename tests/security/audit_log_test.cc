#include "security/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(Audit, WritesOneLineOfJsonForAnEvent) {
  const TemporaryFolder folder;
  {
    AuditLog log(folder.path());
    log.add({.what = "stop",
             .peer = "ipv4:10.0.0.2:4711",
             .identity = {.role = Role::kAdmin},
             .serial = "ab12",
             .detail = "forged\n{\"what\":\"nothing\"}\xff"});
  }
  const auto lines = lines_of(folder / "audit.jsonl");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["what"], "stop");
  EXPECT_EQ(lines[0]["result"], "ok");
  EXPECT_EQ(lines[0]["peer"], "ipv4:10.0.0.2:4711");
  EXPECT_EQ(lines[0]["role"], "admin");
  EXPECT_EQ(lines[0]["credential"], "ab12");
  EXPECT_EQ(lines[0]["detail"], "forged {\"what\":\"nothing\"}?");
  EXPECT_THAT(lines[0]["time"].get<std::string>(), ::testing::MatchesRegex("....-..-..T.*Z"));
  struct stat info {};
  ASSERT_EQ(stat((folder / "audit.jsonl").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST(Audit, StartsANewFileAfterTheOldFileWasRemoved) {
  const TemporaryFolder folder;
  {
    AuditLog log(folder.path());
    std::filesystem::remove(folder / "audit.jsonl");
    log.add({.what = "stop"});
  }
  EXPECT_EQ(lines_of(folder / "audit.jsonl").size(), 1U);
}

TEST(Audit, KeepsTwoFilesOfABoundedSize) {
  const TemporaryFolder folder;
  constexpr int kEvents = 900;
  {
    AuditLog log(folder.path(), 10'000);
    for (int i = 0; i < kEvents; ++i) log.add({.what = "register", .detail = std::to_string(i)});
  }
  const auto newest = lines_of(folder / "audit.jsonl"), older = lines_of(folder / "audit.jsonl.1");
  EXPECT_LE(std::filesystem::file_size(folder / "audit.jsonl"), 10'000U);
  EXPECT_LE(std::filesystem::file_size(folder / "audit.jsonl.1"), 10'000U);
  EXPECT_EQ(newest.back()["detail"], std::to_string(kEvents - 1));
  EXPECT_EQ(std::stoi(older.back()["detail"].get<std::string>()) + 1,
            std::stoi(newest.front()["detail"].get<std::string>()));
}

TEST(Audit, LimitsRefusalsPerSecondAndCountsTheRest) {
  const TemporaryFolder folder;
  {
    AuditLog log(folder.path());
    for (int i = 0; i < 500; ++i) log.add({.what = "join", .result = "denied", .refused = true});
    log.add({.what = "stop"});
    EXPECT_GE(log.dropped(), 500U - 2 * AuditLog::kMostRefusals);
  }
  const auto lines = lines_of(folder / "audit.jsonl");
  EXPECT_LE(lines.size(), 2U * AuditLog::kMostRefusals + 1);
  std::uint64_t left_out = 0;
  for (const json& line : lines) left_out += line.value("left_out_before", 0);
  EXPECT_EQ(left_out + lines.size(), 501U);
  EXPECT_EQ(lines.back()["what"], "stop");
}

TEST(Audit, RejectsAPipeAndALinkWithoutBlocking) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "audit.jsonl").c_str(), 0600), 0);
  EXPECT_THAT(message_of<StorageError>([&] { const AuditLog log(folder.path()); }),
              HasSubstr("audit.jsonl: expected a regular file of this user"));
  std::filesystem::remove(folder / "audit.jsonl");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "audit.jsonl");
  EXPECT_THROW(const AuditLog log(folder.path()), StorageError);
  EXPECT_FALSE(std::filesystem::exists(folder / "elsewhere"));
}

TEST(Audit, RemovesOtherUsersAccessFromAnExistingFile) {
  const TemporaryFolder folder;
  std::ofstream(folder / "audit.jsonl").close();
  std::filesystem::permissions(folder / "audit.jsonl", std::filesystem::perms{0644});
  const AuditLog log(folder.path());
  EXPECT_EQ(std::filesystem::status(folder / "audit.jsonl").permissions(),
            std::filesystem::perms{0600});
}

}  // namespace
}  // namespace pfc
