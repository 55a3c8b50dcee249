#include "data/records/writing/resumable_writer.h"

#include <charconv>
#include <exception>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "data/records/record_reader.h"
#include "data/records/writing/record_framing.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

// Maximum amount that is written again after a power failure.
constexpr std::uint64_t kSecuredAtOnce = std::uint64_t{256} << 20;

/// Returns the offset in a line "key \t offset".
std::optional<std::uint64_t> offset_in(std::string_view line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos) return {};
  std::uint64_t offset = 0;
  const char* const end = line.data() + line.size();
  const auto parsed = std::from_chars(line.data() + tab + 1, end, offset);
  if (parsed.ec != std::errc() || parsed.ptr != end) return {};
  return offset;
}

struct IndexLine {
  std::int64_t number = 0;   ///< from 1; 0 for none
  std::uint64_t end = 0;     ///< end of the line in the .idx
  std::uint64_t offset = 0;  ///< offset of its record in the .rec
};

/// Returns nullopt if the record is not complete.
std::optional<std::uint64_t> end_of_record(const RecordReader& rec, std::uint64_t offset) {
  try {
    return rec.record_end(offset);
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

ResumableWriter::ResumableWriter(const fs::path& rec, const fs::path& idx, const std::string& what)
    : begun_(rec.string() + ".begun"), rec_(rec), idx_(idx) {
  if (has_begun(what)) {
    go_on();
    return;
  }
  begun_.keep(0);
  rec_.keep(0);
  idx_.keep(0);
  begun_.write(what + "\n");
  begun_.sync();
}

ResumableWriter::~ResumableWriter() {
  try {
    secure();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next start rewrites it
  }
}

bool ResumableWriter::has_begun(const std::string& what) {
  std::ifstream in(begun_.part());
  std::string line;
  if (!std::getline(in, line) || in.eof() || line != what) return false;
  std::uint64_t bytes = line.size() + 1;
  while (std::getline(in, line) && !in.eof()) {  // ignores an incomplete last line
    notes_.push_back(line);
    bytes += line.size() + 1;
  }
  begun_.keep(bytes);
  return true;
}

/// Continues after the last line of the .idx whose record is complete. Records are durable before
/// their lines are written, so only a truncation of the .rec itself can damage the last record.
void ResumableWriter::go_on() {
  const RecordReader reader(rec_.part());
  std::ifstream in(idx_.part());
  IndexLine last, before;
  for (std::string text; std::getline(in, text) && !in.eof();) {
    const auto offset = offset_in(text);
    if (!offset || *offset < last.offset || *offset >= reader.bytes()) break;
    before = std::exchange(
        last, {.number = last.number + 1, .end = last.end + text.size() + 1, .offset = *offset});
  }
  IndexLine kept;
  std::optional<std::uint64_t> end;
  for (const IndexLine& line : {last, before}) {
    if (line.number == 0 || (end = end_of_record(reader, line.offset))) {
      kept = line;
      break;
    }
  }
  written_ = kept.number;
  idx_.keep(kept.end);
  secured_ = end.value_or(0);
  rec_.keep(secured_);
}

void ResumableWriter::append(std::int64_t key, std::span<const std::byte> payload) {
  const std::uint64_t offset = rec_.offset();
  frame_record(key, payload, [this](std::span<const std::byte> bytes) { rec_.write(bytes); });
  lines_ += std::to_string(key) + '\t' + std::to_string(offset) + '\n';
  ++written_;
  if (rec_.offset() - secured_ >= kSecuredAtOnce) secure();
}

/// A line in the .idx states that its record exists, so the record is written first.
void ResumableWriter::secure() {
  if (lines_.empty()) return;
  rec_.sync();
  secured_ = rec_.offset();
  idx_.write(lines_);
  idx_.flush();
  lines_.clear();
}

void ResumableWriter::note(const std::string& line) {
  begun_.write(line + "\n");
  begun_.sync();
  notes_.push_back(line);
}

void ResumableWriter::replace_first(std::span<const std::byte> payload) {
  rec_.write_at(kPartHeaderBytes, payload);
}

/// Removes an existing .rec first and renames the new .rec last, so a .rec never exists together
/// with the .idx of another .rec.
void ResumableWriter::close() {
  secure();
  as_storage_error([&] { fs::remove(rec_.path()); });
  idx_.commit();
  rec_.commit();
  const fs::path folder = rec_.part().parent_path();
  std::error_code ignored;
  fs::remove(begun_.part(), ignored);
  sync_folder(folder.empty() ? "." : folder);
}

}  // namespace pfc
