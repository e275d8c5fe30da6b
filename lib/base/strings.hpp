#pragma once

#include "base/enums.hpp"

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

/// Returns the number of edits (insert, delete, substitute, swap of neighbors) between two words.
int edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate nearest to `word` within 2 edits, or a third of the word's length.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

std::string join(std::span<const std::string> parts, std::string_view separator);
/// Returns "a, b, c and 7 more" in printable form.
std::string shortened(std::span<const std::string> names, std::size_t most = 6);
/// Returns the parts between the separators; an empty text has one empty part.
std::vector<std::string> split(std::string_view text, char separator);

/// Returns the bytes as text, without a copy.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the length in bytes of the valid UTF-8 character at the front of a non-empty text; 0 if
/// the character is invalid.
std::size_t utf8_length(std::string_view text);
/// Returns the longest start of valid UTF-8 text with whole characters and at most that many bytes.
std::string_view utf8_start(std::string_view text, std::size_t most_bytes);

/// Escapes control bytes and invalid UTF-8 as \xNN, so that a file or class name cannot send
/// commands to a terminal or forge a log line.
std::string printable(std::string_view text);

/// Returns the word in quotes if a POSIX shell needs them.
std::string shell_word(const std::string& word);

/// Returns the words as one command of a POSIX shell.
std::string shell_command(std::vector<std::string> words);

/// Returns the text without the characters of `blanks` at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

/// Returns the text with the ASCII letters A to Z in lower case.
std::string lower_case(std::string_view text);

/// Returns 1234567 as "1,234,567".
std::string with_thousands(long long value);
/// Formats seconds: "0.8 s", "1 min 12 s", "2 h 03 min".
std::string human_duration(double seconds);
/// Formats bytes: "1.5 GiB".
std::string human_bytes(double bytes);
std::string human_bytes(std::integral auto bytes) {
  return human_bytes(static_cast<double>(bytes));
}

/// Returns the message with a bounded length. Of each line with more than 2,000 characters the
/// first 1,000 and the last 500 are kept: "START... (1,048,576 characters) ...END".
std::string bounded(std::string_view message);

/// Returns the text as printable() does, but keeps line breaks. `indent` is put before each line
/// except the first.
std::string printable_lines(std::string_view text, std::string_view indent = "");

/// Returns "optimizer: MESSAGE", or only the message if it already starts with that prefix, as in
/// "optimizer: ..." and "optimizer 'adam': ...".
std::string with_prefix(std::string_view prefix, std::string_view message);

/// Returns the message without its hint, the part from "\nhint: " on.
std::string_view without_hint(std::string_view message);

/// Returns the hint of a message without "hint: ". Empty if it has none.
std::string_view hint_of(std::string_view message);

/// Returns "CAUSE; see FOLDER". If the message has a hint, the hint follows after the reference:
/// "CAUSE; see FOLDER" and "hint: ..." on the next line.
std::string with_reference(std::string_view message, std::string_view place);

/// Returns the lines of a message as one printable line: "these changed: a: 1 -> 2; b: 3 -> 4".
std::string one_line(std::string_view message);

/// Returns a number as text that restores the same bits in any locale: hexadecimal "1.8p+1",
/// "-inf", "nan:7ff8000000000000".
std::string exact_text(double value);

/// Parses the result of exact_text(); empty for any other text.
std::optional<double> exact_double(std::string_view text);

}  // namespace trainctl
