#include "common/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <new>
#include <vector>

#include "common/error.h"
#include "common/exit_codes.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A program with an option, and with two commands where `commands`.
class CommandLine : public ::testing::Test {
 protected:
  std::optional<int> parse(std::vector<std::string> words, bool commands = false) {
    CLI::App app("Tests command lines.", "tool");
    int workers = 0;
    app.add_option("--workers", workers);
    if (commands) {
      app.require_subcommand(1);
      app.add_subcommand("check")->add_flag("--json");
      app.add_subcommand("status");
    }
    words.insert(words.begin(), "tool");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return parse_command_line(app, static_cast<int>(argv.size()), argv.data());
  }

  std::string refusal(const std::vector<std::string>& words, bool commands = false) {
    return testing::message_of<InputError>([&] { parse(words, commands); });
  }
};

TEST_F(CommandLine, LeavesTheRestToTheProgramWhenAllIsKnown) {
  EXPECT_EQ(parse({"--workers", "2"}), std::nullopt);
}

TEST_F(CommandLine, IsDoneAfterHelpAndVersion) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"--version"}), kExitSuccess);
  EXPECT_EQ(parse({"--help"}), kExitSuccess);
  EXPECT_EQ(parse({"-h"}), kExitSuccess);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), StartsWith("0.1.0\n"));
}

TEST_F(CommandLine, SuggestsTheNearestOption) {
  EXPECT_EQ(refusal({"--wokers=2"}),
            "unknown option --wokers; did you mean --workers? (tool --help lists what there is)");
  EXPECT_THAT(refusal({"--bogus"}), StartsWith("unknown option --bogus (tool --help"));
  EXPECT_THAT(refusal({"check", "--jsn"}, true),
              StartsWith("unknown option --jsn; did you mean --json? (tool check --help"));
}

TEST_F(CommandLine, SuggestsTheNearestCommand) {
  EXPECT_THAT(refusal({"stats"}, true), StartsWith("unknown command stats; did you mean status?"));
}

TEST_F(CommandLine, NamesTheOptionWhoseValueIsWrong) {
  EXPECT_THAT(refusal({"--workers", "many"}), HasSubstr("--workers"));
  EXPECT_THAT(refusal({"--color", "pink"}), HasSubstr("--color"));
}

TEST(HostAndPort, RefusesWhatIsNoAddress) {
  for (const char* wrong : {"", "localhost", ":7450", "localhost:", "localhost:abc", "localhost:0",
                            "127.0.0.1:72986", "127.0.0.1:99999999999"}) {
    std::string text = wrong;
    EXPECT_THAT(host_and_port()(text), HasSubstr("expected HOST:PORT")) << wrong;
  }
  for (const char* right : {"localhost:7450", "[::1]:65535"}) {
    std::string text = right;
    EXPECT_EQ(host_and_port()(text), "");
  }
}

TEST(PositiveSeconds, RefusesZeroNegativeAndEndlessTimes) {
  for (const char* wrong : {"0", "-1", "1e30", "inf", "nan", "", "soon"}) {
    std::string text = wrong;
    EXPECT_THAT(positive_seconds()(text), HasSubstr("expected seconds above 0")) << wrong;
  }
  std::string right = "0.5";
  EXPECT_EQ(positive_seconds()(right), "");
}

TEST(RunProgram, TurnsAnErrorIntoOneLineAndAnExitCode) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("tool", []() -> int { throw InputError("--x: found 1"); }), kExitBadInput);
  EXPECT_EQ(run_program("tool", []() -> int { throw CommError("no answer"); }), kExitFailed);
  EXPECT_EQ(run_program("tool", [] { return 5; }), 5);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tool: error: --x: found 1\ntool: error: no answer\n");
}

TEST(RunProgram, SaysInOneLineThatThereIsNoMemory) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("tool", []() -> int { throw std::bad_alloc(); }), kExitFailed);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              StartsWith("tool: error: out of memory: the system gives this process no more"));
}

TEST(RunProgram, MakesAFileAtItsSizeLimitAnErrorOfTheWrite) {
  EXPECT_EQ(run_program("tool", [] { return ::raise(SIGXFSZ); }), 0);
}

}  // namespace
}  // namespace pfc
