#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

/// Edits (insert, delete, substitute, swap of neighbours) between two words: optimal string
/// alignment.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` within `limit` edits (default: 2, or a third of the word if that
/// is more).
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

std::string join(std::span<const std::string> parts, std::string_view separator);
/// "a, b, c and 7 more", printable.
std::string shortened(std::span<const std::string> names, std::size_t most = 6);
std::vector<std::string> split(std::string_view text, char separator);
bool starts_with_any(std::string_view text, std::span<const std::string> prefixes);

/// Bytes of the valid UTF-8 character at the front of a text that is not empty; 0 if there is none.
std::size_t utf8_length(std::string_view text);

/// Control bytes and invalid UTF-8 become \xNN, so that a file or class name cannot drive a
/// terminal or forge a log line.
std::string printable(std::string_view text);

/// The word as a shell reads it back: quoted where it needs to be.
std::string shell_word(const std::string& word);

/// 1234567 -> "1,234,567".
std::string with_thousands(long long value);
/// Seconds for people: "0.8 s", "1 min 12 s", "2 h 03 min".
std::string human_duration(double seconds);
/// Bytes for people: "1.5 GiB".
std::string human_bytes(double bytes);

}  // namespace trainctl
