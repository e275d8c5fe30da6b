#pragma once

#include "base/json.hpp"
#include "report/compare/statistics.hpp"

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

// How numbers and words look in every report: one place, so that the table, the summary and the bar
// agree.

namespace trainctl::report {

enum class Glyphs { ascii, unicode };
enum class Colors { off, on };

/// What the reader's terminal can show.
struct Style {
  Glyphs glyphs = Glyphs::ascii;
  Colors colors = Colors::off;
  int width = 120;  // columns
};

/// Ink of painted words; nothing is painted where Style::colors is off.
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
/// The text, or null where it is empty.
Json or_null(const std::string& text);
/// The value, or null where it is absent; with `to_json` what that makes of the value.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <class T, class ToJson>
Json or_null(const std::optional<T>& value, const ToJson& to_json) {
  return value ? Json(to_json(*value)) : Json(nullptr);
}
/// [low, high], or null.
Json interval_json(const std::optional<Interval>& interval);

/// The list of what `to_json` makes of each item.
template <class Items, class ToJson>
Json json_list(const Items& items, const ToJson& to_json) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(to_json(item));
  return list;
}

/// Appends a text that the list does not have yet.
void add_new(std::vector<std::string>& list, const std::string& text);

/// An object of {name, number} pairs.
Json numbers_object(std::span<const std::pair<std::string, double>> numbers);

/// A plain value as it is, a number as json_number() writes it, an absent value as null.
template <class T>
Json json_value(const T& value) {
  return value;
}
inline Json json_value(const double& value) { return json_number(value); }
template <class T>
Json json_value(const std::optional<T>& value) {
  return value ? json_value(*value) : Json(nullptr);
}

/// JSON_FIELDS(epoch, lr, wall_s) is {"lr": epoch.lr, "wall_s": epoch.wall_s}: an object of members
/// under their own names, in this order, each as json_value() writes it.
#define JSON_FIELDS(record, ...)                                                \
  [](const auto& source) {                                                      \
    Json object = Json::object();                                               \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(TRAINCTL_JSON_FIELD, __VA_ARGS__)) \
    return object;                                                              \
  }(record)
#define TRAINCTL_JSON_FIELD(name) object[#name] = ::trainctl::report::json_value(source.name);

/// One object of the members of several, in their order.
Json joined(std::initializer_list<Json> objects);

/// "  LABEL       text" and a newline: a line of a summary, whose texts begin in one column.
std::string fact_line(std::string_view label, const std::string& text, const Style& style,
                      int label_width = 12);

struct Spark {
  std::size_t width = 48;           // signs at most
  std::optional<Interval> scale{};  // absent: from the lowest to the highest
  char gap = '!';                   // of what is not finite
};
/// Eight heights of blocks, or of ASCII signs: one for each value, or for the mean of neighbors.
std::string sparkline(std::span<const double> values, Glyphs glyphs, const Spark& spark = {});

}  // namespace trainctl::report
