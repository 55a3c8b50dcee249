#include "coordinator/terminal/background_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "common/files/fd.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Kind = Output::Kind;

/// A pipe that the test reads on demand.
class Reader {
 public:
  Reader() {
    std::signal(SIGPIPE, SIG_IGN);  // as in the coordinator
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    reading_ = Fd(ends[0]);
    writing_ = Fd(ends[1]);
  }

  [[nodiscard]] int fd() const { return writing_; }
  void close_writing() { writing_.reset(); }
  void leave() { reading_.reset(); }

  /// Reads up to and including a text, which must arrive.
  std::string read_until(const std::string& text) {
    std::string all;
    std::array<char, 65'536> buffer;
    while (all.find(text) == std::string::npos) {
      const ssize_t count = read(reading_, buffer.data(), buffer.size());
      if (count <= 0) break;
      all.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  Fd writing_, reading_;
};

const std::string kLine = std::string(99, 'x') + "\n";

/// Writes more than the buffer and a pipe hold.
void flood(BackgroundOutput& output, Kind kind = Kind::kWorkerStdout) {
  for (std::size_t bytes = 0; bytes < 3 * BackgroundOutput::kMaxBytes; bytes += kLine.size()) {
    output.write(kind, kLine);
  }
}

TEST(BackgroundOutput, WritesEachStreamToItsDescriptor) {
  Reader out, err;
  BackgroundOutput output(out.fd(), err.fd());
  output.write(Kind::kWorkerStdout, "step 1\n");
  output.write(Kind::kWorkerStderr, "careful\n");
  output.write(Kind::kMessage, "pfc-coordinator: training\n");
  EXPECT_TRUE(output.finish(10s));
  EXPECT_EQ(out.read_until("\n"), "step 1\n");
  EXPECT_EQ(err.read_until("training\n"), "careful\npfc-coordinator: training\n");
}

TEST(BackgroundOutput, KeepsTheOrderIfBothStreamsAreOneFile) {
  Reader both;
  const int again = dup(both.fd());
  {
    BackgroundOutput output(both.fd(), again);
    std::string expected;
    for (int i = 0; i < 1'000; ++i) {
      const std::string line = std::to_string(i) + "\n";
      output.write(i % 2 == 0 ? Kind::kWorkerStdout : Kind::kMessage, line);
      expected += line;
    }
    EXPECT_TRUE(output.finish(10s));
    EXPECT_EQ(both.read_until("\n999\n"), expected);
  }
  close(again);
}

TEST(BackgroundOutput, DropsAndCountsUnreadLines) {
  Reader out, err;
  BackgroundOutput output(out.fd(), err.fd());
  flood(output);  // returns although the output is not read
  const std::uint64_t dropped = output.dropped_lines();
  EXPECT_GT(dropped, 0U);
  std::string read;
  std::thread reader([&] { read = out.read_until("of output that was not read\n"); });
  EXPECT_TRUE(output.finish(10s));
  reader.join();
  EXPECT_THAT(read, StartsWith(kLine));
  EXPECT_THAT(read, EndsWith(kLine + "pfc-coordinator: warning: dropped here: " +
                             std::to_string(dropped) + " lines of output that was not read\n"));
}

TEST(BackgroundOutput, WritesTheWholeResultHoweverLateItIsRead) {
  Reader out, err;
  BackgroundOutput output(out.fd(), err.fd());
  std::string result;
  while (result.size() < 2 * BackgroundOutput::kMaxBytes) result += kLine;
  std::thread writer([&] {
    output.write_result(result);
    output.write_result("end\n");
  });
  EXPECT_EQ(out.read_until("end\n"), result + "end\n");
  writer.join();
  out.leave();
  output.write_result("not read\n");  // returns although nobody reads it
}

TEST(BackgroundOutput, WritesStderrWhileStdoutIsNotRead) {
  Reader out, err;
  BackgroundOutput output(out.fd(), err.fd());
  flood(output);
  output.write(Kind::kMessage, "pfc-coordinator: job completed\n");
  EXPECT_EQ(err.read_until("\n"), "pfc-coordinator: job completed\n");
  out.leave();
}

TEST(BackgroundOutput, KeepsMessagesIfWorkersFillThePipe) {
  Reader both;
  const int again = dup(both.fd());
  {
    BackgroundOutput output(both.fd(), again);
    flood(output);
    output.write(Kind::kMessage, "pfc-coordinator: job completed\n");
    EXPECT_THAT(both.read_until("job completed\n"), HasSubstr("pfc-coordinator: job completed\n"));
  }
  close(again);
}

TEST(BackgroundOutput, GivesUpAtTheEndIfTheOutputIsNotRead) {
  Reader out, err;
  BackgroundOutput output(out.fd(), err.fd());
  flood(output);
  EXPECT_FALSE(output.finish(10ms));
  out.leave();
}

TEST(BackgroundOutput, ContinuesAfterTheReaderHasGone) {
  Reader out, err;
  BackgroundOutput output(out.fd(), err.fd());
  out.leave();
  output.write(Kind::kWorkerStdout, "step 1\n");
  EXPECT_TRUE(output.finish(10s));
  EXPECT_EQ(output.dropped_lines(), 1U);
}

TEST(BackgroundOutput, WaitsForAReaderThatHasMadeThePipeNonBlocking) {
  Reader out, err;
  fcntl(out.fd(), F_SETFL, O_NONBLOCK);
  BackgroundOutput output(out.fd(), err.fd());
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += kLine;
  output.write(Kind::kWorkerStdout, text);
  output.write(Kind::kWorkerStdout, "end\n");
  EXPECT_EQ(out.read_until("end\n"), text + "end\n");
}

}  // namespace
}  // namespace pfc
