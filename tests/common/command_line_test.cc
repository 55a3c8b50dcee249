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

/// A program with options, and with two commands if `commands`.
class CommandLine : public ::testing::Test {
 protected:
  std::optional<int> parse(std::vector<std::string> words, bool commands = false) {
    CLI::App app("Tests command lines.", "tool");
    int workers = 0;
    app.add_option("--workers", workers);
    app.add_option("--timeout", timeout)->transform(duration());
    app.add_option("--grace", timeout)->transform(duration(true));
    app.add_option("--colour", colour)->transform(choice_of({"red", "green"}));
    CLI::Option* const config = app.add_option("--config", text);
    app.add_option("--address", text)->excludes(config);
    app.add_option("--rank", workers)->needs(config)->check(whole_number(0, 9));
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

  enum class Colour { kRed, kGreen };
  Colour colour = Colour::kRed;
  double timeout = 0;
  std::string text;
};

TEST_F(CommandLine, ReturnsNoExitCodeIfAllWordsAreKnown) {
  EXPECT_EQ(parse({"--workers", "2"}), std::nullopt);
}

TEST_F(CommandLine, AcceptsZeroDurationIfAllowed) {
  timeout = 7;
  parse({"--grace", "0"});
  EXPECT_EQ(timeout, 0);
  EXPECT_THAT(refusal({"--grace", "-1"}), HasSubstr("expected a time from 0 to a year"));
  EXPECT_THAT(refusal({"--timeout", "0"}), HasSubstr("expected a time from 1ms to a year"));
}

TEST_F(CommandLine, HelpAndVersionEndTheProgramWithSuccess) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"--version"}), kExitSuccess);
  EXPECT_EQ(parse({"--help"}), kExitSuccess);
  EXPECT_EQ(parse({"-h"}), kExitSuccess);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), StartsWith("0.1.0\n"));
}

TEST_F(CommandLine, SuggestsTheNearestOption) {
  EXPECT_EQ(
      refusal({"--wokers=2"}),
      "unknown option --wokers; did you mean --workers? (tool --help lists commands and options)");
  EXPECT_THAT(refusal({"--bogus"}), StartsWith("unknown option --bogus (tool --help"));
  EXPECT_THAT(refusal({"check", "--jsn"}, true),
              StartsWith("unknown option --jsn; did you mean --json? (tool check --help"));
}

TEST_F(CommandLine, SuggestsTheNearestCommand) {
  EXPECT_THAT(refusal({"stats"}, true), StartsWith("unknown command stats; did you mean status?"));
}

TEST_F(CommandLine, SuggestsCommandsForTheNamesThatOtherProgramsUse) {
  EXPECT_THAT(refusal({"ps"}, true), StartsWith("unknown command ps; did you mean status?"));
  EXPECT_THAT(refusal({"cancel"}, true), ::testing::Not(HasSubstr("stop"))) << "no such command";
}

TEST_F(CommandLine, HelpShowsDurations) {
  ::testing::internal::CaptureStdout();
  parse({"--help"});
  const std::string help = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(help, HasSubstr("--timeout DURATION"));
  EXPECT_THAT(help, HasSubstr("--grace DURATION"));
}

TEST_F(CommandLine, NamesTheOptionWhoseValueIsWrong) {
  EXPECT_THAT(refusal({"--workers", "many"}), HasSubstr("--workers"));
  EXPECT_THAT(refusal({"--color", "pink"}), HasSubstr("--color"));
}

TEST_F(CommandLine, ReportsWhatWasFoundAndExpected) {
  const std::string help = " (tool --help lists commands and options)";
  EXPECT_EQ(refusal({"--workers", "many"}),
            "--workers: found 'many', expected a whole number" + help);
  EXPECT_EQ(refusal({"--workers"}), "--workers: found nothing, expected a value" + help);
  EXPECT_EQ(refusal({"--workers", "1", "--workers", "2"}),
            "--workers is given more than once" + help);
  EXPECT_EQ(refusal({"--rank", "10", "--config", "x"}),
            "--rank: found '10', expected a whole number from 0 to 9" + help);
  EXPECT_EQ(refusal({"--rank", "1"}), "--rank needs --config as well" + help);
  EXPECT_EQ(refusal({"--address", "x", "--config", "y"}),
            "--config and --address cannot be given together" + help);
  EXPECT_EQ(refusal({"--color", "pink"}),
            "--color: found 'pink', expected one of auto, always, never" + help);
  EXPECT_EQ(refusal({}, true), "a command is missing" + help);
}

TEST_F(CommandLine, ShowsEmptyArgumentsInQuotationMarks) {
  EXPECT_THAT(refusal({""}), StartsWith("unexpected argument '' (tool"));
  EXPECT_THAT(refusal({""}, true), StartsWith("unknown command '' (tool"));
  EXPECT_THAT(refusal({"--config", ""}), StartsWith("--config: found '', expected a value"));
  EXPECT_THAT(refusal({"--workers", ""}), StartsWith("--workers: found '', expected a"));
}

TEST_F(CommandLine, AcceptsOptionsOfTheProgramAfterACommand) {
  EXPECT_EQ(parse({"status", "--color", "auto", "--config", "x"}, true), std::nullopt);
  EXPECT_EQ(text, "x");
  EXPECT_THAT(refusal({"status", "--colr=auto"}, true),
              StartsWith("unknown option --colr; did you mean --color? (tool status --help"));
}

TEST_F(CommandLine, ReportsThatAnOptionBelongsAfterItsCommand) {
  EXPECT_THAT(refusal({"--json", "check"}, true),
              StartsWith("option --json must come after the command: tool check --json (tool"));
}

TEST_F(CommandLine, AcceptsTheWordsOfAnEnumeration) {
  parse({"--colour", "green"});
  EXPECT_EQ(colour, Colour::kGreen);
  EXPECT_EQ(
      refusal({"--colour", "1"}),
      "--colour: found '1', expected one of red, green (tool --help lists commands and options)");
}

TEST_F(CommandLine, AcceptsDurationsWithUnits) {
  for (const auto& [given, seconds] : std::vector<std::pair<std::string, double>>{
           {"70", 70}, {"2.5s", 2.5}, {"500ms", 0.5}, {"2min", 120}, {"1h", 3600}}) {
    parse({"--timeout", given});
    EXPECT_EQ(timeout, seconds) << given;
  }
  for (const char* wrong :
       {"0", "-1", "0.0001", "1e300h", "inf", "nan", "", "soon", "5 parsec", "5d", "h"}) {
    EXPECT_THAT(refusal({"--timeout", wrong}), HasSubstr("--timeout: found '")) << wrong;
  }
  EXPECT_THAT(refusal({"--timeout", "1e300h"}),
              StartsWith("--timeout: found '1e300h', expected a time from 1ms to a year"));
}

TEST(HostAndPort, RejectsMalformedAddresses) {
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

TEST(RunProgram, ConvertsAnErrorToOneLineAndAnExitCode) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("tool", []() -> int { throw InputError("--x: found 1"); }), kExitBadInput);
  EXPECT_EQ(run_program("tool", []() -> int { throw CommError("no answer"); }), kExitFailed);
  EXPECT_EQ(run_program("tool", [] { return 5; }), 5);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tool: error: --x: found 1\ntool: error: no answer\n");
}

TEST(RunProgram, ReportsOutOfMemoryInOneLine) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("tool", []() -> int { throw std::bad_alloc(); }), kExitFailed);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              StartsWith("tool: error: out of memory; end other programs"));
}

TEST(RunProgram, ReportsTheFileSizeLimitAsAWriteError) {
  EXPECT_EQ(run_program("tool", [] { return ::raise(SIGXFSZ); }), 0);
}

}  // namespace
}  // namespace pfc
