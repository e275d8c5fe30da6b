#include "base/random.hpp"
#include "device/host_read.hpp"
#include "spec/options/task.hpp"
#include "stages/builtin.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

constexpr std::uint16_t kOperation = 0xfe00;  // of the random numbers; the loader uses others
constexpr std::int64_t kStays = -1;

/// The hidden places of a batch, both int64 [rows, places].
struct Hidden {
  at::Tensor places;
  at::Tensor tokens;  // that replace the tokens there; kStays: the token stays
};

class MaskedLanguageModeling final : public stage::Task {
 public:
  MaskedLanguageModeling(const spec::task::MaskedLanguageModeling& options,
                         const stage::TaskContext& context)
      : probability_(options.probability),
        mask_(options.mask_token.value_or(context.model.outputs - 1)),
        tokens_(context.model.outputs - (options.mask_token.is_auto() ? 1 : 0)),
        seed_(context.seed) {}

  /// Only the hidden tokens are compared, so outputs are [N, places, vocabulary size].
  stage::TaskResult step(const device::DeviceBatch& batch, stage::StepTools& tools) override {
    const std::int64_t length = batch.inputs.size(1);
    const Hidden hidden = draw(batch, tools);
    device::DeviceBatch own = batch;
    own.targets = batch.inputs.gather(1, hidden.places);
    own.inputs = batch.inputs.scatter(
        1, hidden.places, at::where(hidden.tokens.eq(kStays), own.targets, hidden.tokens));
    const at::Tensor outputs = tools.forward(own.inputs).flatten(0, 1);
    const at::Tensor first =
        at::arange(0, batch.inputs.numel(), length, hidden.places.options()).unsqueeze(1);
    const at::Tensor rows = (hidden.places + first).flatten();
    stage::TaskResult result{
        outputs.index_select(0, rows).unflatten(0, own.targets.sizes()), own, {}};
    result.loss = tools.loss(result.outputs, own);
    return result;
  }

 private:
  /// The same sample has the same hidden tokens in every evaluation, and others in each epoch of
  /// training.
  [[nodiscard]] Hidden draw(const device::DeviceBatch& batch, stage::StepTools& tools) const {
    const std::int64_t length = batch.inputs.size(1);
    const std::int64_t count = std::clamp<std::int64_t>(
        std::llround(probability_ * static_cast<double>(length)), 1, length);
    const stage::BatchSamples samples = tools.samples(batch);
    const bool trains = tools.mode() == stage::RunMode::train;
    const auto epoch = static_cast<std::uint32_t>(trains ? samples.epoch : 0);
    const at::Tensor places = at::empty({batch.inputs.size(0), count}, at::kLong);
    const at::Tensor tokens = at::empty_like(places);
    auto* place = places.mutable_data_ptr<std::int64_t>();
    auto* token = tokens.mutable_data_ptr<std::int64_t>();
    std::vector<std::int64_t> order(static_cast<std::size_t>(length));
    for (const std::int64_t sample : samples.indices) {
      CounterRng rng(seed_, epoch, static_cast<std::uint64_t>(sample), kOperation);
      std::iota(order.begin(), order.end(), 0);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto left = static_cast<std::uint64_t>(length - i);
        std::swap(order[static_cast<std::size_t>(i)],
                  order[static_cast<std::size_t>(i) + rng.below(left)]);
        *place++ = order[static_cast<std::size_t>(i)];
        *token++ = replacement(rng);
      }
    }
    constexpr const char* kPlace = "hidden tokens of a batch";
    const at::Device device = batch.inputs.device();
    return {device::copy_to(places, device, kPlace), device::copy_to(tokens, device, kPlace)};
  }

  [[nodiscard]] std::int64_t replacement(CounterRng& rng) const {
    const std::uint64_t tenth = rng.below(10);
    if (tenth < 8) return mask_;
    return tenth == 8 ? static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(tokens_)))
                      : kStays;
  }

  double probability_;
  std::int64_t mask_;
  std::int64_t tokens_;  // that may replace others
  std::uint64_t seed_;
};

}  // namespace

void register_task_masked_language_modeling(stage::Catalog& catalog) {
  catalog.tasks.add_class<spec::task::MaskedLanguageModeling, MaskedLanguageModeling>(
      "masked_language_modeling");
}

}  // namespace trainctl::stages
