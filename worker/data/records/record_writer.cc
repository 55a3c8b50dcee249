#include "worker/data/records/record_writer.h"

#include <array>
#include <cstring>
#include <string>

#include "common/error.h"
#include "worker/data/records/record_format.h"

namespace pfc {

RecordWriter::RecordWriter(const std::filesystem::path& rec, const std::filesystem::path& idx)
    : rec_(rec), idx_(idx) {}

void RecordWriter::append(std::int64_t key, std::span<const std::byte> payload) {
  if (payload.size() > kMaxPartBytes) {
    throw InputError("record " + std::to_string(key) + " has " + std::to_string(payload.size()) +
                     " bytes; RecordIO holds at most " + std::to_string(kMaxPartBytes));
  }
  idx_.write(std::to_string(key) + '\t' + std::to_string(rec_.offset()) + '\n');

  std::size_t begin = 0;  // of the part being collected
  for (std::size_t i = 0; i + 4 <= payload.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, payload.data() + i, 4);
    if (word != kRecordMagic) continue;
    const PartKind kind = begin == 0 ? PartKind::kFirst : PartKind::kMiddle;
    const auto part = payload.subspan(begin, i - begin);
    write_part(encode_part(kind, static_cast<std::uint32_t>(part.size())), part);
    begin = i + 4;
  }
  const PartKind kind = begin == 0 ? PartKind::kWhole : PartKind::kLast;
  const auto part = payload.subspan(begin);
  write_part(encode_part(kind, static_cast<std::uint32_t>(part.size())), part);
}

void RecordWriter::write_part(std::uint32_t word, std::span<const std::byte> payload) {
  const std::array<std::uint32_t, 2> header{kRecordMagic, word};
  rec_.write(std::as_bytes(std::span(header)));
  rec_.write(payload);
  const std::array<std::byte, 3> zeros{};
  rec_.write(std::span(zeros).first(padded(payload.size()) - payload.size()));
}

void RecordWriter::close() {
  rec_.commit();
  idx_.commit();
}

}  // namespace pfc
