#include "coordinator/web/live/live_feed.h"

#include <utility>

#include "common/clock.h"
#include "common/random_id.h"

namespace pfc {

class LiveFeed::Reader final : public HttpFeed {
 public:
  explicit Reader(LiveFeed& feed) : feed_(&feed) {}

  Piece next() override {
    if (feed_ == nullptr) return nullptr;
    if (has_ != feed_->number_) {
      const bool follows = has_ != 0 && has_ + 1 == feed_->number_;
      has_ = feed_->number_;
      return sent(follows ? feed_->changes_ : feed_->everything());
    }
    if (Clock::now() - sent_at_ < feed_->options_.heartbeat) return nullptr;
    return sent(std::make_shared<const std::string>(":\n\n"));
  }

  void when_ready(std::function<void()> call) override { call_ = std::move(call); }

  /// Makes a waiting reader call next() again.
  void wake() {
    if (const auto call = std::exchange(call_, nullptr)) call();
  }
  [[nodiscard]] bool waits() const { return call_ != nullptr; }
  void forget() {
    feed_ = nullptr;
    call_ = nullptr;
  }

 private:
  Piece sent(Piece piece) {
    sent_at_ = Clock::now();
    return piece;
  }

  LiveFeed* feed_;         // null: ended
  std::uint64_t has_ = 0;  // number of its last piece; 0: none
  TimePoint sent_at_;
  std::function<void()> call_;
};

LiveFeed::LiveFeed(boost::asio::io_context& loop, Options options, LiveSource& source)
    : timer_(loop), options_(options), source_(source), id_(random_id()) {}

LiveFeed::~LiveFeed() {
  for (const auto& reader : readers_) reader->forget();
}

std::shared_ptr<HttpFeed> LiveFeed::open() {
  drop_those_who_left();
  if (readers_.size() >= options_.most_readers) return nullptr;
  if (readers_.empty()) look();  // nothing was produced without readers
  const auto reader = std::make_shared<Reader>(*this);
  readers_.push_back(reader);
  if (!std::exchange(ticking_, true)) tick();
  return reader;
}

void LiveFeed::tick() {
  timer_.expires_after(options_.pause);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    drop_those_who_left();
    ticking_ = !readers_.empty();
    if (!ticking_) return;
    flush();
    tick();
  });
}

void LiveFeed::flush() {
  if (readers_.empty()) return;
  look();
  const auto readers = readers_;  // copy: a reader may end when woken
  for (const auto& reader : readers) reader->wake();
}

/// A reader that is not waiting and has no write in progress has lost its connection.
void LiveFeed::drop_those_who_left() {
  std::erase_if(readers_,
                [](const auto& reader) { return reader.use_count() == 1 && !reader->waits(); });
}

void LiveFeed::look() {
  const std::string changes = source_.changes();
  if (changes.empty() && number_ > 0) return;
  ++number_;
  changes_ = std::make_shared<const std::string>(event(changes));
  everything_ = nullptr;
}

std::string LiveFeed::event(const std::string& json) const {
  return "id: " + id_ + "-" + std::to_string(number_) + "\ndata: " + json + "\n\n";
}

LiveFeed::Piece LiveFeed::everything() {
  if (everything_ == nullptr) {
    everything_ = std::make_shared<const std::string>("retry: 2000\n" + event(source_.all()));
  }
  return everything_;
}

}  // namespace pfc
