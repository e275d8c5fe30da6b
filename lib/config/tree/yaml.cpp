#include "config/tree/yaml.hpp"

#include "base/strings.hpp"
#include "config/tree/yaml_text.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

// The one source that sees yaml-cpp. Its events, unlike its nodes, show tags, aliases and anchors
// with their places, and the handler may stop the parser before a hostile file costs anything.

namespace trainctl::config {
namespace {

struct Stop {};  // the problem is reported; nothing after it can be read

struct Anchored {
  Node node;
  std::size_t nodes = 0;
  std::size_t height = 0;
};

// A list or map that is not closed yet.
struct Frame {
  Node node;
  YAML::anchor_t anchor = 0;
  std::size_t nodes = 1;
  std::size_t height = 1;
  bool wants_key = false;   // map
  bool keeps_value = true;  // map: the key was sound
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
                           "give it one, or remove the key");
      } else if (parent.node.type == Node::Type::list) {
        diagnostics_.error(text_.last_before(mark.line, mark.column, '-'),
                           "a list item has no value", "give it one, or remove the '-'");
      }
      node.broken = true;
    }
    add(std::move(node), anchor, 1, 0);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (++aliases_ > kMaxAliases)
      stop(mark, fmt::format("more than {} aliases", kMaxAliases), "write the values out");
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      stop(mark, "an alias stands inside its own anchor",
           "a value cannot contain itself: write it out");
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
      stop(mark, fmt::format("more than {} values, aliases expanded", with_thousands(kMaxNodes)),
           "use fewer aliases");
  }

  void check_depth(const YAML::Mark& mark, std::size_t depth) {
    if (depth > kMaxDepth)
      stop(mark,
           fmt::format("nested {} deep on line {}, the limit is {}", depth, mark.line + 1,
                       kMaxDepth),
           "flatten the tree");
  }

  // True where there is a tag.
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
    if (node.type != Node::Type::scalar) {
      diagnostics_.error(node.position,
                         fmt::format("a key must be a word, found {}", describe_value(node)),
                         "write 'key: value'");
      return;
    }
    if (node.text.size() > kMaxKeyBytes) {
      diagnostics_.error(
          node.position,
          fmt::format("a key of {} bytes, the limit is {}", node.text.size(), kMaxKeyBytes),
          "shorten it");
      return;
    }
    if (node.text == "<<") {
      diagnostics_.error(node.position, "merge keys are not supported",
                         "use 'extends' for a base file, or write the keys out");
      return;
    }
    const auto [first, is_new] = map.seen.emplace(node.text, node.position);
    if (!is_new) {
      diagnostics_.add({Severity::error,
                        node.position,
                        fmt::format("duplicate key {}", quote(node.text)),
                        "and given again here: keep one",
                        {first->second, "first given here"}});
      return;
    }
    if (map.seen.size() > kMaxKeys) {
      diagnostics_.error(node.position, fmt::format("more than {} keys in one map", kMaxKeys),
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

Node broken_node(const Position& position) {
  Node node;
  node.position = position;
  node.broken = true;
  return node;
}

}  // namespace

Node parse_yaml(const std::shared_ptr<const Source>& source, std::string_view text,
                Diagnostics& diagnostics, int column) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const YamlText raw(source, text, column);
  const Node broken = broken_node(raw.position(0, 0));
  if (!raw.check_bytes(diagnostics)) return broken;
  Diagnostics found;  // a syntax error makes what was found before it doubtful
  TreeBuilder builder(raw, found);
  const auto keep = [&] {
    for (const Diagnostic& one : found.sorted()) diagnostics.add(one);
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      diagnostics.error(raw.position(0, 0), "there is nothing here but blanks and comments",
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
