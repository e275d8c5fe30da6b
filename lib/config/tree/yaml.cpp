#include "config/tree/yaml.hpp"

#include "base/strings.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <unordered_map>

// Only this source uses yaml-cpp. Its event interface, unlike its node interface, reports tags,
// aliases and anchors with positions, and the handler can stop the parser early on a hostile file.

namespace trainctl::config {
namespace {

// yaml-cpp stores every open bracket of a line before it emits the first event.
constexpr std::size_t kMaxOpenBrackets = 4096;

struct Sentence {
  std::string_view theirs;  // start of yaml-cpp's message
  std::string_view message;
  std::string_view hint;
};

constexpr Sentence kSentences[] = {
    {"end of map flow not found", "this '{' has no '}'",
     "close the map, or put commas between its keys"},
    {"end of sequence flow not found", "this '[' has no ']'",
     "close the list, or put commas between its items"},
    {"end of map not found", "this line does not fit the map above it",
     "indent it like the keys around it, and write 'key: value'"},
    {"end of sequence not found", "this line does not fit the list above it",
     "indent it like the items around it, and begin with '- '"},
    {"illegal map value", "a ':' is not allowed here",
     "indent keys alike, and quote a text that contains ': '"},
    {"illegal map key", "a key is not allowed here",
     "indent it like the keys around it, or quote a text that starts with '?'"},
    {"illegal block entry", "a list item with '-' is not allowed here",
     "put the list on separate lines with equal indentation"},
    {"illegal flow end", "a closing bracket has no opening bracket",
     "check the brackets before it: [ ends with ], { with }"},
    {"illegal tab", "a tab indents this line", "indent with spaces"},
    {"illegal EOF in scalar", "a quoted text is not closed", "add the closing quote"},
    {"illegal document indicator", "a quoted text is not closed", "add the closing quote"},
    {"illegal character in scalar", "this character cannot begin a value", "quote the text"},
    {"unknown escape character", "unknown escape in a double-quoted text",
     "write \\\\ for a backslash, or use single quotes"},
    {"bad character found while scanning hex", "this escape has invalid hex digits",
     "write \\x and two hex digits"},
    {"invalid unicode", "this escape is not a Unicode character", ""},
    {"unknown token", "this character cannot begin a value", "quote the text"},
    {"the referenced anchor is not defined", "this alias does not match an anchor above it",
     "define it with &name first"},
    {"alias not found after *", "'*' must be followed by the name of an anchor",
     "quote a text that begins with '*'"},
    {"anchor not found after &", "'&' must be followed by a name",
     "quote a text that begins with '&'"},
    {"illegal character found while scanning alias",
     "'*' must be followed by the name of an anchor", "quote a text that begins with '*'"},
    {"illegal character found while scanning anchor", "'&' must be followed by a name",
     "quote a text that begins with '&'"},
    {"aliases can't have any content", "an alias must be the whole value",
     "remove what follows it"},
    {"unexpected character in block scalar", "text follows a '|' or '>' on the same line",
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

// "key:value" without the space is one string in YAML, a common mistake.
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

// Returns the position after the quote that closes the first one.
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

/// The raw text, which has what the parser's events lack: positions, and how a value was written.
class YamlText {
 public:
  YamlText(std::shared_ptr<const Source> source, std::string_view text, int first_column)
      : source_(std::move(source)), text_(text), first_column_(first_column), starts_{0} {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  /// Lines and columns count from 0, as in yaml-cpp. Positions outside the text refer to its end.
  [[nodiscard]] Position position(int line, int column, std::size_t length = 1) const {
    return at(offset_of(line, column), length);
  }

  /// Returns the text from a position to the end of its line.
  [[nodiscard]] std::string_view rest_of_line(int line, int column) const {
    const std::size_t begin = offset_of(line, column);
    const auto next = std::ranges::upper_bound(starts_, begin);
    const std::size_t end = next == starts_.end() ? text_.size() : *next - 1;
    std::string_view rest = text_.substr(begin, end - begin);
    if (rest.ends_with('\r')) rest.remove_suffix(1);
    return rest;
  }

  /// Returns the same without an anchor before the value.
  [[nodiscard]] std::string_view value_at(int line, int column) const {
    std::string_view rest = rest_of_line(line, column);
    if (rest.starts_with('&')) {
      rest.remove_prefix(std::min(rest.find(' '), rest.size()));
      rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    }
    return rest;
  }

  /// Returns the position and length of a scalar that yaml-cpp parsed as `value`.
  [[nodiscard]] Position scalar(int line, int column, std::string_view value) const {
    const std::string_view rest = value_at(line, column);
    const auto skipped = static_cast<int>(rest_of_line(line, column).size() - rest.size());
    std::size_t length = rest.starts_with(value) ? value.size() : 1;
    if (rest.starts_with('"') || rest.starts_with('\''))
      length = std::min(end_of_quote(rest), rest.size());
    return position(line, column + skipped, length);
  }

  /// Returns whether a quoted text that starts there is closed.
  [[nodiscard]] bool is_closed(int line, int column) const {
    const std::string_view rest = value_at(line, column);
    if (!rest.starts_with('"') && !rest.starts_with('\'')) return true;
    return end_of_quote(text_.substr(static_cast<std::size_t>(rest.data() - text_.data()))) !=
           std::string_view::npos;
  }

  /// Returns the position of the last `mark` at or before a position.
  [[nodiscard]] Position last_before(int line, int column, char mark) const {
    const std::size_t offset = offset_of(line, column);
    const std::size_t found = text_.rfind(mark, offset);
    return at(found == std::string_view::npos ? offset : found);
  }

  /// Returns whether a null is written there, as opposed to omitted.
  [[nodiscard]] bool has_null(int line, int column) const {
    const std::string_view rest = value_at(line, column);
    const std::string_view word = rest.substr(0, rest.find_first_of(" \t,]}#"));
    return word == "~" || word == "null" || word == "Null" || word == "NULL";
  }

  /// Reports bytes that a YAML parser should not get: invalid UTF-8, control characters, thousands
  /// of open brackets. Returns false if there are any.
  bool check_bytes(Diagnostics& diagnostics) const {
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
                          fmt::format("the control character {} is not allowed",
                                      printable(text_.substr(i, length))),
                          "remove it, or write it as an escape in double quotes");
        return false;
      }
      if (text_[i] == '[' || text_[i] == '{') ++open;
      if ((text_[i] == ']' || text_[i] == '}') && open > 0) --open;
      if (open > kMaxOpenBrackets) {
        diagnostics.error(
            at(i),
            fmt::format("brackets are nested {} levels deep, more than the limit of {}", open,
                        kMaxDepth),
            "close the brackets");
        return false;
      }
      i += length;
    }
    return true;
  }

  /// Reports a syntax error of yaml-cpp with a clearer message.
  void report_syntax(int line, int column, std::string_view message,
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
    // The mistake is often on the line before the one that yaml-cpp reports.
    for (const int candidate : {where.line - 1, where.line - 2}) {
      const std::string_view suspect = rest_of_line(candidate, 0);
      if (has_tab_indent(suspect))
        return diagnostics.error(position(candidate, static_cast<int>(suspect.find('\t'))),
                                 "a tab indents this line", "indent with spaces");
      if (lacks_space_after_colon(suspect))
        return diagnostics.error(position(candidate, static_cast<int>(suspect.find(':'))),
                                 "no space after the colon", "write 'key: value'");
    }
    if (message.find("flow not found") == message.npos)
      return diagnostics.error(where, std::move(text), std::move(hint));
    const std::size_t end = offset_of(line, column);
    const std::size_t bracket = open_bracket(end);
    const std::string_view before = text_.substr(bracket, end - bracket);
    if (!before.ends_with('$') || before.find('\n') != before.npos)
      return diagnostics.error(at(bracket), std::move(text), std::move(hint));
    const std::string_view reference =
        text_.substr(end - 1, text_.find_first_of("}\n", end) - end + 2);
    diagnostics.error(at(end - 1), "a reference within { } or [ ] must be in quotes",
                      fmt::format("write \"{}\"", printable(reference)));
  }

 private:
  /// Returns the offset of the innermost bracket that is open there, or `end`.
  [[nodiscard]] std::size_t open_bracket(std::size_t end) const {
    std::vector<std::size_t> open{end};
    bool begins = true;  // a value may begin
    for (std::size_t i = 0; i < end; ++i) {
      const char c = text_[i];
      if (begins && (c == '"' || c == '\'')) {
        i += std::min(end_of_quote(text_.substr(i)), text_.size() - i) - 1;
      } else if (c == '#' && (i == 0 || text_[i - 1] == ' ' || text_[i - 1] == '\n')) {
        i = std::min(text_.find('\n', i), text_.size()) - 1;
      } else if (c == '{' || c == '[') {
        open.push_back(i);
      } else if ((c == '}' || c == ']') && open.size() > 1) {
        open.pop_back();
      }
      if (c != ' ') begins = std::string_view("\n,:-{[").find(c) != std::string_view::npos;
    }
    return open.back();
  }

  [[nodiscard]] Position at(std::size_t offset, std::size_t length = 1) const {
    const auto next = std::ranges::upper_bound(starts_, offset);
    const auto line = static_cast<int>(next - starts_.begin());
    const int shift = line == 1 ? first_column_ : 1;
    return {source_, line, static_cast<int>(offset - *(next - 1)) + shift,
            static_cast<int>(std::max<std::size_t>(length, 1))};
  }

  [[nodiscard]] std::size_t offset_of(int line, int column) const {
    if (line < 0 || column < 0 || static_cast<std::size_t>(line) >= starts_.size())
      return text_.size();
    return std::min(starts_[static_cast<std::size_t>(line)] + static_cast<std::size_t>(column),
                    text_.size());
  }

  std::shared_ptr<const Source> source_;
  std::string_view text_;
  int first_column_;
  std::vector<std::size_t> starts_;
};

struct Stop {};  // thrown after reporting a problem that ends parsing

struct Anchored {
  Node node;
  std::size_t nodes = 0;
  std::size_t height = 0;
};

// A list or map that is still open.
struct Frame {
  Node node;
  YAML::anchor_t anchor = 0;
  std::size_t nodes = 1;
  std::size_t height = 1;
  bool wants_key = false;   // for map
  bool keeps_value = true;  // for map: the key was valid
  std::string key;
  Position key_position;
  std::unordered_map<std::string, Position> seen;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const YamlText& text, Diagnostics& diagnostics)
      : text_(text), diagnostics_(diagnostics) {}

  Node take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    stop(mark, "a second YAML document begins here",
         "an experiment is one document: remove '---' and what follows");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.position = text_.position(mark.line, mark.column);
    if (!text_.has_null(mark.line, mark.column) && !frames_.empty()) {
      const Frame& parent = frames_.back();
      const bool is_value = parent.node.type == Node::Type::map && !parent.wants_key;
      if (is_value && parent.keeps_value) {
        diagnostics_.error(parent.key_position, fmt::format("{} has no value", quote(parent.key)),
                           "add a value, or remove the key");
      } else if (parent.node.type == Node::Type::list) {
        diagnostics_.error(text_.last_before(mark.line, mark.column, '-'),
                           "a list item has no value", "add a value, or remove the '-'");
      }
      node.broken = true;
    }
    add(std::move(node), anchor, 1, 0);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (++aliases_ > kMaxAliases)
      stop(mark, fmt::format("the file has more than {} aliases", kMaxAliases),
           "write the values instead of aliases");
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      stop(mark, "an alias is inside its own anchor",
           "write the value instead of the alias: a value cannot contain itself");
    }
    const Anchored& target = found->second;
    check_size(mark, target.nodes);
    check_depth(mark, frames_.size() + target.height);
    Node copy = target.node;
    copy.position = text_.position(mark.line, mark.column, 1);
    const std::string_view rest = text_.rest_of_line(mark.line, mark.column);
    copy.position.length = static_cast<int>(std::min(rest.find_first_of(" ,]}:"), rest.size()));
    add(std::move(copy), 0, target.nodes, target.height);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = Node::scalar(value, tag != "?");
    node.broken = reject_tag(mark, tag);
    if (!text_.is_closed(mark.line, mark.column))
      stop(mark, "a quoted text is not closed", "add the closing quote");
    node.position = text_.scalar(mark.line, mark.column, value);
    const std::size_t cost = value_cost(value);
    check_size(mark, cost);
    add(std::move(node), anchor, cost, 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::list());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::map());
  }
  void OnMapEnd() override { close(); }

 private:
  [[noreturn]] void stop(const YAML::Mark& mark, std::string message, std::string hint) {
    diagnostics_.error(text_.position(mark.line, mark.column), std::move(message), std::move(hint));
    throw Stop{};
  }

  void check_size(const YAML::Mark& mark, std::size_t more) {
    total_ += more;
    if (total_ > kMaxNodes)
      stop(mark,
           fmt::format("the file has more than {} values after its aliases are resolved",
                       with_thousands(kMaxNodes)),
           "use fewer aliases");
  }

  void check_depth(const YAML::Mark& mark, std::size_t depth) {
    if (depth > kMaxDepth)
      stop(mark,
           fmt::format("values are nested {} levels deep on line {}, more than the limit of {}",
                       depth, mark.line + 1, kMaxDepth),
           "use fewer levels");
  }

  // Returns true if there is a tag.
  bool reject_tag(const YAML::Mark& mark, const std::string& tag) {
    const std::string_view rest = text_.value_at(mark.line, mark.column);
    if (!rest.starts_with('!') && (tag.empty() || tag == "?" || tag == "!")) return false;
    Position position = text_.position(mark.line, mark.column);
    position.length = static_cast<int>(std::min(rest.find_first_of(" ,]}"), rest.size()));
    diagnostics_.error(
        position,
        fmt::format("tags such as {} are not supported", quote(rest.substr(0, rest.find(' ')))),
        "remove the tag; quote the value to make it a text");
    return true;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node node) {
    node.broken = reject_tag(mark, tag);
    check_depth(mark, frames_.size() + 1);
    check_size(mark, 1);
    node.position = text_.position(mark.line, mark.column);
    Frame frame;
    frame.wants_key = node.type == Node::Type::map;
    frame.node = std::move(node);
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    add(std::move(frame.node), frame.anchor, frame.nodes, frame.height);
  }

  void add(Node node, YAML::anchor_t anchor, std::size_t nodes, std::size_t height) {
    if (anchor != 0) anchors_.insert_or_assign(anchor, Anchored{node, nodes, height});
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = frames_.back();
    parent.nodes += nodes;
    parent.height = std::max(parent.height, height + 1);
    if (parent.node.type == Node::Type::list) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.wants_key) {
      add_key(parent, node);
    } else {
      parent.wants_key = true;
      if (parent.keeps_value)
        parent.node.entries.push_back({parent.key, parent.key_position, std::move(node)});
    }
  }

  void add_key(Frame& map, const Node& node) {
    map.wants_key = false;
    map.keeps_value = false;
    if (node.type != Node::Type::scalar)
      return diagnostics_.error(node.position,
                                fmt::format("a key must be a word, got {}", describe_value(node)),
                                "write 'key: value'");
    if (node.text.size() > kMaxKeyBytes)
      return diagnostics_.error(
          node.position,
          fmt::format("a key must have at most {} bytes, got {}", kMaxKeyBytes, node.text.size()),
          "shorten it");
    if (node.text == "<<")
      return diagnostics_.error(node.position, "the merge key '<<' of YAML is not supported",
                                "use 'extends' for a base file, or write the merged keys here");
    const auto [first, is_new] = map.seen.emplace(node.text, node.position);
    if (!is_new)
      return diagnostics_.add({Severity::error,
                               node.position,
                               fmt::format("duplicate key {}", quote(node.text)),
                               "remove this key or the first one",
                               {first->second, "first defined here"}});
    if (map.seen.size() > kMaxKeys) {
      diagnostics_.error(node.position, fmt::format("the map has more than {} keys", kMaxKeys),
                         "split the map");
      throw Stop{};
    }
    map.keeps_value = true;
    map.key = node.text;
    map.key_position = node.position;
  }

  const YamlText& text_;
  Diagnostics& diagnostics_;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  std::size_t total_ = 0;
  std::size_t aliases_ = 0;
  int documents_ = 0;
  Node root_;
};

}  // namespace

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

Node parse_yaml(const std::shared_ptr<const Source>& source, std::string_view text,
                Diagnostics& diagnostics, int column) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const YamlText raw(source, text, column);
  const Node broken = Node::broken_at(raw.position(0, 0));
  if (!raw.check_bytes(diagnostics)) return broken;
  Diagnostics found;  // problems found before a syntax error are unreliable
  TreeBuilder builder(raw, found);
  const auto keep = [&] {
    for (const Diagnostic& one : found.sorted()) diagnostics.add(one);
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      diagnostics.error(raw.position(0, 0), "the file has only blanks and comments",
                        "write 'key: value' lines");
      return broken;
    }
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
    keep();
    return broken;
  } catch (const YAML::Exception& error) {
    raw.report_syntax(error.mark.line, error.mark.column, error.msg, diagnostics);
    return broken;
  }
  keep();
  return builder.take_root();
}

}  // namespace trainctl::config
