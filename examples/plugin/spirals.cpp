// libspirals.so: the options that `validate` needs, and the data set. It does not use libtorch.

#include "options.hpp"

#include <base/random.hpp>
#include <data/core/memory_dataset.hpp>
#include <data/core/registry.hpp>
#include <spec/plugin_entry.hpp>

#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

namespace spirals {
namespace {

namespace data = trainctl::data;

/// Each sample has two numbers, "features", and a class, "label".
data::Layout layout() {
  return {{"features", data::Dtype::f32, {2}}, {"label", data::Dtype::i64, {}}};
}

/// Returns the size and layout without making the points, so that `validate` is quick.
data::Facts facts(const config::Stage& stage) {
  const auto& options = stage.as<Spirals>();
  return {.samples = options.samples, .classes = options.arms, .layout = layout()};
}

/// Each point depends only on the seed and on its index, so any thread could make it.
std::shared_ptr<const data::Dataset> make(const config::Stage& stage) {
  const auto& options = stage.as<Spirals>();
  std::vector<float> points;
  std::vector<std::byte> labels(static_cast<std::size_t>(options.samples) * sizeof(std::int64_t));
  for (std::int64_t i = 0; i < options.samples; ++i) {
    trainctl::CounterRng rng(options.seed, 0, static_cast<std::uint64_t>(i), 0);
    const std::int64_t arm = i % options.arms;
    const double radius = 0.1 + 0.9 * static_cast<double>(rng.uniform());
    const double angle =
        2 * std::numbers::pi * (options.turns * radius + static_cast<double>(arm) / options.arms);
    for (const double at : {radius * std::cos(angle), radius * std::sin(angle)}) {
      const double distance = options.noise * (2 * static_cast<double>(rng.uniform()) - 1);
      points.push_back(static_cast<float>(at + distance));
    }
    std::memcpy(&labels[static_cast<std::size_t>(i) * sizeof arm], &arm, sizeof arm);
  }
  std::vector<data::FieldRows> fields;
  fields.push_back(data::owned_rows(layout()[0], std::move(points)));
  fields.push_back(data::owned_rows(layout()[1], std::move(labels)));
  return std::make_shared<const data::RowsDataset>(std::move(fields), options.arms);
}

void describe(config::Vocabulary& all) {
  all.add<Spirals>("dataset", "spirals");
  all.add<GatedMlp>("model", "gated_mlp");
  all.add<Poly1>("loss", "poly1");
  all.add<Consistency>("task", "consistency");
}

void add_data(data::Catalog& all) {
  all.datasets["spirals"] = make;
  all.facts["spirals"] = facts;
}

}  // namespace
}  // namespace spirals

extern "C" const trainctl::spec::PluginEntry trainctl_plugin{
    .describe = spirals::describe,
    .add_data = spirals::add_data,
    .engine = "libspirals_engine.so",
    .takes_targets = trainctl::spec::stage_supports<trainctl::spec::Targets, spirals::Poly1>};
