#include "base/bounded_text.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace trainctl {
namespace {

constexpr std::ptrdiff_t kLongestLine = 2000;
constexpr std::size_t kKeptHead = 1000;
constexpr std::size_t kKeptTail = 500;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Returns the byte where a character begins, at or before `at`; a few bytes back at most.
std::size_t character_start(std::string_view text, std::size_t at) {
  for (std::size_t back = 0; back < 3 && at > 0 && continues_character(text[at]); ++back) --at;
  return at;
}

std::string bounded_line(std::string_view line) {
  if (line.size() <= static_cast<std::size_t>(kLongestLine)) return std::string(line);
  const std::ptrdiff_t characters =
      std::ranges::count_if(line, [](char c) { return !continues_character(c); });
  const std::string_view head = line.substr(0, character_start(line, kKeptHead));
  const std::string_view tail = line.substr(character_start(line, line.size() - kKeptTail));
  return fmt::format("{}... ({} characters) ...{}", head, with_thousands(characters), tail);
}

}  // namespace

std::string bounded(std::string_view message) {
  if (message.size() <= static_cast<std::size_t>(kLongestLine)) return std::string(message);
  std::string text;
  while (true) {
    const std::size_t end = message.find('\n');
    text += bounded_line(message.substr(0, end));
    if (end == std::string_view::npos) return text;
    text += '\n';
    message.remove_prefix(end + 1);
  }
}

std::string printable_lines(std::string_view text, std::string_view indent) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = printable(line);
  return join(lines, "\n" + std::string(indent));
}

std::string with_prefix(std::string_view prefix, std::string_view message) {
  const std::string_view rest =
      message.starts_with(prefix) ? message.substr(prefix.size()) : std::string_view();
  const bool has_prefix = rest.starts_with(": ") || rest.starts_with(" '");
  return has_prefix ? std::string(message) : fmt::format("{}: {}", prefix, message);
}

std::string with_reference(std::string_view message, std::string_view place) {
  const std::size_t hint = std::min(message.find("\nhint: "), message.size());
  return fmt::format("{}; see {}{}", message.substr(0, hint), place, message.substr(hint));
}

std::string one_line(std::string_view message) {
  std::string text;
  for (const std::string& line : split(message, '\n')) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    if (!text.empty()) text += text.ends_with(':') ? " " : "; ";
    text += printable(std::string_view(line).substr(begin));
  }
  return text;
}

}  // namespace trainctl
