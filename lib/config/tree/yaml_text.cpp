#include "config/tree/yaml_text.hpp"

#include "base/strings.hpp"
#include "config/tree/yaml.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace trainctl::config {
namespace {

// yaml-cpp holds every open bracket of a line in memory before the first event.
constexpr std::size_t kMaxOpenBrackets = 4096;

struct Sentence {
  std::string_view theirs;  // how yaml-cpp's message starts
  std::string_view message;
  std::string_view hint;
};

constexpr Sentence kSentences[] = {
    {"end of map flow not found", "a '{' has no '}'",
     "close the map, or put commas between its keys"},
    {"end of sequence flow not found", "a '[' has no ']'",
     "close the list, or put commas between its items"},
    {"end of map not found", "this line does not fit the map above it",
     "indent it like the keys around it, and write 'key: value'"},
    {"end of sequence not found", "this line does not fit the list above it",
     "indent it like the items around it, and begin with '- '"},
    {"illegal map value", "a ':' stands where no value may begin",
     "indent keys alike, and quote a text that contains ': '"},
    {"illegal map key", "a key stands where none may begin", "indent it like the keys around it"},
    {"illegal block entry", "a '-' stands where no list item may begin",
     "put the list on lines of its own, indented alike"},
    {"illegal flow end", "a bracket closes what is not open",
     "check the brackets before it: [ ends with ], { with }"},
    {"illegal tab", "a tab indents this line", "indent with spaces"},
    {"illegal EOF in scalar", "a quoted text is not closed", "add the closing quote"},
    {"illegal document indicator", "a quoted text is not closed", "add the closing quote"},
    {"illegal character in scalar", "this character cannot begin a value", "quote the text"},
    {"unknown escape character", "unknown escape in a double-quoted text",
     "write \\\\ for a backslash, or use single quotes"},
    {"bad character found while scanning hex", "bad hex digits in an escape",
     "write \\x and two hex digits"},
    {"invalid unicode", "this escape is no Unicode character", ""},
    {"unknown token", "this character cannot begin a value", "quote the text"},
    {"the referenced anchor is not defined", "this alias names no anchor above it",
     "define it with &name first"},
    {"alias not found after *", "'*' must be followed by the name of an anchor",
     "quote a text that begins with '*'"},
    {"anchor not found after &", "'&' must be followed by a name",
     "quote a text that begins with '&'"},
    {"illegal character found while scanning alias",
     "'*' must be followed by the name of an anchor", "quote a text that begins with '*'"},
    {"illegal character found while scanning anchor", "'&' must be followed by a name",
     "quote a text that begins with '&'"},
    {"aliases can't have any content", "an alias stands alone", "remove what follows it"},
    {"unexpected character in block scalar", "text after a '|' or '>'",
     "begin the text on the next line"},
    {"cannot set zero indentation", "a block text cannot have indentation 0", "remove the 0"},
};

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 2)
    return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  return character.size() == 1 &&
         ((first < 0x20 && first != '\t' && first != '\n' && first != '\r') || first == 0x7F);
}

// "key:value" without the space is one text in YAML; the classic slip.
bool lacks_space_after_colon(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" -");
  if (begin == std::string_view::npos) return false;
  std::size_t end = begin;
  while (end < line.size() &&
         (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_'))
    ++end;
  return end > begin && end + 1 < line.size() && line[end] == ':' && line[end + 1] != ' ' &&
         line[end + 1] != '/' && line[end + 1] != '\r';
}

bool has_tab_indent(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin != std::string_view::npos &&
         line.substr(0, begin).find('\t') != std::string_view::npos;
}

// One past the quote that closes the one at the front.
std::size_t end_of_quote(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[0] == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == text[0]) {
      if (text[0] == '"' || !text.substr(i + 1).starts_with('\'')) return i + 1;
      ++i;
    }
  }
  return std::string_view::npos;
}

}  // namespace

YamlText::YamlText(std::shared_ptr<const Source> source, std::string_view text, int first_column)
    : source_(std::move(source)), text_(text), first_column_(first_column), starts_{0} {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') starts_.push_back(i + 1);
  }
}

Position YamlText::at(std::size_t offset, std::size_t length) const {
  const auto next = std::ranges::upper_bound(starts_, offset);
  const auto line = static_cast<int>(next - starts_.begin());
  const int shift = line == 1 ? first_column_ : 1;
  return {source_, line, static_cast<int>(offset - *(next - 1)) + shift,
          static_cast<int>(std::max<std::size_t>(length, 1))};
}

std::size_t YamlText::offset_of(int line, int column) const {
  if (line < 0 || column < 0 || static_cast<std::size_t>(line) >= starts_.size())
    return text_.size();
  return std::min(starts_[static_cast<std::size_t>(line)] + static_cast<std::size_t>(column),
                  text_.size());
}

Position YamlText::position(int line, int column, std::size_t length) const {
  return at(offset_of(line, column), length);
}

std::string_view YamlText::rest_of_line(int line, int column) const {
  const std::size_t begin = offset_of(line, column);
  const auto next = std::ranges::upper_bound(starts_, begin);
  const std::size_t end = next == starts_.end() ? text_.size() : *next - 1;
  std::string_view rest = text_.substr(begin, end - begin);
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

Position YamlText::last_before(int line, int column, char mark) const {
  const std::size_t offset = offset_of(line, column);
  const std::size_t found = text_.rfind(mark, offset);
  return at(found == std::string_view::npos ? offset : found);
}

std::string_view YamlText::value_at(int line, int column) const {
  std::string_view rest = rest_of_line(line, column);
  if (rest.starts_with('&')) {
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  }
  return rest;
}

Position YamlText::scalar(int line, int column, std::string_view value) const {
  const std::string_view rest = value_at(line, column);
  const auto skipped = static_cast<int>(rest_of_line(line, column).size() - rest.size());
  std::size_t length = rest.starts_with(value) ? value.size() : 1;
  if (rest.starts_with('"') || rest.starts_with('\''))
    length = std::min(end_of_quote(rest), rest.size());
  return position(line, column + skipped, length);
}

bool YamlText::is_closed(int line, int column) const {
  const std::string_view rest = value_at(line, column);
  if (!rest.starts_with('"') && !rest.starts_with('\'')) return true;
  return end_of_quote(text_.substr(static_cast<std::size_t>(rest.data() - text_.data()))) !=
         std::string_view::npos;
}

bool YamlText::has_null(int line, int column) const {
  const std::string_view rest = value_at(line, column);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t,]}#"));
  return word == "~" || word == "null" || word == "Null" || word == "NULL";
}

bool YamlText::check_bytes(Diagnostics& diagnostics) const {
  std::size_t open = 0;
  for (std::size_t i = 0; i < text_.size();) {
    const std::size_t length = utf8_length(text_.substr(i));
    if (length == 0) {
      diagnostics.error(
          at(i),
          fmt::format("byte 0x{:02x} is not valid UTF-8", static_cast<unsigned char>(text_[i])),
          "save the file as UTF-8");
      return false;
    }
    if (is_control(text_.substr(i, length))) {
      diagnostics.error(at(i),
                        fmt::format("control character {}", printable(text_.substr(i, length))),
                        "remove it, or write it as an escape in double quotes");
      return false;
    }
    if (text_[i] == '[' || text_[i] == '{') ++open;
    if ((text_[i] == ']' || text_[i] == '}') && open > 0) --open;
    if (open > kMaxOpenBrackets) {
      diagnostics.error(at(i), fmt::format("nested {} deep, the limit is {}", open, kMaxDepth),
                        "close the brackets");
      return false;
    }
    i += length;
  }
  return true;
}

void YamlText::report_syntax(int line, int column, std::string_view message,
                             Diagnostics& diagnostics) const {
  const Position where = position(line, column);
  std::string text = fmt::format("YAML: {}", message);
  std::string hint;
  for (const Sentence& sentence : kSentences) {
    if (!message.starts_with(sentence.theirs)) continue;
    text = sentence.message;
    hint = sentence.hint;
    break;
  }
  // The slip is often on the line before the one where yaml-cpp gives up.
  for (const int candidate : {where.line - 1, where.line - 2}) {
    const std::string_view suspect = rest_of_line(candidate, 0);
    if (has_tab_indent(suspect)) {
      diagnostics.error(position(candidate, static_cast<int>(suspect.find('\t'))),
                        "a tab indents this line", "indent with spaces");
      return;
    }
    if (lacks_space_after_colon(suspect)) {
      diagnostics.error(position(candidate, static_cast<int>(suspect.find(':'))),
                        "no space after the colon", "write 'key: value'");
      return;
    }
  }
  diagnostics.error(where, std::move(text), std::move(hint));
}

std::shared_ptr<const Source> make_source(std::string name, std::string_view text,
                                          std::filesystem::path folder) {
  Source source;
  source.name = std::move(name);
  source.folder = std::move(folder);
  for (std::string& line : split(text, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    source.lines.push_back(std::move(line));
  }
  return std::make_shared<const Source>(std::move(source));
}

}  // namespace trainctl::config
