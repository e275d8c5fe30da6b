#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::data {

/// One field of a record, with where it begins: line and column count from 1, the column in bytes.
struct CsvField {
  std::string_view text;
  std::int64_t line = 0;
  std::int64_t column = 0;
};

/// Records of comma- or tab-separated text as RFC 4180 says: quotes, doubled quotes, line breaks
/// within quotes, LF or CRLF, and a byte-order mark in front. Blank lines are passed over. The last
/// line needs no line break. Throws Error(data) naming file, line and column.
class CsvReader {
 public:
  /// `text` must outlive the reader; `name` is what errors call the file.
  CsvReader(std::string_view text, std::string name, char delimiter);

  /// The next record, or false behind the last. The texts are valid until the call after.
  bool next(std::vector<CsvField>& record);

  /// "data.csv:3:14", for errors about a field's content.
  [[nodiscard]] std::string place(const CsvField& field) const;
  /// Line of the next record.
  [[nodiscard]] std::int64_t line() const { return line_; }

 private:
  void skip_blank_lines();
  CsvField field();
  CsvField quoted(CsvField start);
  bool ends_record();
  void begin_line(std::size_t line_end_bytes);
  [[noreturn]] void fail(const CsvField& where, const std::string& what) const;
  [[noreturn]] void cut_off(const std::string& within) const;
  [[nodiscard]] CsvField here() const;

  std::string_view text_;
  std::string name_;
  char delimiter_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::size_t line_start_ = 0;
  std::deque<std::string> unescaped_;  // of this record: a view stays valid when another is added
};

}  // namespace trainctl::data
