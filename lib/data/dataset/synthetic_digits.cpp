#include "spec/dataset/synthetic_digits.hpp"

#include "base/machine/machine.hpp"
#include "data/core/registry.hpp"
#include "data/dataset/digit_renderer.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace trainctl::data {
namespace {

using spec::dataset::SyntheticDigits;

constexpr std::int64_t kTrainSamples = 60'000;
constexpr std::int64_t kTestSamples = 10'000;
constexpr std::int64_t kSamplesPerThread = 5'000;  // fewer are not worth starting one
constexpr std::int64_t kMostThreads = 16;

Facts facts_of(const SyntheticDigits& options) {
  const std::int64_t whole = options.split == spec::Split::train ? kTrainSamples : kTestSamples;
  return MemoryDataset::facts(options.samples.value_or(whole), 10, {kDigitSide, kDigitSide, 1});
}

class Renderer {
 public:
  explicit Renderer(const SyntheticDigits& options)
      : options_(options),
        facts_(facts_of(options)),
        pixels_(image_memory(facts_)),
        labels_(static_cast<std::size_t>(facts_.samples)) {}

  std::shared_ptr<const Dataset> render() {
    const std::int64_t wished = (facts_.samples + kSamplesPerThread - 1) / kSamplesPerThread;
    const std::int64_t threads = std::min<std::int64_t>({wished, usable_cores(), kMostThreads});
    {
      std::vector<std::jthread> helpers;
      std::int64_t started = 1;
      try {
        for (; started < threads; ++started)
          helpers.emplace_back([this, started, threads] { render_share(started, threads); });
      } catch (const std::system_error&) {  // no further thread is to be had
      }
      render_share(0, threads);
      for (std::int64_t i = started; i < threads; ++i) render_share(i, threads);
    }
    return std::make_shared<const MemoryDataset>(facts_, std::move(pixels_), std::move(labels_));
  }

 private:
  void render_share(std::int64_t share, std::int64_t shares) {
    const auto split = static_cast<std::uint32_t>(options_.split);
    const auto all =
        std::span(reinterpret_cast<std::uint8_t*>(pixels_.bytes().data()), pixels_.bytes().size());
    for (std::int64_t i = facts_.samples * share / shares;
         i < facts_.samples * (share + 1) / shares; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const auto image = all.subspan(index * kDigitPixels).first<kDigitPixels>();
      labels_[index] = render_digit({options_.seed, split, index}, image);
    }
  }

  SyntheticDigits options_;
  Facts facts_;
  Arena pixels_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace

void register_dataset_synthetic_digits(Catalogue& catalogue) {
  catalogue.datasets["synthetic_digits"] = [](const config::Stage& stage) {
    return Renderer(stage.as<SyntheticDigits>()).render();
  };
  catalogue.facts["synthetic_digits"] = [](const config::Stage& stage) {
    return facts_of(stage.as<SyntheticDigits>());
  };
}

}  // namespace trainctl::data
