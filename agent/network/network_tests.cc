#include "agent/network/network_tests.h"

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <system_error>
#include <utility>

#include "agent/network/hello.h"
#include "agent/network/probe_listener.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

/// Data sent repeatedly in a transfer.
const std::array<char, std::size_t{256} << 10> kPayload{};

tcp::endpoint endpoint(const std::string& address, int port) {
  return {asio::ip::make_address(address), static_cast<unsigned short>(port)};
}

double number_in(const std::array<char, ProbeListener::kSpeedBytes>& bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return static_cast<double>(number);
}

}  // namespace

/// One connection to another host.
class NetworkTests::Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(NetworkTests& tests, std::size_t number)
      : tests_(tests), number_(number), socket_(tests.loop_), timer_(tests.loop_) {}

  void start() {
    timer_.expires_after(milliseconds(test().begin_ms()));
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->connect();
    });
  }

  /// Ends with a timeout error.
  void give_up() { fail(std::generic_category().message(ETIMEDOUT)); }

 private:
  [[nodiscard]] const proto::NetworkTest& test() const {
    return tests_.step_.tests(static_cast<int>(number_));
  }

  void connect() {
    timer_.expires_after(test().transfer() ? kTransferPatience : kPatience);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->give_up();
    });
    try {
      const tcp::endpoint from = endpoint(test().from(), 0);
      socket_.open(from.protocol());
      socket_.bind(from);
      socket_.async_connect(endpoint(test().to(), test().port()),
                            [self = shared_from_this()](const error_code& error) {
                              error ? self->fail(error.message()) : self->greet();
                            });
    } catch (const boost::system::system_error& error) {
      fail(error.code().message());
    }
  }

  void greet() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    hello_ =
        make_hello(tests_.secret_, {.to_host = test().to_host(), .transfer = test().transfer()});
    asio::async_write(
        socket_, asio::buffer(hello_),
        [self = shared_from_this()](const error_code&, std::size_t) { self->await_answer(); });
  }

  void await_answer() {
    asio::async_read(socket_, asio::buffer(answer_),
                     [self = shared_from_this()](const error_code& error, std::size_t) {
                       const std::string_view said(self->answer_.data(), self->answer_.size());
                       const bool meant =
                           !error && same_code(said, answer_to(self->tests_.secret_, self->hello_));
                       if (!meant) return self->fail("another program answers at this address");
                       self->test().transfer() ? self->transfer() : self->end();
                     });
  }

  void transfer() {
    asio::async_read(socket_, asio::buffer(speed_),
                     [self = shared_from_this()](const error_code& error, std::size_t) {
                       if (error) return self->fail("the transfer ended: " + error.message());
                       self->result_.set_bits_per_second(number_in(self->speed_));
                       self->end();
                     });
    send();
  }

  void send() {
    socket_.async_write_some(asio::buffer(kPayload),
                             [self = shared_from_this()](const error_code& error, std::size_t) {
                               if (!error) self->send();
                             });
  }

  void fail(const std::string& why) {
    result_.set_error(why);
    end();
  }

  void end() {
    if (std::exchange(ended_, true)) return;
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
    tests_.ended(number_, std::move(result_));
  }

  NetworkTests& tests_;
  const std::size_t number_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::string hello_;
  std::array<char, kAnswerBytes> answer_{};
  std::array<char, ProbeListener::kSpeedBytes> speed_{};
  proto::NetworkResult result_;
  bool ended_ = false;
};

NetworkTests::NetworkTests(std::string secret, const proto::NetworkStep& step, Done done)
    : secret_(std::move(secret)), step_(step), done_(std::move(done)) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(step_.tests_size()); ++i) {
    attempts_.push_back(std::make_shared<Attempt>(*this, i));
  }
  results_.resize(attempts_.size());
  asio::post(loop_, [this] { start(); });
  thread_ = std::thread([this] { loop_.run(); });
}

NetworkTests::~NetworkTests() {
  loop_.stop();
  thread_.join();
}

void NetworkTests::start() {
  limit_.expires_after(milliseconds(step_.limit_ms()));
  limit_.async_wait([this](const error_code& error) {
    if (!error) finish();
  });
  start_more();
}

void NetworkTests::start_more() {
  while (!finished_ && started_ < attempts_.size() && started_ - ended_ < kAtOnce) {
    attempts_[started_++]->start();
  }
  if (ended_ == attempts_.size()) finish();
}

void NetworkTests::ended(std::size_t number, proto::NetworkResult result) {
  results_[number] = std::move(result);
  ended_ += 1;
  if (finished_) return;
  // Posted, because attempts that fail immediately would otherwise recurse.
  asio::post(loop_, [this] { start_more(); });
}

void NetworkTests::finish() {
  if (std::exchange(finished_, true)) return;
  limit_.cancel();
  for (const auto& attempt : attempts_) attempt->give_up();
  done_(std::move(results_));
}

}  // namespace pfc
