#pragma once

#include "base/strings.hpp"
#include "report/compare/statistics.hpp"

#include <initializer_list>
#include <type_traits>
#include <utility>

// The formats of numbers and words in all reports, so that the table, the summary and the progress
// bar agree.

namespace trainctl::report {

enum class Glyphs { ascii, unicode };
enum class Colors { off, on };

/// The capabilities of the reader's terminal.
struct Style {
  Glyphs glyphs = Glyphs::ascii;
  Colors colors = Colors::off;
  int width = 120;  // columns
};

/// Colors of words; paint() returns the text unchanged if Style::colors is off.
enum class Ink { bold, dim, red, green, yellow, cyan };
std::string paint(std::string_view text, Ink ink, const Style& style);

/// Returns the columns that a terminal uses for UTF-8 text: 0 for combining marks, 2 for East Asian
/// wide characters and emoji.
int display_width(std::string_view text);

enum class Align { left, right };
/// Pads text with spaces to `width` columns; longer text is unchanged.
std::string pad(std::string_view text, int width, Align align);
/// Cuts text to at most `width` columns, with "..." at the end.
std::string clip(std::string_view text, int width);

/// Formats a value for tables: four decimals if they are significant, else three significant digits
/// ("0.0712", "1.2e-05", "nan").
std::string metric_text(double value);
/// Returns the shortest text that reads back as the same double ("0.1", "1e-05", "nan", "inf"), for
/// lr columns and CSV.
std::string exact_text(double value);
/// Formats a rate as an integer with thousands separators: "31,214"; with one decimal below 100:
/// "6.7".
std::string rate_text(double value);
/// Formats a fraction as whole percent without the sign: 0.314 -> "31"; "-" for NaN.
std::string percent_text(double share);

/// Returns a number, or one of the strings "nan", "inf", "-inf" as in the event stream.
Json json_number(double value);
/// Returns the text, or null if it is empty.
Json or_null(const std::string& text);
/// Returns the value, or null if it is absent; `to_json` converts the value.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <class T, class ToJson>
Json or_null(const std::optional<T>& value, const ToJson& to_json) {
  return value ? Json(to_json(*value)) : Json(nullptr);
}
/// Returns a JSON list of the converted items.
template <class Items, class ToJson>
Json json_list(const Items& items, const ToJson& to_json) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(to_json(item));
  return list;
}

/// Appends a text that the list does not contain yet.
void add_new(std::vector<std::string>& list, const std::string& text);

/// Converts a value for a document: a double with json_number(), an absent value to null, an
/// interval to [low, high], an enum to its name, and a plain value directly.
template <class T>
Json json_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return enum_name(value);
  } else {
    return value;
  }
}
inline Json json_value(const double& value) { return json_number(value); }
Json json_value(const Interval& interval);
Json json_value(const Quartiles& quartiles);
Json json_value(const Speedup& speedup);
/// Returns an object of the {name, number} pairs.
Json json_value(const std::vector<std::pair<std::string, double>>& numbers);
template <class T>
Json json_value(const std::vector<T>& values) {
  return json_list(values, [](const T& value) { return json_value(value); });
}
template <class T>
Json json_value(const std::optional<T>& value) {
  return value ? json_value(*value) : Json(nullptr);
}

/// JSON_FIELDS(epoch, lr, wall_s) is {"lr": epoch.lr, "wall_s": epoch.wall_s}: an object with the
/// members under their own names, in this order, converted by json_value().
#define JSON_FIELDS(record, ...)                                                \
  [](const auto& source) {                                                      \
    Json object = Json::object();                                               \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(TRAINCTL_JSON_FIELD, __VA_ARGS__)) \
    return object;                                                              \
  }(record)
#define TRAINCTL_JSON_FIELD(name) object[#name] = ::trainctl::report::json_value(source.name);

/// Returns a function that makes such an object of a record.
#define JSON_OF(...) [](const auto& json_record) { return JSON_FIELDS(json_record, __VA_ARGS__); }

/// Merges the members of several objects, in order.
Json joined(std::initializer_list<Json> objects);

/// Returns a line of a summary, "  LABEL       text" and a newline; the texts of all lines are
/// aligned.
std::string fact_line(std::string_view label, const std::string& text, const Style& style,
                      int label_width = 12);

struct Spark {
  std::size_t width = 48;           // maximum number of characters
  std::optional<Interval> scale{};  // absent: from the lowest to the highest value
  char gap = '!';                   // for values that are not finite
};
/// Returns a line of block or ASCII characters with eight heights: one per value, or per mean of
/// neighbors.
std::string sparkline(std::span<const double> values, Glyphs glyphs, const Spark& spark = {});

}  // namespace trainctl::report
