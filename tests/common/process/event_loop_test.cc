#include "common/process/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/process/stop_signals.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;

TEST(EventLoop, ContinuesAfterAnException) {
  boost::asio::io_context loop;
  std::vector<std::string> told;
  boost::asio::post(loop, [] { throw std::runtime_error("first"); });
  boost::asio::post(loop, [&] { told.emplace_back("done"); });
  run_event_loop(loop, [&](const std::string& what) { told.push_back(what); });
  EXPECT_THAT(told, ElementsAre("first", "done"));
}

TEST(EventLoop, EndsAfterTooManyExceptions) {
  boost::asio::io_context loop;
  std::function<void()> fail = [&] {
    boost::asio::post(loop, fail);
    throw std::runtime_error("broken");
  };
  boost::asio::post(loop, fail);
  int told = 0;
  EXPECT_THROW(run_event_loop(loop, [&](const std::string&) { ++told; }), std::runtime_error);
  EXPECT_EQ(told, kMostFailures);
}

/// Returns the signals that a loop receives before SIGTERM.
std::vector<int> signals_of(const std::vector<int>& sent) {
  boost::asio::io_context loop;
  std::vector<int> got;
  const StopSignals signals(loop, [&](int number, bool again) {
    got.push_back(again ? -number : number);
    if (number == SIGTERM) loop.stop();
  });
  for (const int number : sent) {
    std::raise(number);
    loop.poll();
  }
  loop.run();
  return got;
}

TEST(StopSignals, DistinguishesTheFirstSignalFromLaterSignals) {
  EXPECT_THAT(signals_of({SIGINT, SIGTERM}), ElementsAre(SIGINT, -SIGTERM));
}

TEST(StopSignals, HandlesSighupUnlessItIsIgnored) {
  std::signal(SIGHUP, SIG_DFL);
  EXPECT_THAT(signals_of({SIGHUP, SIGTERM}), ElementsAre(SIGHUP, -SIGTERM));
}

TEST(StopSignals, LeavesSighupIgnoredAsNohupDoes) {
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_THAT(signals_of({SIGHUP, SIGTERM}), ElementsAre(SIGTERM));
  std::signal(SIGHUP, SIG_DFL);
}

}  // namespace
}  // namespace pfc
