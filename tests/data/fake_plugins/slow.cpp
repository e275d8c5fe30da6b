#include "config/schema/describe.hpp"
#include "data/core/registry.hpp"
#include "spec/plugin_entry.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// A data set with a fixed delay, like a throttled disk, so that the speed of a run is known. With
// `rank` only that rank is slow. TRAINCTL_TEST_SLOWER adds a delay in percent to simulate a
// regression without a change of the experiment file.

namespace {

using namespace trainctl;

constexpr std::size_t kFeatures = 4;
constexpr std::int64_t kClasses = 2;

struct SlowRows {
  static constexpr auto kSummary = "Rows that take their time.";
  std::int64_t samples = 400;
  std::int64_t microseconds = 1000;
  int rank = -1;
  static void describe(config::Describe<SlowRows>& options) {
    options.field("samples", &SlowRows::samples, {.at_least = 1}, "Rows.");
    options.field("microseconds", &SlowRows::microseconds, {.at_least = 0}, "Time of each row.");
    options.field("rank", &SlowRows::rank, {.at_least = -1},
                  "The rank for which they do; -1: all.");
  }
};

data::Layout layout() {
  return {{"features", data::Dtype::f32, {kFeatures}}, {"label", data::Dtype::i64, {}}};
}

double slower() {
  const char* percent = std::getenv("TRAINCTL_TEST_SLOWER");
  return 1 + (percent == nullptr ? 0 : std::atof(percent)) / 100;
}

bool is_slow_here(int rank) {
  const char* const own = std::getenv("RANK");
  return rank < 0 || (own != nullptr && std::to_string(rank) == own);
}

double seconds_of(const SlowRows& options) {
  if (!is_slow_here(options.rank)) return 0;
  return 1e-6 * static_cast<double>(options.microseconds) * slower();
}

class SlowDataset final : public data::Dataset {
 public:
  explicit SlowDataset(const SlowRows& options)
      : samples_(options.samples), seconds_(seconds_of(options)), layout_(::layout()) {}

  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] const data::Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return kClasses; }
  [[nodiscard]] std::int64_t tile_rows() const override { return 4; }
  [[nodiscard]] std::string fingerprint() const override { return std::to_string(samples_); }

  void fill(std::span<const std::int64_t> indices, data::Rows rows) const override {
    const double wanted = seconds_ * static_cast<double>(indices.size());
    if (wanted > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wanted));
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t label = indices[i] % kClasses;
      float features[kFeatures];
      for (std::size_t k = 0; k < kFeatures; ++k)
        features[k] = static_cast<float>((indices[i] * 7 + static_cast<std::int64_t>(k)) % 11) +
                      static_cast<float>(label);
      if (!rows[0].empty()) std::memcpy(&rows[0][i * sizeof features], features, sizeof features);
      if (!rows[1].empty()) std::memcpy(&rows[1][i * sizeof label], &label, sizeof label);
    }
  }

 private:
  std::int64_t samples_;
  double seconds_;
  data::Layout layout_;
};

data::Facts facts(const config::Stage& stage) {
  return {.samples = stage.as<SlowRows>().samples, .classes = kClasses, .layout = layout()};
}

std::shared_ptr<const data::Dataset> make(const config::Stage& stage) {
  return std::make_shared<const SlowDataset>(stage.as<SlowRows>());
}

void describe(config::Vocabulary& all) { all.add<SlowRows>("dataset", "slow_rows"); }

void add_data(data::Catalog& all) {
  all.datasets["slow_rows"] = make;
  all.facts["slow_rows"] = facts;
}

}  // namespace

extern "C" const trainctl::spec::PluginEntry trainctl_plugin{.describe = describe,
                                                             .add_data = add_data};
