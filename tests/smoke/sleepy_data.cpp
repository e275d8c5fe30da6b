#include "config/describe.hpp"
#include "data/dataset.hpp"
#include "data/registry.hpp"
#include "spec/plugin_entry.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

// A data set whose samples take their time, as on a throttled disk: what tune is to find. With
// `rank` only that rank is slow.

namespace {

using namespace trainctl;

constexpr std::int64_t kFeatures = 32;

struct Sleepy {
  static constexpr auto kSummary = "Rows of numbers that take a while to read.";
  std::int64_t samples = 1000;
  int sleep_us = 1000;
  int rank = -1;
  static void describe(config::Describe<Sleepy>& options) {
    options.field("samples", &Sleepy::samples, "Number of rows.").at_least(1);
    options.field("sleep_us", &Sleepy::sleep_us, "Microseconds that a row takes.").at_least(0);
    options.field("rank", &Sleepy::rank, "The rank for which it does; -1: all.").at_least(-1);
  }
};

data::Layout layout_of() {
  return {{"features", data::Dtype::f32, {kFeatures}}, {"label", data::Dtype::i64, {}}};
}

bool is_slow_here(int rank) {
  const char* const own = std::getenv("RANK");
  return rank < 0 || (own != nullptr && std::to_string(rank) == own);
}

class SleepyRows final : public data::Dataset {
 public:
  explicit SleepyRows(const Sleepy& options)
      : samples_(options.samples),
        pause_(is_slow_here(options.rank) ? options.sleep_us : 0),
        layout_(layout_of()) {}

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] const data::Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 2; }
  [[nodiscard]] std::int64_t tile_rows() const override { return 4; }
  [[nodiscard]] std::string fingerprint() const override { return std::to_string(samples_); }

  void fill(std::span<const std::int64_t> indices, data::Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (pause_.count() > 0) std::this_thread::sleep_for(pause_);
      const std::int64_t label = indices[i] % 2;
      if (!rows[1].empty()) std::memcpy(&rows[1][i * sizeof label], &label, sizeof label);
      for (std::size_t k = 0; !rows[0].empty() && k < kFeatures; ++k) {
        const auto value = static_cast<float>((indices[i] * 7 + static_cast<std::int64_t>(k)) % 13);
        std::memcpy(&rows[0][(i * kFeatures + k) * sizeof value], &value, sizeof value);
      }
    }
  }

 private:
  std::int64_t samples_;
  std::chrono::microseconds pause_;
  data::Layout layout_;
};

data::Facts facts(const config::Stage& stage) {
  return {.samples = stage.as<Sleepy>().samples, .classes = 2, .layout = layout_of()};
}

std::shared_ptr<const data::Dataset> make(const config::Stage& stage) {
  return std::make_shared<const SleepyRows>(stage.as<Sleepy>());
}

void describe(config::Vocabulary& all) { all.add<Sleepy>("dataset", "sleepy"); }

void add_data(data::Catalogue& all) {
  all.datasets["sleepy"] = make;
  all.facts["sleepy"] = facts;
}

}  // namespace

extern "C" const trainctl::spec::PluginEntry trainctl_plugin{.describe = describe,
                                                             .add_data = add_data};
