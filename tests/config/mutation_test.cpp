#include "base/error.hpp"
#include "config/schema/dump.hpp"
#include "config/support.hpp"
#include "support/catch.hpp"

#include <random>

using namespace trainctl;

namespace {

constexpr std::string_view kSeeds[] = {
    "name: run\nseed: 42\noptimizer: {type: adam, lr: 1e-3, betas: [0.9, 0.999]}\nloader: "
    "{batch_size: 64, "
    "num_workers: auto}\n",
    "optimizer:\n  type: sgd\n  momentum: 0.9\ndataset:\n  train:\n    type: digits\n    "
    "transforms:\n      - "
    "random_crop\n"
    "      - type: normalize\n        mean: [0.1]\n        std: [0.3]\nmetrics: [accuracy]\n",
    "a: &a {b: \"${c}\"}\nc: *a\noptimizer: adam\nname: 'x ${seed} $${y}'\nseed: "
    "${env:HOME,3}\ntoken: |\n  two\n  "
    "lines\n",
};

std::string mutated(std::mt19937& random) {
  constexpr std::string_view kAlphabet =
      "\n\t :-?[]{},#&*!|>'\"%@`$~<=.0123456789eaxn\\\xC3\xA9\x01";
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  std::string text(kSeeds[pick(std::size(kSeeds))]);
  for (std::size_t edits = 1 + pick(3); edits > 0; --edits) {
    const std::size_t at = pick(text.size());
    const std::size_t kind = pick(4);
    if (kind == 0) text[at] = kAlphabet[pick(kAlphabet.size())];
    if (kind == 1) text.insert(at, 1, kAlphabet[pick(kAlphabet.size())]);
    if (kind == 2 && text.size() > 2) text.erase(at, 1 + pick(3));
    if (kind == 3) text.insert(at, text.substr(pick(text.size()), pick(12)));
    if (text.empty()) text = "a";
  }
  return text;
}

}  // namespace

// The 10,000 files are the same on every machine; tests/fuzz/config_fuzz.cpp searches further.
TEST_CASE("config: a mutated file is an error, or its dump reads back the same") {
  std::mt19937 random(20261121);
  int accepted = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = mutated(random);
    INFO(text);
    config::Diagnostics diagnostics;
    const config::Node tree = config::finish_tree(config::load_text("m.yaml", text, diagnostics),
                                                  {"trainer.max_epochs=3"}, diagnostics);
    const sample::Experiment read = sample::read(tree, diagnostics);
    if (diagnostics.error_count() > 0) {
      REQUIRE_FALSE(diagnostics.render().empty());
      continue;
    }
    ++accepted;
    const std::string dumped = config::dump(config::write_options(sample::schema(), &read));
    const sample::Experiment back = sample::experiment(dumped);
    REQUIRE(config::dump(config::write_options(sample::schema(), &back)) == dumped);
  }
  CHECK(accepted > 100);
}
