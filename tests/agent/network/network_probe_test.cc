// Tests agents that measure the network, over the loopback interface.
#include "agent/network/network_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "agent/network/hello.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

const std::string kMeasurementSecret = "the secret of this measurement";

/// A network probe with a way to wait for its reports.
class Host {
 public:
  explicit Host(int number) : number_(number) {}

  proto::NetworkReport answers(const std::vector<proto::NetworkTest>& tests = {}, int step = 1,
                               const std::string& measurement = "one") {
    probe_.step(this->step(tests, step, measurement));
    return next_report();
  }

  proto::NetworkStep step(const std::vector<proto::NetworkTest>& tests, int number,
                          const std::string& measurement = "one") const {
    proto::NetworkStep step;
    step.set_measurement(measurement);
    step.set_number(number);
    step.set_secret(kMeasurementSecret);
    step.set_host(number_);
    step.set_limit_ms(10'000);
    for (const proto::NetworkTest& test : tests) *step.add_tests() = test;
    return step;
  }

  proto::NetworkReport next_report() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !reports_.empty(); });
    const proto::NetworkReport report = reports_.front();
    reports_.pop_front();
    return report;
  }

  NetworkProbe& probe() { return probe_; }

 private:
  const int number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<proto::NetworkReport> reports_;
  NetworkProbe probe_{[this](const proto::NetworkReport& report) {
    {
      const std::lock_guard lock(mutex_);
      reports_.push_back(report);
    }
    changed_.notify_all();
  }};
};

proto::NetworkTest to(int host, int port, bool transfer = false) {
  proto::NetworkTest test;
  test.set_to_host(host);
  test.set_from("127.0.0.1");
  test.set_to("127.0.0.1");
  test.set_port(port);
  test.set_transfer(transfer);
  return test;
}

int unused_port() {
  asio::io_context loop;
  return tcp::acceptor(loop, {tcp::v4(), 0}).local_endpoint().port();
}

TEST(NetworkProbe, ConnectsToTheProbeOfAnotherHost) {
  Host a(0), b(1);
  const int port = b.answers().port();
  const proto::NetworkReport report = a.answers({to(1, port)});
  EXPECT_EQ(report.measurement(), "one");
  EXPECT_EQ(report.number(), 1);
  ASSERT_EQ(report.results_size(), 1);
  EXPECT_EQ(report.results(0).error(), "");
}

TEST(NetworkProbe, MeasuresASpeed) {
  Host a(0), b(1);
  const int port = b.answers().port();
  const proto::NetworkReport report = a.answers({to(1, port, true), to(1, port, true)});
  ASSERT_EQ(report.results_size(), 2);
  for (const proto::NetworkResult& result : report.results()) {
    EXPECT_EQ(result.error(), "");
    EXPECT_GT(result.bits_per_second(), 1e6);
  }
}

TEST(NetworkProbe, ReportsWhyATestFailed) {
  Host a(0);
  proto::NetworkTest from_nowhere = to(1, 1), to_nowhere = to(1, 1);
  from_nowhere.set_from("192.0.2.1");
  to_nowhere.set_to("nowhere");
  const auto report = a.answers({to(1, unused_port()), from_nowhere, to_nowhere});
  EXPECT_EQ(report.results(0).error(), "Connection refused");
  EXPECT_EQ(report.results(1).error(), "Cannot assign requested address");
  EXPECT_EQ(report.results(2).error(), "Invalid argument");
}

TEST(NetworkProbe, RejectsAConnectionToTheWrongHost) {
  Host a(0), b(1);
  const int port = b.answers().port();
  EXPECT_EQ(a.answers({to(2, port)}).results(0).error(), "another program answers at this address");
}

TEST(NetworkProbe, RejectsUnauthenticatedAnswers) {
  asio::io_context loop;
  tcp::acceptor stranger(loop, {tcp::v4(), 0});
  Host a(0);
  a.probe().step(a.step({to(1, stranger.local_endpoint().port())}, 1));
  tcp::socket socket = stranger.accept();
  std::array<char, kHelloBytes> hello{};
  asio::read(socket, asio::buffer(hello));
  asio::write(socket, asio::buffer(std::string(kAnswerBytes, 'x')));
  EXPECT_EQ(a.next_report().results(0).error(), "another program answers at this address");
}

TEST(NetworkProbe, GivesUpAnAddressThatDoesNotAnswer) {
  asio::io_context loop;
  tcp::acceptor silent(loop, {tcp::v4(), 0});
  Host a(0);
  EXPECT_EQ(a.answers({to(1, silent.local_endpoint().port())}).results(0).error(),
            "Connection timed out");
}

/// Returns the number of bytes that a stranger receives after sending `words`.
std::size_t bytes_for(const std::string& words, int port) {
  asio::io_context loop;
  tcp::socket socket(loop);
  socket.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)});
  asio::write(socket, asio::buffer(words));
  std::array<char, 100> answer{};
  boost::system::error_code end;
  return asio::read(socket, asio::buffer(answer), end);
}

TEST(NetworkProbe, IgnoresUnauthenticatedPeers) {
  Host a(0);
  const int port = a.answers().port();
  EXPECT_EQ(bytes_for(std::string(kHelloBytes, 'x'), port), 0U);
  EXPECT_EQ(bytes_for(make_hello("another secret", {.to_host = 0}), port), 0U);
  EXPECT_EQ(bytes_for("GET / HTTP/1.1\r\n\r\n", port), 0U) << "expected a close without a reply";
  EXPECT_EQ(bytes_for(make_hello(kMeasurementSecret, {.to_host = 0}), port), kAnswerBytes);
}

TEST(NetworkProbe, AcceptsPeersDespiteManyUnauthenticatedConnections) {
  Host a(0), b(1);
  const int port = b.answers().port();
  asio::io_context loop;
  std::vector<tcp::socket> crowd;
  for (int i = 0; i < ProbeListener::kMostVisitors + 50; ++i) {
    crowd.emplace_back(loop).connect(
        {asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)});
  }
  EXPECT_EQ(a.answers({to(1, port)}).results(0).error(), "");
}

TEST(NetworkProbe, RunsMoreTestsThanItsConcurrencyLimit) {
  Host a(0), b(1);
  const int port = b.answers().port();
  const std::vector<proto::NetworkTest> tests(NetworkTests::kAtOnce + 100, to(1, port));
  const proto::NetworkReport report = a.answers(tests);
  EXPECT_EQ(std::ranges::count(report.results(), "", &proto::NetworkResult::error),
            std::ssize(tests));
}

TEST(NetworkProbe, SendsTheSameReportAgainForARepeatedStep) {
  Host a(0), b(1);
  const int port = b.answers().port();
  const proto::NetworkReport first = a.answers({to(1, port, true)});
  const proto::NetworkReport again = a.answers({to(1, port, true)});
  EXPECT_EQ(first.SerializeAsString(), again.SerializeAsString());
}

TEST(NetworkProbe, ListensOnTheSamePortInTheNextStep) {
  Host a(0);
  EXPECT_EQ(a.answers().port(), a.answers({}, 2).port());
}

TEST(NetworkProbe, StopsListeningWhenTheMeasurementEnds) {
  Host a(0), b(1);
  const int port = b.answers().port();
  b.probe().step(b.step({}, 0));
  EXPECT_EQ(a.answers({to(1, port)}).results(0).error(), "Connection refused");
}

TEST(NetworkProbe, AnswersASecondMeasurementWithItsName) {
  Host a(0);
  a.answers();
  EXPECT_EQ(a.answers({}, 1, "two").measurement(), "two");
}

}  // namespace
}  // namespace pfc
