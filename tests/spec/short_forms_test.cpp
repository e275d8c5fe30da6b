#include "config/schema/dump.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/load.hpp"
#include "config/tree/node.hpp"
#include "experiment_yaml.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

// Overrides and `extends` may extend a field with a short form (`optimizer: adam`, `weights:
// file.pth`) in any order.

using namespace trainctl;
using config::Field;
using config::Node;
using config::ValueType;

namespace {

/// A field with a short form: `path=value` and `path.key=other` together give {main: value, key:
/// other}.
struct ShortForm {
  std::string path;
  std::vector<std::string> before;  // overrides that make the path possible
  std::string main;                 // "type", "path"
  std::string value;
  std::string key;
};

config::Grammar experiment_grammar() {
  return {&spec::experiment_schema(), &spec::builtin_vocabulary()};
}

class ShortFormCollector {
 public:
  std::vector<ShortForm> collect() {
    add_fields(spec::experiment_schema(), "", {}, 0);
    return std::move(found_);
  }

 private:
  void add_fields(const config::Schema& schema, const std::string& prefix,
                  const std::vector<std::string>& before, int depth) {
    for (const Field& field : schema.fields) add_field(field, prefix + field.key, before, depth);
  }

  void add_field(const Field& field, const std::string& path,
                 const std::vector<std::string>& before, int depth) {
    const config::FieldType& type = field.type;
    const std::string main = config::short_form_key(type);
    if (main.empty()) {
      if (type.object) add_fields(*type.object, path + ".", before, depth);
      return;
    }
    const bool is_inline = type.object && type.object->inline_stage;
    if (type.object && !is_inline) {
      for (const Field& other : type.object->fields) {
        if (other.key != main) found_.push_back({path, before, main, "some/file.pth", other.key});
      }
      return;
    }
    if (is_inline) add_fields(*type.object, path + ".", before, depth);
    const std::string kind =
        is_inline ? type.object->inline_stage->type.stage_kind : type.stage_kind;
    for (const std::string& name : spec::builtin_vocabulary().names(kind))
      add_stage(path, kind, name, before, depth);
  }

  void add_stage(const std::string& path, const std::string& kind, const std::string& name,
                 std::vector<std::string> before, int depth) {
    const config::Schema& schema = spec::builtin_vocabulary().find(kind, name)->schema;
    for (const Field& option : schema.fields)
      found_.push_back({path, before, "type", name, option.key});
    if (depth >= 1) return;
    before.push_back(path + "={type: " + name + "}");
    add_fields(schema, path + ".", before, depth + 1);
  }

  std::vector<ShortForm> found_;
};

Node tree_with(const std::vector<std::string>& overrides, std::string& problems) {
  config::Diagnostics diagnostics;
  Node tree = config::finish_tree(config::load_text("empty.yaml", "{}", diagnostics), overrides,
                                  diagnostics, experiment_grammar());
  problems = diagnostics.render();
  return tree;
}

/// Returns the value at the path as {key: text}, ignoring the order.
std::map<std::string, std::string> texts_of(const Node* node) {
  std::map<std::string, std::string> entries;
  if (node == nullptr) return entries;
  for (const config::Entry& entry : node->entries) entries[entry.key] = config::dump(entry.value);
  return entries;
}

std::map<std::string, std::string> entries_at(const Node& tree, const std::string& path) {
  return texts_of(config::find_path(tree, path));
}

/// Returns {a: {b: value}} for the path a.b.
Node value_at_path(const std::string& path, Node value) {
  const std::size_t dot = path.rfind('.');
  Node map = Node::map();
  map.entries.push_back({path.substr(dot + 1), {}, std::move(value)});
  return dot == std::string::npos ? map : value_at_path(path.substr(0, dot), std::move(map));
}

}  // namespace

TEST_CASE("short forms: every field is extended by overrides in any order", "[spec]") {
  const std::vector<ShortForm> all = ShortFormCollector().collect();
  CHECK(all.size() > 300);
  CHECK(std::ranges::any_of(all, [](const ShortForm& one) { return one.path == "weights"; }));
  CHECK(std::ranges::any_of(all, [](const ShortForm& one) { return one.path == "dataset.train"; }));
  for (const ShortForm& one : all) {
    std::vector<std::string> first = one.before;
    first.push_back("++" + one.path + "=" + one.value);
    first.push_back("++" + one.path + "." + one.key + "=7");
    std::vector<std::string> second = one.before;
    second.push_back("++" + one.path + "." + one.key + "=7");
    second.push_back("++" + one.path + "=" + one.value);
    std::string problems;
    std::string problems_of_second;
    const auto expected =
        std::map<std::string, std::string>{{one.main, config::dump(Node::scalar(one.value))},
                                           {one.key, config::dump(Node::scalar("7"))}};
    CAPTURE(first);
    CHECK(entries_at(tree_with(first, problems), one.path) == expected);
    CHECK(problems.empty());
    CHECK(entries_at(tree_with(second, problems_of_second), one.path) == expected);
    CHECK(problems_of_second.empty());
  }
}

TEST_CASE("short forms: every field is extended by extends in any order", "[spec]") {
  for (const ShortForm& one : ShortFormCollector().collect()) {
    if (!one.before.empty()) continue;
    Node keys = Node::map();
    keys.entries.push_back({one.key, {}, Node::scalar("7")});
    const Node small = value_at_path(one.path, Node::scalar(one.value));
    const Node large = value_at_path(one.path, keys);
    CAPTURE(one.path, one.value, one.key);
    const auto expected =
        std::map<std::string, std::string>{{one.main, config::dump(Node::scalar(one.value))},
                                           {one.key, config::dump(Node::scalar("7"))}};
    CHECK(entries_at(config::merge(small, large, experiment_grammar()), one.path) == expected);
    CHECK(entries_at(config::merge(large, small, experiment_grammar()), one.path) == expected);
  }
}

TEST_CASE("short forms: weights take a prefix in any order", "[spec]") {
  const std::vector<std::vector<std::string>> orders{
      {"weights=pl.ckpt", "weights.prefix=model."},
      {"weights.prefix=model.", "weights=pl.ckpt"},
      {"weights=pretrained", "weights.prefix=model."},
  };
  for (const std::vector<std::string>& overrides : orders) {
    CAPTURE(overrides);
    const auto weights = load_valid(overrides).experiment.weights;
    REQUIRE(weights.has_value());
    CHECK(weights->prefix == "model.");
    CHECK((weights->path.filename() == "pl.ckpt" || weights->path.filename() == "pretrained"));
  }
}

TEST_CASE("short forms: a file and what it extends take a prefix in any order", "[spec]") {
  const TempFolder folder;
  for (const bool short_first : {true, false}) {
    const std::string path = "weights: pl.ckpt\n";
    const std::string prefix = "weights: {prefix: model.}\n";
    put_text(folder / "base.yaml", kValidYaml + (short_first ? path : prefix));
    put_text(folder / "main.yaml", "extends: base.yaml\n" + (short_first ? prefix : path));
    config::Diagnostics diagnostics;
    const auto weights =
        spec::load_experiment(folder / "main.yaml", {}, diagnostics).experiment.weights;
    REQUIRE(weights.has_value());
    CHECK(weights->path == folder / "pl.ckpt");
    CHECK(weights->prefix == "model.");
  }
}

TEST_CASE("short forms: a short form replaces a complete value of a base file", "[spec]") {
  const TempFolder folder;
  put_text(folder / "base.yaml", std::string(kValidYaml) +
                                     "weights: {path: a.pth, prefix: model.}\n"
                                     "loss: {type: cross_entropy, label_smoothing: 0.1}\n");
  put_text(folder / "main.yaml", "extends: base.yaml\nweights: b.pth\nloss: cross_entropy\n");
  config::Diagnostics diagnostics;
  const auto loaded = spec::load_experiment(folder / "main.yaml", {}, diagnostics);
  CHECK(loaded.experiment.weights->path == folder / "b.pth");
  CHECK(loaded.experiment.weights->prefix.empty());
  CHECK_THAT(spec::dump_resolved(loaded), Contains("label_smoothing: 0 "));
}

TEST_CASE("short forms: a single value is extended to a list", "[spec]") {
  const std::string resize = "dataset.train.transforms=[{type: resize, size: 28}]";
  const auto loaded = load_valid({resize, "~dataset.val", "+dataset.train.transforms.0.size.1=32"});
  CHECK_THAT(spec::dump_resolved(loaded), Contains("size: [28, 32]"));
}
