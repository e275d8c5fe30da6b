#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::data {

/// One field of a record and its position: line and column count from 1, the column in bytes.
struct CsvField {
  std::string_view text;
  std::int64_t line = 0;
  std::int64_t column = 0;
};

/// Parses comma- or tab-separated text by RFC 4180: quotes, doubled quotes, line breaks within
/// quotes, LF or CRLF, and a leading byte order mark. Skips blank lines. The last line needs no
/// line break. Throws Error(data) with file, line and column.
class CsvReader {
 public:
  /// `text` must outlive the reader; `name` is the file name in errors.
  CsvReader(std::string_view text, std::string name, char delimiter);

  /// Reads the next record, or returns false at the end. The texts are valid until the next call.
  bool next(std::vector<CsvField>& record);

  /// Returns "data.csv:3:14", for errors about the content of a field.
  [[nodiscard]] std::string place(const CsvField& field) const;
  /// Returns the line of the next record.
  [[nodiscard]] std::int64_t line() const { return line_; }

 private:
  void skip_blank_lines();
  CsvField field();
  CsvField quoted(CsvField start);
  bool ends_record();
  void begin_line(std::size_t line_end_bytes);
  [[noreturn]] void fail(const CsvField& where, const std::string& what) const;
  [[noreturn]] void cut_off(const std::string& what) const;
  [[nodiscard]] CsvField here() const;

  std::string_view text_;
  std::string name_;
  char delimiter_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::size_t line_start_ = 0;
  std::deque<std::string>
      unescaped_;  // of this record; a deque keeps the views valid when it grows
};

}  // namespace trainctl::data
