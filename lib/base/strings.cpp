#include "base/strings.hpp"

#include "base/hash.hpp"
#include "base/numbers.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace trainctl {
namespace {

// U+0080 to U+009F are terminal controls too. Bidirectional marks can make a line look different
// from its content.
bool is_control(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7F;
  if (sequence.size() == 2) return first == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;
  constexpr std::array<std::string_view, 11> kBidi{"\u200E", "\u200F", "\u202A", "\u202B",
                                                   "\u202C", "\u202D", "\u202E", "\u2066",
                                                   "\u2067", "\u2068", "\u2069"};
  return std::ranges::find(kBidi, sequence) != kBidi.end();
}

constexpr std::size_t kLongestLine = 2000;
constexpr std::size_t kKeptHead = 1000;
constexpr std::size_t kKeptTail = 500;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Returns the byte at or before `at` where a character starts, at most a few bytes before.
std::size_t character_start(std::string_view text, std::size_t at) {
  for (std::size_t back = 0; back < 3 && at > 0 && continues_character(text[at]); ++back) --at;
  return at;
}

std::string bounded_line(std::string_view line) {
  if (line.size() <= kLongestLine) return std::string(line);
  const std::ptrdiff_t characters =
      std::ranges::count_if(line, [](char c) { return !continues_character(c); });
  const std::string_view head = line.substr(0, character_start(line, kKeptHead));
  const std::string_view tail = line.substr(character_start(line, line.size() - kKeptTail));
  return fmt::format("{}... ({} characters) ...{}", head, with_thousands(characters), tail);
}

constexpr std::string_view kNan = "nan:";
constexpr std::string_view kHint = "\nhint: ";

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  std::size_t length = 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

std::string_view utf8_start(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  while (most_bytes > 0 && (static_cast<unsigned char>(text[most_bytes]) & 0xC0) == 0x80)
    --most_bytes;
  return text.substr(0, most_bytes);
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitution = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() > 64) return std::nullopt;
  int best = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    // The distance is at least the difference in length.
    const std::ptrdiff_t longer = std::ssize(candidate) - std::ssize(word);
    if (std::abs(longer) >= best) continue;
    const int distance = edit_distance(word, candidate);
    if (distance < best && distance < static_cast<int>(word.size())) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string shortened(std::span<const std::string> names, std::size_t most) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    shown.push_back(printable(names[i]));
  const std::string text = join(shown, ", ");
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string printable(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0 || is_control(text.substr(0, length))) {
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
    } else {
      safe += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return safe;
}

std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./=,:+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_command(std::vector<std::string> words) {
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string with_thousands(long long value) {
  std::string digits = std::to_string(value);
  const std::ptrdiff_t first = digits[0] == '-' ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string human_duration(double seconds) {
  if (seconds < 0.001) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string human_bytes(double bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string bounded(std::string_view message) {
  if (message.size() <= kLongestLine) return std::string(message);
  std::vector<std::string> lines = split(message, '\n');
  for (std::string& line : lines) line = bounded_line(line);
  return join(lines, "\n");
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

std::string_view without_hint(std::string_view message) {
  return message.substr(0, message.find(kHint));
}

std::string_view hint_of(std::string_view message) {
  const std::size_t at = message.find(kHint);
  return at == std::string_view::npos ? std::string_view() : message.substr(at + kHint.size());
}

std::string with_reference(std::string_view message, std::string_view place) {
  const std::string_view cause = without_hint(message);
  return fmt::format("{}; see {}{}", cause, place, message.substr(cause.size()));
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

std::string exact_text(double value) {
  if (std::isnan(value)) return std::string(kNan) + to_hex(std::bit_cast<std::uint64_t>(value));
  std::array<char, 32> text{};
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::hex);
  return {text.data(), written.ptr};
}

std::optional<double> exact_double(std::string_view text) {
  if (!text.starts_with(kNan)) {
    const auto value = parse_number<double>(text, std::chars_format::hex);
    return value && !std::isnan(*value) ? value : std::nullopt;
  }
  const auto bits = parse_number<std::uint64_t>(text.substr(kNan.size()), 16);
  if (!bits) return std::nullopt;
  const auto value = std::bit_cast<double>(*bits);
  return std::isnan(value) ? std::optional(value) : std::nullopt;
}

}  // namespace trainctl
