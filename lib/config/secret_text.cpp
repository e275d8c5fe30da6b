#include "config/secret_text.hpp"

#include "base/url.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {
namespace {

constexpr std::size_t kNone = std::string::npos;
constexpr std::string_view kBlanks = " \t";

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

/// Returns the words of `hf_token`, `api-key` or `secretAccessKey` in lower case.
std::vector<std::string> words_of(std::string_view key) {
  std::vector<std::string> words(1);
  bool after_lower = false;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const bool starts_word = after_lower && std::isupper(byte) != 0;
    if ((c == '_' || c == '-' || starts_word) && !words.back().empty()) words.emplace_back();
    if (c != '_' && c != '-') words.back() += static_cast<char>(std::tolower(byte));
    after_lower = std::islower(byte) != 0 || std::isdigit(byte) != 0;
  }
  return words;
}

bool names_secret(std::string_view key) {
  constexpr std::array<std::string_view, 10> kWords{
      "secret", "token",      "password",    "passwd", "passphrase",
      "pwd",    "credential", "credentials", "auth",   "authorization"};
  constexpr std::array<std::string_view, 4> kKinds{"api", "access", "private", "encryption"};
  const std::vector<std::string> words = words_of(key);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::ranges::find(kWords, words[i]) != kWords.end()) return true;
    const bool is_key = words[i] == "key" && i > 0;
    if (is_key && std::ranges::find(kKinds, words[i - 1]) != kKinds.end()) return true;
    for (const std::string_view part : {"secret", "password", "apikey", "accesskey"}) {
      if (words[i].find(part) != kNone) return true;
    }
  }
  return false;
}

/// Returns where the value of the key in [begin, end) begins, or kNone if no value follows. The
/// name of an anchor counts as a key: `&secret value`.
std::size_t value_begin(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && text[begin - 1] == '&')
    return std::min(text.find_first_not_of(kBlanks, end), text.size());
  if (end < text.size() && (text[end] == '"' || text[end] == '\'')) ++end;
  end = text.find_first_not_of(kBlanks, end);
  if (end == kNone || (text[end] != ':' && text[end] != '=')) return kNone;
  return std::min(text.find_first_not_of(kBlanks, end + 1), text.size());
}

/// Returns the place of the closing quotation mark, past escapes: \" in "...", '' in '...'.
std::size_t closing_quote(std::string_view text, std::size_t open) {
  const char mark = text[open];
  for (std::size_t at = open + 1; at < text.size(); ++at) {
    const bool is_doubled = mark == '\'' && text.substr(at, 2) == "''";
    if ((mark == '"' && text[at] == '\\') || is_doubled) {
      ++at;
    } else if (text[at] == mark) {
      return at;
    }
  }
  return text.size();
}

/// Returns the end of the value that begins at `begin`; of a list or map, the end of the line.
std::size_t value_end(std::string_view text, std::size_t begin) {
  const char first = begin < text.size() ? text[begin] : ' ';
  if (first == '"' || first == '\'') return closing_quote(text, begin);
  if (first == '[' || first == '{') return text.size();
  const bool in_flow = text.substr(0, begin).find('{') != kNone;
  return std::min(in_flow ? text.find_first_of(",}", begin) : kNone, text.size());
}

void cover_range(std::string& text, std::size_t begin, std::size_t end) {
  std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin),
            text.begin() + static_cast<std::ptrdiff_t>(end), '*');
}

/// A reference is shown. One with a default, `${env:NAME,default}`, may hold the secret itself.
bool is_reference(std::string_view value) {
  value.remove_prefix(std::min(value.find_first_not_of("\"'"), value.size()));
  return value.starts_with("${") && value.find(',') == kNone;
}

/// Covers a comment behind the value that ends at `end`, a quotation mark or the end of the text.
void cover_comment(std::string& text, std::size_t end) {
  const std::size_t next = end < text.size() ? text.find_first_not_of(kBlanks, end + 1) : kNone;
  if (next != kNone && text[next] == '#') cover_range(text, next, text.size());
}

std::size_t leading_blanks(std::string_view line) {
  return std::min(line.find_first_not_of(kBlanks), line.size());
}

/// Returns whether the line ends with the key of a secret whose value is on the lines below.
bool opens_secret(std::string_view line) {
  std::size_t begin = std::min(line.find_first_not_of(" \t-"), line.size());
  if (begin < line.size() && (line[begin] == '"' || line[begin] == '\'')) ++begin;
  const std::size_t end =
      static_cast<std::size_t>(std::find_if_not(line.begin() + static_cast<std::ptrdiff_t>(begin),
                                                line.end(), is_key_character) -
                               line.begin());
  return names_secret(line.substr(begin, end - begin)) && value_begin(line, begin, end) != kNone;
}

}  // namespace

std::string without_secrets(std::string text) {
  for (std::size_t at = 0; at < text.size();) {
    if (!is_key_character(text[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    while (at < text.size() && is_key_character(text[at])) ++at;
    if (!names_secret(std::string_view(text).substr(begin, at - begin))) continue;
    if (begin >= 2 && text.compare(begin - 2, 2, "${") == 0) continue;  // ${secret:NAME}
    const std::size_t value = value_begin(text, begin, at);
    if (value == kNone) continue;
    const std::size_t end = value_end(text, value);
    const bool quoted = value < end && (text[value] == '"' || text[value] == '\'');
    at = std::max(at, end);
    if (is_reference(std::string_view(text).substr(value, end - value))) continue;
    cover_range(text, value + (quoted ? 1 : 0), end);
    if (quoted) cover_comment(text, end);
  }
  return without_credentials(std::move(text));
}

std::string line_without_secrets(const std::vector<std::string>& lines, std::size_t index) {
  constexpr std::size_t kMostAbove = 100;
  const std::size_t own = leading_blanks(lines[index]);
  std::size_t least = own;
  for (std::size_t above = 1; above <= std::min(index, kMostAbove) && least > 0; ++above) {
    const std::string& line = lines[index - above];
    const std::size_t indent = leading_blanks(line);
    if (indent == line.size() || indent >= least) continue;  // blank, or a line of the same value
    if (opens_secret(line))
      return std::string(own, ' ') + std::string(lines[index].size() - own, '*');
    least = indent;
  }
  return without_secrets(lines[index]);
}

}  // namespace trainctl::config
