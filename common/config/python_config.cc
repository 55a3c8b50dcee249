#include "common/config/python_config.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "common/config/python_arithmetic.h"
#include "common/error.h"
#include "common/one_line.h"

namespace pfc {
namespace {

using nlohmann::json;

constexpr std::size_t kMostCopied = std::size_t{1} << 20;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Recursive-descent parser. Each method reads the element in its name and moves `at_` past it.
class Reader {
 public:
  Reader(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  json read() {
    if (!is_utf8(text_)) throw InputError(origin_ + ": expected a configuration in UTF-8");
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // byte order mark
    for (skip_lines(); at_ < text_.size(); skip_lines()) {
      end_ = at_;
      if (at_ > 0 && is_blank(text_[at_ - 1])) fail("this line is indented");
      statement();
      skip_blanks();
      if (at_ < text_.size() && !at_newline()) fail("unexpected text after the value");
    }
    return config_;
  }

 private:
  static constexpr int kDeepest = 32;

  void statement() {
    if (at_string()) {  // a description of the file
      string();
    } else if (take_word("from")) {
      import();
    } else if (take_word("config")) {
      assignment();
    } else {
      fail("not an assignment to config.KEY");
    }
  }

  void import() {
    const std::string module = name();
    const bool easydict = module == "easydict" && take_word("import") && name() == "EasyDict";
    if (!easydict) fail("only EasyDict of easydict can be imported");
    if (take_word("as")) dict_class_ = name();
  }

  void assignment() {
    if (!take('.')) {
      const bool made = take('=') && name() == dict_class_ && take('(') && take(')');
      if (!made) fail("expected config = " + dict_class_ + "()");
      config_ = json::object();
      return;
    }
    if (!config_.is_object()) fail("config is used before config = " + dict_class_ + "()");
    const std::string key = name();
    if (!take('=')) fail("expected = after config." + one_line(key, 60));
    json value = tuple();
    config_[key] = std::move(value);
  }

  /// One value, or several separated by commas without parentheses.
  json tuple() {
    json first = sum();
    if (!take(',')) return first;
    json items = json::array({std::move(first)});
    for (skip_blanks(); at_ < text_.size() && !at_newline(); skip_blanks()) {
      items.push_back(sum());
      if (!take(',')) break;
    }
    return items;
  }

  json sum() {
    json left = product();
    for (;;) {
      if (take('+')) {
        left = add(std::move(left), product());
      } else if (take('-')) {
        left = arithmetic('-', left, product());
      } else {
        return left;
      }
    }
  }

  json product() {
    json left = factor();
    for (;;) {
      if (take("//")) {
        left = arithmetic('f', left, factor());
      } else if (const char op = take_one_of("*/%"); op != '\0') {
        left = arithmetic(op, left, factor());
      } else {
        return left;
      }
    }
  }

  json factor() {
    const Depth depth(*this);
    if (take('-')) return arithmetic('-', 0, factor());
    if (take('+')) return arithmetic('+', 0, factor());
    json base = atom();
    return take("**") ? arithmetic('^', base, factor()) : base;
  }

  json atom() {
    const Depth depth(*this);
    skip_blanks();
    if (at_string()) return string();
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) return number();
    if (take('(')) return sequence(')');
    if (take('[')) return sequence(']');
    if (take('{')) return dictionary();
    const std::string word = name();
    if (word == "True") return true;
    if (word == "False") return false;
    if (word == "None") return nullptr;
    if (word != "config" || !take('.')) fail("unsupported kind of value");
    const std::string key = name();
    const auto found = config_.find(key);
    if (found == config_.end()) fail("config." + one_line(key, 60) + " has no value yet");
    // Each line of a file can double the size of a value.
    copied_ += found->dump().size();
    if (copied_ > kMostCopied) fail("the reused values are too large");
    return *found;
  }

  /// Items up to the closing bracket. One value in parentheses is that value.
  json sequence(char closing) {
    const Brackets brackets(*this);
    json items = json::array();
    bool comma = false;
    while (!take(closing)) {
      if (!items.empty() && !comma) fail(std::string("expected , or ") + closing);
      items.push_back(sum());
      comma = take(',');
    }
    if (closing == ')' && items.size() == 1 && !comma) return std::move(items[0]);
    return items;
  }

  json dictionary() {
    const Brackets brackets(*this);
    json object = json::object();
    bool comma = true;
    while (!take('}')) {
      if (!comma) fail("expected , or }");
      const json key = sum();
      if (!key.is_string()) fail("expected a string as the key of a dict");
      if (!take(':')) fail("expected : after the key of a dict");
      object[key.get_ref<const std::string&>()] = sum();
      comma = take(',');
    }
    return object;
  }

  json number() {
    bool real = false;
    std::string digits;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      const bool sign = (c == '+' || c == '-') && (digits.ends_with('e') || digits.ends_with('E'));
      if (!is_digit(c) && !is_letter(c) && c != '.' && !sign) break;
      real |= c == '.' || c == 'e' || c == 'E';
      if (c != '_') digits += c;
    }
    end_ = at_;
    const auto parse = [&](auto value) -> json {
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (parsed.ec == std::errc::result_out_of_range)
        fail("this number is too large or too small");
      if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) {
        fail("expected a decimal number");
      }
      return value;
    };
    if (real) return parse(double{});
    const bool octal =
        digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos;
    if (octal) fail("a number may not begin with 0");
    return parse(std::int64_t{});
  }

  /// One or more string literals, which Python joins.
  json string() {
    std::string out;
    do {
      bool raw = false;
      if (text_[at_] != '"' && text_[at_] != '\'') {
        raw = text_[at_] == 'r' || text_[at_] == 'R';
        ++at_;
      }
      const std::string_view quote = text_.substr(at_, 1);
      const std::string triple(3, quote[0]);
      const bool long_string = text_.substr(at_).starts_with(triple);
      at_ += long_string ? 3 : 1;
      literal(out, long_string ? std::string_view(triple) : quote, raw);
      skip_blanks();
    } while (at_string());
    return out;
  }

  void literal(std::string& out, std::string_view closing, bool raw) {
    while (!text_.substr(std::min(at_, text_.size())).starts_with(closing)) {
      if (at_ >= text_.size() || (closing.size() == 1 && at_newline()))
        fail("a string is not closed");
      if (text_[at_] != '\\') {
        out += text_[at_++];
      } else if (raw && at_ + 1 < text_.size()) {
        out += text_.substr(at_, 2);
        at_ += 2;
      } else {
        ++at_;
        escape(out);
      }
    }
    end_ = at_ += closing.size();
  }

  /// Reads an escape after its backslash. Like Python, keeps the backslash of an unknown escape.
  void escape(std::string& out) {
    if (at_ >= text_.size()) fail("a string is not closed");
    constexpr std::string_view kLetters = "ntrabfv\\'\"", kMeanings = "\n\t\r\a\b\f\v\\'\"";
    const char c = text_[at_++];
    const std::size_t known = kLetters.find(c);
    if (known != std::string_view::npos) {
      out += kMeanings[known];
    } else if (is_digit(c) || std::string_view("xuUN\r\n").find(c) != std::string_view::npos) {
      fail("unsupported escape sequence; write the character itself");
    } else {
      out += '\\';
      out += c;
    }
  }

  json add(json left, const json& right) {
    if (left.is_string() && right.is_string()) {
      left.get_ref<std::string&>() += right.get_ref<const std::string&>();
      return left;
    }
    if (left.is_array() && right.is_array()) {
      left.insert(left.end(), right.begin(), right.end());
      return left;
    }
    return arithmetic('+', left, right);
  }

  json arithmetic(char op, const json& left, const json& right) {
    try {
      return python_arithmetic(op, left, right);
    } catch (const std::domain_error& e) {
      fail(e.what());
    }
  }

  /// Between brackets a value may span several lines.
  struct Brackets {
    explicit Brackets(Reader& r) : reader(r) { ++reader.brackets_; }
    ~Brackets() { --reader.brackets_; }
    Brackets(const Brackets&) = delete;
    Brackets& operator=(const Brackets&) = delete;
    Reader& reader;
  };

  /// Bounds the recursion.
  struct Depth {
    explicit Depth(Reader& r) : reader(r) {
      if (++reader.depth_ > 2 * kDeepest) reader.fail("nested too deeply");
    }
    ~Depth() { --reader.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Reader& reader;
  };

  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\f'; }
  [[nodiscard]] bool at_newline() const { return text_[at_] == '\n' || text_[at_] == '\r'; }

  [[nodiscard]] bool at_string() const {
    const std::string_view rest = text_.substr(at_);
    const auto quote = [&](std::size_t i) {
      return i < rest.size() && (rest[i] == '"' || rest[i] == '\'');
    };
    return quote(0) ||
           (!rest.empty() && std::string_view("rRuU").find(rest[0]) != std::string_view::npos &&
            quote(1));
  }

  void skip_comment() {
    while (at_ < text_.size() && !at_newline()) ++at_;
  }

  /// Skips blanks and a comment, and between brackets also line ends.
  void skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("\\\n")) {
        ++at_;
      } else if (rest.starts_with("\\\r\n")) {
        at_ += 2;
      } else if (text_[at_] == '#') {
        skip_comment();
        if (brackets_ == 0 || at_ >= text_.size()) return;
      } else if (!is_blank(text_[at_]) && !(brackets_ > 0 && at_newline())) {
        return;
      }
    }
  }

  void skip_lines() {
    for (skip_blanks(); at_ < text_.size() && at_newline(); skip_blanks()) ++at_;
  }

  bool at(std::string_view what) {
    skip_blanks();
    return text_.substr(at_).starts_with(what);
  }

  bool take(std::string_view what) {
    if (!at(what)) return false;
    end_ = at_ += what.size();
    return true;
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }

  char take_one_of(std::string_view characters) {
    for (const char c : characters) {
      if (take(c)) return c;
    }
    return '\0';
  }

  bool take_word(std::string_view word) {
    if (!at(word)) return false;
    const std::size_t behind = at_ + word.size();
    if (behind < text_.size() && (is_letter(text_[behind]) || is_digit(text_[behind])))
      return false;
    end_ = at_ = behind;
    return true;
  }

  std::string name() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || (at_ > begin && is_digit(text_[at_])))) {
      ++at_;
    }
    if (at_ == begin) fail("expected a name or a value");
    end_ = at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  [[noreturn]] void fail(const std::string& problem) const {
    const std::size_t end = std::min(end_, text_.size());
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    std::size_t begin = end == 0 ? std::string_view::npos : text_.rfind('\n', end - 1);
    begin = begin == std::string_view::npos ? 0 : begin + 1;
    const std::string_view shown_line = text_.substr(begin, text_.find('\n', begin) - begin);
    throw InputError(origin_ + ":" + std::to_string(line) + ": '" + one_line(shown_line, 80) +
                     "': " + problem +
                     "; pfc reads lines like config.lr = 0.1 without running Python: write the "
                     "value itself here, or use a JSON job file");
  }

  const std::string_view text_;
  const std::string& origin_;
  std::size_t at_ = 0;      ///< offset of the next character
  std::size_t end_ = 0;     ///< offset after the last token, for errors
  std::size_t copied_ = 0;  ///< total bytes, as JSON, of reused values
  int brackets_ = 0;        ///< number of open brackets
  int depth_ = 0;           ///< recursion depth
  std::string dict_class_ = "EasyDict";
  json config_;  ///< null until config = EasyDict()
};

}  // namespace

json parse_python_config(std::string_view text, const std::string& origin) {
  json config = Reader(text, origin).read();
  if (!config.is_object()) {
    throw InputError(origin +
                     ": expected a configuration of arcface_torch (config = EasyDict(), "
                     "config.lr = 0.1, ...), found no assignment");
  }
  return config;
}

}  // namespace pfc
