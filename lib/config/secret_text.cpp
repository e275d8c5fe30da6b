#include "config/secret_text.hpp"

#include "base/url.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace trainctl::config {
namespace {

constexpr std::size_t kNone = std::string::npos;
constexpr std::string_view kBlanks = " \t";

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

bool names_secret(std::string_view key) {
  constexpr std::array<std::string_view, 6> kKeys{"access_key", "session_token", "token",
                                                  "api_key",    "credential",    "credentials"};
  return std::ranges::find(kKeys, key) != kKeys.end() || key.find("secret") != kNone ||
         key.find("password") != kNone;
}

/// Returns where the value of the key that ends at `end` begins, or kNone where no value follows.
std::size_t value_begin(std::string_view text, std::size_t end) {
  if (end < text.size() && (text[end] == '"' || text[end] == '\'')) ++end;
  end = text.find_first_not_of(kBlanks, end);
  if (end == kNone || (text[end] != ':' && text[end] != '=')) return kNone;
  return std::min(text.find_first_not_of(kBlanks, end + 1), text.size());
}

/// Returns the end of the value that begins at `begin`.
std::size_t value_end(std::string_view text, std::size_t begin) {
  const char first = begin < text.size() ? text[begin] : ' ';
  if (first == '"' || first == '\'') return std::min(text.find(first, begin + 1), text.size());
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
  return names_secret(line.substr(begin, end - begin)) && value_begin(line, end) != kNone;
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
    const std::size_t value = value_begin(text, at);
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
