#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

/// Returns the edits (insert, delete, substitute, swap of neighbors) between two words.
int edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate nearest to `word` within 2 edits, or a third of the word if that is more.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

std::string join(std::span<const std::string> parts, std::string_view separator);
/// "a, b, c and 7 more", printable.
std::string shortened(std::span<const std::string> names, std::size_t most = 6);
std::vector<std::string> split(std::string_view text, char separator);

/// Returns bytes as text, without a copy.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Bytes of the valid UTF-8 character at the front of a text that is not empty; 0 if there is none.
std::size_t utf8_length(std::string_view text);

/// Control bytes and invalid UTF-8 become \xNN, so that a file or class name cannot drive a
/// terminal or forge a log line.
std::string printable(std::string_view text);

/// The word as a shell reads it back: quoted where it needs to be.
std::string shell_word(const std::string& word);

/// Turns the letters A to Z into small ones.
std::string lower_case(std::string_view text);

/// 1234567 -> "1,234,567".
std::string with_thousands(long long value);
/// Seconds for people: "0.8 s", "1 min 12 s", "2 h 03 min".
std::string human_duration(double seconds);
/// Bytes for people: "1.5 GiB".
std::string human_bytes(double bytes);

/// Returns a message that no value can make endless. Of each line with more than 2,000 characters
/// the first 1,000 and the last 500 stay: "START... (1,048,576 characters) ...END".
std::string bounded(std::string_view message);

/// Returns the text as printable() does, with its line breaks; `indent` goes before each line but
/// the first.
std::string printable_lines(std::string_view text, std::string_view indent = "");

/// Returns "optimizer: MESSAGE"; the message alone where it already begins with that prefix, as in
/// "optimizer: ..." and "optimizer 'adam': ...".
std::string with_prefix(std::string_view prefix, std::string_view message);

/// Returns "CAUSE; see FOLDER", where a hint follows with the hint after it: "CAUSE; see FOLDER"
/// and "hint: ..." on the next line.
std::string with_reference(std::string_view message, std::string_view place);

/// Returns the lines of a message as one printable line: "these changed: a: 1 -> 2; b: 3 -> 4".
std::string one_line(std::string_view message);

/// A number as text from which the same bits come back, whatever the locale: hexadecimal "1.8p+1",
/// "-inf", "nan:7ff8000000000000".
std::string exact_text(double value);

/// Nothing where the text is no such number.
std::optional<double> exact_double(std::string_view text);

}  // namespace trainctl
