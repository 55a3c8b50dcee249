// Splits a record into its parts for writing (record_format.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "common/error.h"
#include "data/records/record_format.h"

namespace pfc {

/// Calls write(span of bytes) for each piece of the record, in order: headers, the payload between
/// its magic words, and padding. Throws InputError that names `key` for a payload of 512 MiB or
/// more.
template <class Write>
void frame_record(std::int64_t key, std::span<const std::byte> payload, const Write& write) {
  if (payload.size() > kMaxPartBytes) {
    throw InputError("record " + std::to_string(key) + " has " + std::to_string(payload.size()) +
                     " bytes; RecordIO holds at most " + std::to_string(kMaxPartBytes));
  }
  const auto write_part = [&](PartKind kind, std::span<const std::byte> part) {
    const std::array<std::uint32_t, 2> header{
        kRecordMagic, encode_part(kind, static_cast<std::uint32_t>(part.size()))};
    write(std::as_bytes(std::span(header)));
    write(part);
    constexpr std::array<std::byte, 3> kZeros{};
    write(std::span(kZeros).first(padded(part.size()) - part.size()));
  };
  std::size_t begin = 0;  // where the current part begins
  for (std::size_t i = 0; i + 4 <= payload.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, payload.data() + i, 4);
    if (word != kRecordMagic) continue;
    write_part(begin == 0 ? PartKind::kFirst : PartKind::kMiddle,
               payload.subspan(begin, i - begin));
    begin = i + 4;
  }
  write_part(begin == 0 ? PartKind::kWhole : PartKind::kLast, payload.subspan(begin));
}

}  // namespace pfc
