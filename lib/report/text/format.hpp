#pragma once

#include "base/json.hpp"
#include "report/compare/statistics.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// How numbers and words look in every report: one place, so that the table, the summary and the bar
// agree.

namespace trainctl::report {

enum class Glyphs { ascii, unicode };
enum class Colours { off, on };

/// What the reader's terminal can show.
struct Style {
  Glyphs glyphs = Glyphs::ascii;
  Colours colours = Colours::off;
  int width = 120;  // columns
};

/// Ink of painted words; nothing is painted where Style::colours is off.
enum class Ink { bold, dim, red, green, yellow, cyan };
std::string paint(std::string_view text, Ink ink, const Style& style);

/// Columns that a terminal uses for UTF-8 text: 0 for combining marks, 2 for East Asian wide
/// characters and emoji.
int display_width(std::string_view text);

enum class Align { left, right };
/// Fills up with spaces to `width` columns; longer text stays whole.
std::string pad(std::string_view text, int width, Align align);
/// At most `width` columns; what is cut off shows as "...".
std::string clip(std::string_view text, int width);

/// For tables: four decimals where that says something, else three significant digits ("0.0712",
/// "1.2e-05", "nan").
std::string metric_text(double value);
/// Shortest text that reads back as the same double ("0.1", "1e-05", "nan", "inf"); for lr columns
/// and CSV.
std::string exact_text(double value);
/// Whole numbers with thousands below the comma: "31,214"; one decimal below 100: "6.7".
std::string rate_text(double value);
/// A share of 1 in whole per cent, without the sign: 0.314 -> "31"; "-" where it is not a number.
std::string percent_text(double share);

/// Non-finite numbers travel as the strings "nan", "inf", "-inf", as in the event stream.
Json json_number(double value);

struct Spark {
  std::size_t width = 48;           // signs at most
  std::optional<Interval> scale{};  // absent: from the lowest to the highest
  char gap = '!';                   // of what is not finite
};
/// Eight heights of blocks, or of ASCII signs: one for each value, or for the mean of neighbours.
std::string sparkline(std::span<const double> values, Glyphs glyphs, const Spark& spark = {});

}  // namespace trainctl::report
