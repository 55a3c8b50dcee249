#include "worker/checkpoint/transfer/file_transfer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

constexpr int kRankZero = 0;  // rank in a link
constexpr int kWorker = 1;

/// Answers of rank 0: a request for the next piece, and at the end the result.
enum class Word : std::int64_t { kNextPiece, kWritten, kFailed };

void exchange_bytes(Comm& link, void* data, std::size_t bytes, int from) {
  link.broadcast(Tensor(data, DType::kUInt8, {static_cast<std::int64_t>(bytes)}), from);
}

std::int64_t exchange_number(Comm& link, std::int64_t number, int from) {
  link.broadcast(Tensor(&number, DType::kInt64, {1}), from);
  return number;
}

void say(Comm& link, Word word) {
  exchange_number(link, static_cast<std::int64_t>(word), kRankZero);
}

/// Waits for this answer of rank 0. On kFailed throws rank 0's reason.
void expect(Comm& link, Word expected) {
  const auto word = static_cast<Word>(exchange_number(link, 0, kRankZero));
  if (word == expected) return;
  check(word == Word::kFailed, "send_file: unexpected answer of rank 0");
  const std::int64_t length = exchange_number(link, 0, kRankZero);
  std::string why(static_cast<std::size_t>(std::clamp<std::int64_t>(length, 0, kPieceBytes)), ' ');
  exchange_bytes(link, why.data(), why.size(), kRankZero);
  throw StorageError(why);
}

void say_failed(Comm& link, std::string why) {
  say(link, Word::kFailed);
  exchange_number(link, static_cast<std::int64_t>(why.size()), kRankZero);
  exchange_bytes(link, why.data(), why.size(), kRankZero);
}

/// One file that is being received.
class Arrival {
 public:
  explicit Arrival(const Incoming& incoming) : incoming_(incoming) {}

  [[nodiscard]] bool whole() const { return written_.has_value(); }
  [[nodiscard]] const WrittenFile& written() const { return *written_; }
  [[nodiscard]] Comm& link() const { return *incoming_.link->comm; }

  /// Throws StorageError, CommError.
  void take_piece(std::vector<std::byte>& buffer) {
    if (!file_) file_ = std::make_unique<AtomicFile>(incoming_.file);
    say(link(), Word::kNextPiece);
    const std::int64_t bytes = exchange_number(link(), 0, kWorker);
    check(bytes >= 0 && std::cmp_less_equal(bytes, kPieceBytes), "send_file: a piece is too large");
    if (bytes == 0) return finish();
    buffer.resize(static_cast<std::size_t>(bytes));
    exchange_bytes(link(), buffer.data(), buffer.size(), kWorker);
    file_->write(buffer);
  }

  [[nodiscard]] CommError lost(const CommError& error) const {
    return CommError("receiving " + incoming_.file.string() + " from rank " +
                     std::to_string(incoming_.link->rank) + " on host " + incoming_.link->host +
                     ": " + error.what());
  }

 private:
  void finish() {
    WrittenFile written = file_->commit();
    say(link(), Word::kWritten);
    written_ = std::move(written);
  }

  const Incoming incoming_;
  std::unique_ptr<AtomicFile> file_;
  std::optional<WrittenFile> written_;
};

void take_from_all(std::vector<Arrival>& arrivals) {
  std::vector<std::byte> buffer;
  const auto whole = [](const Arrival& a) { return a.whole(); };
  while (!std::ranges::all_of(arrivals, whole)) {
    for (Arrival& arrival : arrivals) {
      if (arrival.whole()) continue;
      try {
        arrival.take_piece(buffer);
      } catch (const CommError& error) {
        throw arrival.lost(error);
      }
    }
  }
}

void tell_failed(const std::vector<Arrival>& arrivals, const std::string& why) {
  for (const Arrival& arrival : arrivals) {
    if (arrival.whole()) continue;
    try {
      say_failed(arrival.link(), why);
    } catch (const CommError&) {  // NOLINT(bugprone-empty-catch): it is lost too; `why` is thrown
    }
  }
}

}  // namespace

std::vector<WrittenFile> receive_files(std::span<const Incoming> files, const std::string& host) {
  std::vector<Arrival> arrivals;
  arrivals.reserve(files.size());
  for (const Incoming& incoming : files) arrivals.emplace_back(incoming);
  try {
    take_from_all(arrivals);
  } catch (const StorageError& error) {
    const std::string why = "host " + host + ": " + error.what();
    tell_failed(arrivals, why);
    throw StorageError(why);
  }
  std::vector<WrittenFile> written;
  for (const Arrival& arrival : arrivals) written.push_back(arrival.written());
  return written;
}

void send_file(Comm& to_rank_zero, const std::function<void(const ByteSink&)>& write) {
  write([&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kPieceBytes));
      expect(to_rank_zero, Word::kNextPiece);
      exchange_number(to_rank_zero, static_cast<std::int64_t>(piece.size()), kWorker);
      // The cast is safe: a broadcast does not change the buffer of its root.
      exchange_bytes(to_rank_zero, const_cast<std::byte*>(piece.data()), piece.size(), kWorker);
      bytes = bytes.subspan(piece.size());
    }
  });
  expect(to_rank_zero, Word::kNextPiece);
  exchange_number(to_rank_zero, 0, kWorker);
  expect(to_rank_zero, Word::kWritten);
}

}  // namespace pfc
