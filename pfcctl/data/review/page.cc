#include "pfcctl/data/review/page.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace pfc {

namespace {

std::string base64(std::span<const std::byte> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL also writes a 0
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

std::string_view page_file(std::string_view name) {
  return std::ranges::find(review_files(), name, &ReviewPageFile::name)->contents;
}

/// Returns the expression that allows this script or style in a policy (CSP 3, section 2.3.1).
std::string allowed(std::string_view contents) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> sum{};
  SHA256(reinterpret_cast<const unsigned char*>(contents.data()), contents.size(), sum.data());
  return "'sha256-" + base64(std::as_bytes(std::span(sum))) + "'";
}

/// Returns an element with JSON, in which no text can end the element or begin a comment.
std::string json_element(const std::string& id, const nlohmann::ordered_json& value) {
  std::string text = fmt::format("<script type=\"application/json\" id=\"{}\">", id);
  for (const char c :
       value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";  // JSON has "<" only in strings
    } else {
      text += c;
    }
  }
  return text + "</script>\n";
}

}  // namespace

std::string page_begin(const nlohmann::ordered_json& data) {
  const std::string style = fmt::format("{}{}", page_file("page.css"), page_file("review.css"));
  const std::string_view script = page_file("review.js");
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src {}; script-src {}; base-uri 'none'; form-action 'none'\">\n"
      "<style>{}</style>\n{}{}<script>{}</script>\n",
      allowed(style), allowed(script), style, page_file("review.html"), json_element("data", data),
      script);
}

std::string image_block(std::int64_t number, const nlohmann::ordered_json& images) {
  return json_element("images-" + std::to_string(number), images);
}

std::string data_address(const std::string& type, std::span<const std::byte> bytes) {
  return "data:image/" + type + ";base64," + base64(bytes);
}

}  // namespace pfc
