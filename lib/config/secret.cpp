#include "config/secret.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

namespace trainctl::config {

std::string Secret::value() const {
  const char* found = std::getenv(name.c_str());
  ENSURE(config, found != nullptr && *found != '\0',
         "the environment variable '{}' of ${{secret:{}}} is not set\nhint: set the variable "
         "before you start trainctl",
         name, name);
  const std::string_view text(found);
  ENSURE(config,
         std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isgraph(static_cast<unsigned char>(c)) != 0; }),
         "the environment variable '{}' of ${{secret:{}}} must not contain spaces, line ends or "
         "control characters\nhint: set the variable to a value without these characters",
         name, name);
  return found;
}

namespace {

constexpr std::size_t kNone = std::string::npos;
constexpr std::string_view kBlanks = " \t";

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

/// Returns the words of `hf_token`, `api-key` or `secretAccessKey` in lower case.
std::vector<std::string> words_of(std::string_view key) {
  std::vector<std::string> words(1);
  bool after_lower = false;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const bool starts_word = after_lower && std::isupper(byte) != 0;
    if ((c == '_' || c == '-' || starts_word) && !words.back().empty()) words.emplace_back();
    if (c != '_' && c != '-') words.back() += static_cast<char>(std::tolower(byte));
    after_lower = std::islower(byte) != 0 || std::isdigit(byte) != 0;
  }
  return words;
}

bool names_secret(std::string_view key) {
  constexpr std::array<std::string_view, 10> kWords{
      "secret", "token",      "password",    "passwd", "passphrase",
      "pwd",    "credential", "credentials", "auth",   "authorization"};
  constexpr std::array<std::string_view, 4> kKinds{"api", "access", "private", "encryption"};
  const std::vector<std::string> words = words_of(key);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::ranges::find(kWords, words[i]) != kWords.end()) return true;
    const bool is_key = words[i] == "key" && i > 0;
    if (is_key && std::ranges::find(kKinds, words[i - 1]) != kKinds.end()) return true;
    for (const std::string_view part : {"secret", "password", "apikey", "accesskey"}) {
      if (words[i].find(part) != kNone) return true;
    }
  }
  return false;
}

/// Returns where the value of the key in [begin, end) starts, or kNone if no value follows. The
/// name of an anchor counts as a key: `&secret value`.
std::size_t value_begin(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && text[begin - 1] == '&')
    return std::min(text.find_first_not_of(kBlanks, end), text.size());
  if (end < text.size() && (text[end] == '"' || text[end] == '\'')) ++end;
  end = text.find_first_not_of(kBlanks, end);
  if (end == kNone || (text[end] != ':' && text[end] != '=')) return kNone;
  return std::min(text.find_first_not_of(kBlanks, end + 1), text.size());
}

/// Returns where the closing quotation mark `mark` is, past escapes: \" in "...", '' in '...'.
std::size_t closing_quote(std::string_view text, std::size_t at, char mark) {
  for (; at < text.size(); ++at) {
    const bool is_doubled = mark == '\'' && text.substr(at, 2) == "''";
    if ((mark == '"' && text[at] == '\\') || is_doubled) {
      ++at;
    } else if (text[at] == mark) {
      return at;
    }
  }
  return text.size();
}

bool is_quote(char c) { return c == '"' || c == '\''; }

/// Returns where a value starts after its tag and anchor: `!!str &name value`.
std::size_t past_properties(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == '!' || text[at] == '&')) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    at = std::min(text.find_first_not_of(kBlanks, end), text.size());
  }
  return at;
}

bool is_in_flow(std::string_view text, std::size_t at) {
  return text.substr(0, at).find('{') != kNone;
}

/// Returns the end of the value that starts at `begin`; for a list or map, the end of the line.
std::size_t value_end(std::string_view text, std::size_t begin) {
  begin = past_properties(text, begin);
  const char first = begin < text.size() ? text[begin] : ' ';
  if (is_quote(first)) return closing_quote(text, begin + 1, first);
  if (first == '[' || first == '{' || !is_in_flow(text, begin)) return text.size();
  const bool has_reference = text.substr(begin).starts_with("${");
  const std::size_t from = has_reference ? std::min(text.find('}', begin), text.size() - 1) : begin;
  return std::min(text.find_first_of(",}", has_reference ? from + 1 : from), text.size());
}

void cover_range(std::string& text, std::size_t begin, std::size_t end) {
  text.replace(begin, end - begin, end - begin, '*');
}

/// Returns whether the value is exactly one reference. Such a value is shown. A reference with a
/// default, `${env:NAME,default}`, with other text in its braces or with one word, which is neither
/// a variable nor a path of keys, is hidden, since the text may be the secret itself.
bool is_reference(std::string_view value) {
  value = trimmed(value, "\"' \t");
  if (!value.starts_with("${") || value.find('}') != value.size() - 1) return false;
  std::string_view name = value.substr(2, value.size() - 3);
  const std::size_t whole = name.size();
  for (const std::string_view kind : {"secret:", "env:", "oc.env:"})
    if (name.starts_with(kind)) name.remove_prefix(kind.size());
  if (name.size() == whole && name.find('.') == kNone) return false;
  return std::ranges::all_of(name, [](char c) { return is_key_character(c) || c == '.'; });
}

/// Covers what follows the closing quotation mark at `end`, such as a comment, unless the next
/// value of a list or map follows.
void cover_rest(std::string& text, std::size_t end) {
  const std::size_t next = end < text.size() ? text.find_first_not_of(kBlanks, end + 1) : kNone;
  constexpr std::string_view kSeparators = ",}]\"'";
  if (next != kNone && kSeparators.find(text[next]) == kNone) cover_range(text, next, text.size());
}

std::size_t leading_blanks(std::string_view line) {
  return std::min(line.find_first_not_of(kBlanks), line.size());
}

/// The value of a secret that continues on the next line.
struct OpenValue {
  char quote = '\0';       // quotation mark of a quoted text
  bool in_flow = false;    // in a list or map in brackets, where indentation is ignored
  bool is_empty = false;   // no part of the value is on the line of its key
  std::size_t indent = 0;  // indentation of the key
};

bool has_open_bracket(std::string_view line) {
  return std::ranges::count_if(line, [](char c) { return c == '{' || c == '['; }) >
         std::ranges::count_if(line, [](char c) { return c == '}' || c == ']'; });
}

/// Returns the value after the key in [begin, end) if it continues on the next line.
std::optional<OpenValue> open_value_of(std::string_view line, std::size_t begin, std::size_t end) {
  const std::size_t indent = leading_blanks(line);
  const std::size_t value = value_begin(line, begin, end);
  if (value == kNone) {
    const bool is_explicit = line.substr(indent).starts_with("? ");
    return is_explicit ? std::optional(OpenValue{.is_empty = true, .indent = indent})
                       : std::nullopt;
  }
  const std::size_t content = past_properties(line, value);
  if (content < line.size() && value_end(line, value) < line.size()) return std::nullopt;
  const char first = content < line.size() ? line[content] : '#';
  const bool is_first = line.substr(0, begin).find_first_not_of(" \t-?\"'") == kNone;
  return OpenValue{
      .quote = is_quote(first) ? first : '\0',
      .in_flow = has_open_bracket(line),
      .is_empty = first == '#' || first == '|' || first == '>',
      .indent = is_first ? begin - (begin > 0 && is_quote(line[begin - 1]) ? 1 : 0) : indent};
}

std::optional<OpenValue> open_value(std::string_view line) {
  std::optional<OpenValue> open;
  for (std::size_t at = 0; at < line.size() && !open;) {
    const std::size_t begin = at;
    while (at < line.size() && is_key_character(line[at])) ++at;
    if (at > begin && names_secret(line.substr(begin, at - begin)))
      open = open_value_of(line, begin, at);
    if (at == begin) ++at;
  }
  return open;
}

bool continues(const OpenValue& open, std::string_view line) {
  const std::size_t indent = leading_blanks(line);
  if (open.quote != '\0' || open.in_flow || indent == line.size() || indent > open.indent)
    return true;
  const char first = line[indent];
  const bool is_next_key = line.find(": ") != kNone || line.find_last_of(':') == line.size() - 1;
  return open.is_empty && indent == open.indent && (first == '-' || first == ':' || !is_next_key);
}

/// Returns the value that continues after `line`, given the one that continues before it.
std::optional<OpenValue> open_value_after(const std::optional<OpenValue>& open,
                                          std::string_view line) {
  if (!open || !continues(*open, line)) return open_value(line);
  if (open->quote != '\0') {
    const std::size_t end = closing_quote(line, 0, open->quote);
    return end < line.size() ? open_value(line.substr(end + 1)) : open;
  }
  return open->in_flow && line.find_first_of(",}]") != kNone ? open_value(line) : open;
}

}  // namespace

std::string without_secrets(std::string text) {
  for (std::size_t at = 0; at < text.size();) {
    if (!is_key_character(text[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    while (at < text.size() && is_key_character(text[at])) ++at;
    if (!names_secret(std::string_view(text).substr(begin, at - begin))) continue;
    if (begin >= 2 && text.compare(begin - 2, 2, "${") == 0) continue;  // ${secret:NAME}
    const std::size_t value = value_begin(text, begin, at);
    if (value == kNone) continue;
    const std::size_t end = value_end(text, value);
    const std::size_t content = past_properties(text, value);
    const bool is_quoted = content < text.size() && is_quote(text[content]);
    at = std::max(at, end);
    if (is_quoted) cover_rest(text, end);
    if (is_reference(std::string_view(text).substr(value, end - value))) continue;
    cover_range(text, value + (is_quoted && content == value ? 1 : 0), end);
  }
  return without_credentials(std::move(text));
}

std::string line_without_secrets(const std::vector<std::string>& lines, std::size_t index) {
  constexpr std::size_t kMostAbove = 100;
  const std::string& line = lines[index];
  std::optional<OpenValue> open;
  for (std::size_t i = index - std::min(index, kMostAbove); i < index; ++i)
    open = open_value_after(open, lines[i]);
  if (!open || !continues(*open, line)) return without_secrets(line);
  const std::size_t indent = leading_blanks(line);
  return std::string(indent, ' ') + std::string(line.size() - indent, '*');
}

}  // namespace trainctl::config
