#pragma once

#include "config/diagnostics.hpp"
#include "config/tree/node.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// The raw text beside the parser's events: places, and what was written where.
class YamlText {
 public:
  YamlText(std::shared_ptr<const Source> source, std::string_view text, int first_column);

  /// Lines and columns from 0, as yaml-cpp counts them; outside the text: its end.
  [[nodiscard]] Position position(int line, int column, std::size_t length = 1) const;
  /// From a place to the end of its line.
  [[nodiscard]] std::string_view rest_of_line(int line, int column) const;
  /// The same without the anchor in front of a value.
  [[nodiscard]] std::string_view value_at(int line, int column) const;
  /// The place and extent of a scalar that yaml-cpp read as `value`.
  [[nodiscard]] Position scalar(int line, int column, std::string_view value) const;
  /// Whether a quoted text that begins there ends.
  [[nodiscard]] bool is_closed(int line, int column) const;
  /// The last `mark` at or before a place.
  [[nodiscard]] Position last_before(int line, int column, char mark) const;
  /// Whether a null is written there, not left out.
  [[nodiscard]] bool has_null(int line, int column) const;

  /// Bytes no YAML parser should see: invalid UTF-8, control characters, thousands of open
  /// brackets. False if any.
  bool check_bytes(Diagnostics& diagnostics) const;
  /// A syntax error of yaml-cpp in words of ours.
  void report_syntax(int line, int column, std::string_view message,
                     Diagnostics& diagnostics) const;

 private:
  [[nodiscard]] Position at(std::size_t offset, std::size_t length = 1) const;
  [[nodiscard]] std::size_t offset_of(int line, int column) const;

  std::shared_ptr<const Source> source_;
  std::string_view text_;
  int first_column_;
  std::vector<std::size_t> starts_;
};

}  // namespace trainctl::config
