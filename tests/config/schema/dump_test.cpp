#include "config/schema/dump.hpp"

#include "config/support.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

#include <random>

using namespace trainctl;
using config::Node;

namespace {

constexpr const char* kText = R"(name: run-1
optimizer: adam
dataset:
  train:
    type: digits
    samples: 100
    transforms: [random_crop, {type: normalize, mean: [0.1], std: [0.3]}]
model: {type: mlp, hidden: [32]}
metrics: [accuracy, {type: top_k_accuracy, k: 3}]
class_weights: {cat: 2, "no": 1}
token: "$${TOKEN}"
)";

Node written(const sample::Experiment& experiment) {
  return config::write_options(sample::schema(), &experiment);
}

bool same(const Node& a, const Node& b) {
  if (a.type != b.type || a.text != b.text || a.items.size() != b.items.size() ||
      a.entries.size() != b.entries.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!same(a.items[i], b.items[i])) return false;
  }
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].key != b.entries[i].key || !same(a.entries[i].value, b.entries[i].value))
      return false;
  }
  return true;
}

class RandomTree {
 public:
  explicit RandomTree(unsigned seed) : random_(seed) {}

  Node map(int depth) {
    Node node = Node::map();
    const int size = pick(5);
    for (int i = 0; i < size; ++i)
      node.entries.push_back({"k" + std::to_string(i) + text(), {}, any(depth - 1)});
    return node;
  }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  Node any(int depth) {
    const int kind = depth > 0 ? pick(8) : 2 + pick(6);
    if (kind == 0) return map(depth);
    if (kind == 1) {
      Node list = Node::list();
      for (int i = pick(4); i > 0; --i) list.items.push_back(any(depth - 1));
      return list;
    }
    if (kind == 2) return Node{};
    if (kind == 3) return Node::scalar(std::to_string(pick(1000)));
    return Node::scalar(text(), true);
  }

  std::string text() {
    constexpr std::string_view kParts[] = {"a",
                                           "Z9",
                                           "0",
                                           "1e3",
                                           "true",
                                           "yes",
                                           "null",
                                           "~",
                                           " ",
                                           ":",
                                           ": ",
                                           "#",
                                           " #",
                                           "-",
                                           "- ",
                                           "?",
                                           "[",
                                           "]",
                                           "{",
                                           "}",
                                           ",",
                                           "\"",
                                           "'",
                                           "\\",
                                           "\n",
                                           "\t",
                                           "%",
                                           "@",
                                           "&",
                                           "*",
                                           "!",
                                           "|",
                                           ">",
                                           "$",
                                           "${",
                                           "$${",
                                           "${a.b}",
                                           "}",
                                           "\x1b",
                                           "\xC3\xA9",
                                           "\xC2\x85",
                                           ".",
                                           "---",
                                           "...",
                                           "<<",
                                           "auto",
                                           "\xF0\x9F\x98\x80",
                                           "\r",
                                           "\xE2\x80\xA8",
                                           "="};
    std::string text;
    for (int i = pick(6); i > 0; --i)
      text += kParts[static_cast<std::size_t>(pick(static_cast<int>(std::size(kParts))))];
    return text;
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("dump: a random tree reads back the same") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const Node tree = RandomTree(seed).map(4);
    const std::string text = config::dump(tree);
    config::Diagnostics diagnostics;
    const Node back =
        config::finish_tree(config::load_text("dump", text, diagnostics), {}, diagnostics);
    INFO("seed " << seed << "\n" << text << diagnostics.render());
    REQUIRE(diagnostics.error_count() == 0);
    REQUIRE(same(tree, back));
  }
}

TEST_CASE("dump: an experiment reads back the same, also without its defaults") {
  const Node first = written(sample::experiment(kText));
  const Node second = written(sample::experiment(config::dump(first)));
  CHECK(same(first, second));
  CHECK(config::dump(first) == config::dump(second));
  const Node minimal = config::without_defaults(first, sample::schema(), sample::vocabulary());
  CHECK(same(first, written(sample::experiment(config::dump(minimal)))));
}

TEST_CASE("dump: each value has a comment with its origin") {
  const Node loaded = sample::tree(kText, {"optimizer.lr=0.5", "seed=7"});
  config::Diagnostics diagnostics;
  const Node tree = config::with_origins(written(sample::read(loaded, diagnostics)), loaded);
  CHECK(diagnostics.error_count() == 0);
  check_golden("config/resolved.yaml", config::dump(tree, {.comments = config::Comments::origins}));
}

TEST_CASE("without_defaults: only values other than the default remain") {
  const Node tree = config::without_defaults(written(sample::experiment(kText)), sample::schema(),
                                             sample::vocabulary());
  check_golden("config/minimal.yaml", config::dump(tree));
}

TEST_CASE("dump: each key has a comment with its help text") {
  const config::DumpOptions options{config::Comments::help, &sample::schema(),
                                    &sample::vocabulary()};
  const std::string text = config::dump(written(sample::experiment(kText)), options);
  check_golden("config/full.yaml", text);
  CHECK(sample::problems(text).empty());
}
