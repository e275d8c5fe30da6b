#include "spec/options/layer.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/_use_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/rnn_relu.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>
#include <tuple>
#include <vector>

namespace trainctl::stages {
namespace {

/// The numbers are those of cudnnRNNMode_t.
enum class Cell { relu = 0, tanh = 1, lstm = 2, gru = 3 };

Cell cell_of(const spec::layer::Rnn& options) {
  return options.nonlinearity == spec::layer::Nonlinearity::relu ? Cell::relu : Cell::tanh;
}
Cell cell_of(const spec::layer::Gru& /*options*/) { return Cell::gru; }
Cell cell_of(const spec::layer::Lstm& /*options*/) { return Cell::lstm; }

std::int64_t gates(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

/// rnn, gru and lstm. The initial state is zero.
class RecurrentLayer final : public LayeredModule {
 public:
  RecurrentLayer(Cell cell, const spec::layer::Recurrent& options,
                 const stage::LayerContext& context)
      : cell_(cell), options_(options), features_(context.input.shape[1]) {
    // cuDNN's generator for dropout is in no checkpoint, so that dropout between layers is ours.
    const bool separate = options.dropout > 0;
    depth_ = separate ? 1 : options.num_layers;
    stacks_.resize(static_cast<std::size_t>(separate ? options.num_layers : 1));
    for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
      auto& weights = stacks_[static_cast<std::size_t>(layer / depth_)];
      const std::int64_t inputs = layer == 0 ? features_ : width();
      add_layer(weights, fmt::format("l{}", layer), inputs);
      if (options.bidirectional) add_layer(weights, fmt::format("l{}_reverse", layer), inputs);
    }
  }

  /// Takes [N, T, E] and returns [N, T, H], or [N, H] for the last state.
  at::Tensor forward(const at::Tensor& inputs) override {
    // On a CPU, autocast does not convert the weights to the type of 16-bit inputs.
    at::Tensor x = inputs.is_cpu() ? inputs.to(stacks_[0][0].scalar_type()) : inputs;
    at::Tensor last;
    for (std::size_t i = 0; i < stacks_.size(); ++i) {
      if (i > 0) x = at::dropout(x, options_.dropout, training());
      std::tie(x, last) = run(stacks_[i], x);
    }
    if (options_.output == spec::layer::RecurrentOutput::sequence) return x;
    const std::int64_t directions = options_.directions();  // of the top layer: [D, N, H]
    return last.narrow(0, last.size(0) - directions, directions).transpose(0, 1).flatten(1);
  }

  /// cuDNN reads all weights from one buffer, to which it would otherwise copy them in each step.
  void to(at::Device device) override {
    LayeredModule::to(device);
    if (!device.is_cuda() || !at::_use_cudnn_rnn_flatten_weight()) return;
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < stacks_.size(); ++i) {
      at::_cudnn_rnn_flatten_weight(stacks_[i], options_.bias ? 4 : 2, i == 0 ? features_ : width(),
                                    static_cast<std::int64_t>(cell_), options_.hidden_size,
                                    /*proj_size=*/0, depth_, kBatchFirst, options_.bidirectional);
    }
  }

 private:
  static constexpr bool kBatchFirst = true;
  using Weights = std::vector<at::Tensor>;

  [[nodiscard]] std::int64_t width() const { return options_.directions() * options_.hidden_size; }

  void add_layer(Weights& weights, const std::string& suffix, std::int64_t inputs) {
    const std::int64_t rows = gates(cell_) * options_.hidden_size;
    add(weights, "weight_ih_" + suffix, {rows, inputs});
    add(weights, "weight_hh_" + suffix, {rows, options_.hidden_size});
    if (!options_.bias) return;
    add(weights, "bias_ih_" + suffix, {rows});
    add(weights, "bias_hh_" + suffix, {rows});
  }

  void add(Weights& weights, const std::string& name, at::IntArrayRef shape) {
    const double bound = 1 / std::sqrt(static_cast<double>(options_.hidden_size));
    weights.push_back(add_parameter(name, at::empty(shape, at::kFloat).uniform_(-bound, bound)));
  }

  /// Returns the outputs of the top layer of a stack, and the final states of its layers.
  [[nodiscard]] std::tuple<at::Tensor, at::Tensor> run(const Weights& weights,
                                                       const at::Tensor& x) const {
    const at::Tensor zeros =
        at::zeros({depth_ * options_.directions(), x.size(0), options_.hidden_size}, x.options());
    const auto with = [&](auto function, const auto& state) {
      return function(x, state, weights, options_.bias, depth_, /*dropout=*/0.0, training(),
                      options_.bidirectional, kBatchFirst);
    };
    switch (cell_) {
      case Cell::relu: return with([](auto&&... all) { return at::rnn_relu(all...); }, zeros);
      case Cell::tanh: return with([](auto&&... all) { return at::rnn_tanh(all...); }, zeros);
      case Cell::gru: return with([](auto&&... all) { return at::gru(all...); }, zeros);
      case Cell::lstm: break;
    }
    const std::vector<at::Tensor> hidden_and_cell{zeros, zeros};
    auto [sequence, last, cells] =
        with([](auto&&... all) { return at::lstm(all...); }, hidden_and_cell);
    return {sequence, last};
  }

  Cell cell_;
  spec::layer::Recurrent options_;
  std::int64_t features_;
  std::int64_t depth_ = 1;       // layers of a stack
  std::vector<Weights> stacks_;  // of layers that one operator computes
};

template <class Options>
void add_recurrent(stage::Catalog& catalog, const std::string& name) {
  catalog.layers.add<Options>(name, [](const Options& options, const auto& context) {
    return std::make_unique<RecurrentLayer>(cell_of(options), options, context);
  });
}

}  // namespace

void register_layer_recurrent(stage::Catalog& catalog) {
  add_recurrent<spec::layer::Rnn>(catalog, "rnn");
  add_recurrent<spec::layer::Gru>(catalog, "gru");
  add_recurrent<spec::layer::Lstm>(catalog, "lstm");
}

}  // namespace trainctl::stages
