#include "coordinator/program/join_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class JoinFileTest : public ::testing::Test {
 protected:
  JoinFile::Options options(const std::filesystem::path& path) {
    return {.path = path,
            .renewed_after = 1ms,
            .make = [this] { return "string " + std::to_string(++made); },
            .warn = [this](const std::string& line) { warnings.push_back(line); }};
  }
  static std::string line_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
  }
  template <typename Condition>
  void run_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!condition() && std::chrono::steady_clock::now() < deadline) loop.run_one_for(100ms);
    EXPECT_TRUE(condition());
  }

  TemporaryFolder folder;
  boost::asio::io_context loop;
  std::atomic<int> made{0};
  std::vector<std::string> warnings;
};

TEST_F(JoinFileTest, ExistsAsLongAsTheCoordinator) {
  {
    const JoinFile file(loop, options(folder / "join"));
    EXPECT_EQ(line_of(folder / "join"), "string 1");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "join"));
}

TEST_F(JoinFileTest, RemovesOnlyItsOwnFile) {
  {
    JoinFile::Options rarely = options(folder / "join");
    rarely.renewed_after = 1h;
    const JoinFile file(loop, rarely);
    std::ofstream(folder / "join") << "somebody's";
  }
  EXPECT_EQ(line_of(folder / "join"), "somebody's");
}

TEST_F(JoinFileTest, IsRenewedBeforeItsTokenExpires) {
  const JoinFile file(loop, options(folder / "join"));
  run_until([&] { return made >= 3 && line_of(folder / "join") != "string 1"; });
}

TEST_F(JoinFileTest, WarnsIfItCannotBeRenewed) {
  std::filesystem::create_directory(folder / "there");
  const JoinFile file(loop, options(folder / "there" / "join"));
  std::filesystem::remove_all(folder / "there");
  run_until([&] { return !warnings.empty(); });
  EXPECT_THAT(warnings.front(), HasSubstr("its token may expire"));
}

TEST_F(JoinFileTest, NamesItsOptionIfItCannotBeWritten) {
  EXPECT_THAT(testing::message_of<StorageError>(
                  [&] { const JoinFile file(loop, options(folder / "none" / "join")); }),
              AllOf(HasSubstr("none/join"), HasSubstr("--join-file"),
                    ::testing::Not(HasSubstr("--state-dir"))));
}

}  // namespace
}  // namespace pfc
