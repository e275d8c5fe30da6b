#include "data/formats/csv_reader.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

namespace trainctl::data {

CsvReader::CsvReader(std::string_view text, std::string name, char delimiter)
    : text_(text), name_(printable(name)), delimiter_(delimiter) {
  ENSURE(data, !text_.starts_with("\xFF\xFE") && !text_.starts_with("\xFE\xFF"),
         "{} is UTF-16, as its first two bytes show\nhint: save it as UTF-8", name_);
  if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_start_ = 3;
  const std::size_t zero = text_.find('\0');
  ENSURE(data, zero == std::string_view::npos,
         "{} is not a text file: it has a zero byte at byte {}", name_, zero);
}

bool CsvReader::next(std::vector<CsvField>& record) {
  record.clear();
  unescaped_.clear();
  skip_blank_lines();
  if (at_ == text_.size()) return false;
  do {
    record.push_back(field());
  } while (!ends_record());
  return true;
}

void CsvReader::skip_blank_lines() {
  while (at_ < text_.size() && (text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n")) {
    begin_line(text_[at_] == '\n' ? 1 : 2);
  }
}

void CsvReader::begin_line(std::size_t line_end_bytes) {
  at_ += line_end_bytes;
  ++line_;
  line_start_ = at_;
}

CsvField CsvReader::field() {
  const CsvField start = here();
  if (at_ < text_.size() && text_[at_] == '"') return quoted(start);
  const std::size_t begin = at_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == delimiter_ || c == '\n' || c == '\r') break;
    if (c == '"')
      fail(here(),
           "a field contains a quote, but does not begin with one\nhint: put the whole field in "
           "quotes, and double the quotes that belong to the field");
    ++at_;
  }
  return {text_.substr(begin, at_ - begin), start.line, start.column};
}

CsvField CsvReader::quoted(CsvField start) {
  const std::size_t begin = ++at_;
  std::string* unescaped = nullptr;
  std::size_t copied = begin;
  while (true) {
    if (at_ == text_.size())
      cut_off(fmt::format("but the quote that opens at line {}, column {} is not closed",
                          start.line, start.column));
    const char c = text_[at_++];
    if (c == '\n') begin_line(0);
    if (c != '"') continue;
    const bool doubled = at_ < text_.size() && text_[at_] == '"';
    if (!doubled) break;
    if (unescaped == nullptr) unescaped = &unescaped_.emplace_back();
    unescaped->append(text_.substr(copied, at_ - copied));
    copied = ++at_;
  }
  start.text = text_.substr(copied, at_ - 1 - copied);
  if (unescaped != nullptr) {
    unescaped->append(start.text);
    start.text = *unescaped;
  }
  return start;
}

bool CsvReader::ends_record() {
  if (at_ == text_.size()) return begin_line(0), true;  // the last line needs no line break
  const char c = text_[at_];
  if (c == delimiter_) return ++at_, false;
  if (c == '\r') {
    if (at_ + 1 == text_.size()) cut_off("between the two bytes of a CRLF line end");
    if (text_[at_ + 1] != '\n')
      fail(here(),
           "a carriage return without a line feed\nhint: save the file with LF or CRLF line ends");
  } else if (c != '\n') {
    fail(here(), "text after a closing quote\nhint: double the quotes that belong to the field");
  }
  begin_line(c == '\r' ? 2 : 1);
  return true;
}

CsvField CsvReader::here() const {
  return {{}, line_, static_cast<std::int64_t>(at_ - line_start_) + 1};
}

std::string CsvReader::place(const CsvField& field) const {
  return fmt::format("{}:{}:{}", name_, field.line, field.column);
}

void CsvReader::fail(const CsvField& where, const std::string& what) const {
  throw Error(ErrorKind::data, place(where) + ": " + what);
}

void CsvReader::cut_off(const std::string& what) const {
  throw Error(ErrorKind::data,
              fmt::format("{} ends at byte {} (line {}), {}; the file may be cut off", name_,
                          text_.size(), line_, what));
}

}  // namespace trainctl::data
