#include "spec/options/layer.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/_use_cudnn_rnn_flatten_weight.h>
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
class RecurrentLayer : public LayeredModule {
 public:
  RecurrentLayer(Cell cell, const spec::layer::Recurrent& options,
                 const stage::LayerContext& context)
      : cell_(cell), options_(options), features_(context.input.shape[1]) {
    const std::int64_t state = options.hidden_size;
    const std::int64_t rows = gates(cell) * state;
    for (std::int64_t i = 0; i < options.num_layers * options.directions(); ++i) {
      const std::int64_t layer = i / options.directions();
      const bool backward = i % options.directions() == 1;
      const std::string suffix = fmt::format("l{}{}", layer, backward ? "_reverse" : "");
      add("weight_ih_" + suffix, {rows, layer == 0 ? features_ : options.directions() * state});
      add("weight_hh_" + suffix, {rows, state});
      if (!options.bias) continue;
      add("bias_ih_" + suffix, {rows});
      add("bias_hh_" + suffix, {rows});
    }
  }

  /// Takes [N, T, E] and returns [N, T, H], or [N, H] for the last state.
  at::Tensor forward(const at::Tensor& inputs) override {
    const std::int64_t states = options_.num_layers * options_.directions();
    // On a CPU, autocast does not convert the weights to the type of 16-bit inputs.
    const at::Tensor x = inputs.is_cpu() ? inputs.to(weights_[0].scalar_type()) : inputs;
    const auto [sequence, last] =
        run(x, at::zeros({states, x.size(0), options_.hidden_size}, x.options()));
    if (options_.output == spec::layer::RecurrentOutput::sequence) return sequence;
    const std::int64_t directions = options_.directions();  // of the top layer: [D, N, H]
    return last.narrow(0, states - directions, directions).transpose(0, 1).flatten(1);
  }

  /// cuDNN reads all weights from one buffer, to which it would otherwise copy them in each step.
  void to(at::Device device) override {
    LayeredModule::to(device);
    if (!device.is_cuda() || !at::_use_cudnn_rnn_flatten_weight()) return;
    const at::NoGradGuard guard;
    at::_cudnn_rnn_flatten_weight(weights_, options_.bias ? 4 : 2, features_,
                                  static_cast<std::int64_t>(cell_), options_.hidden_size,
                                  /*proj_size=*/0, options_.num_layers, kBatchFirst,
                                  options_.bidirectional);
  }

 private:
  static constexpr bool kBatchFirst = true;

  void add(const std::string& name, at::IntArrayRef shape) {
    const double bound = 1 / std::sqrt(static_cast<double>(options_.hidden_size));
    weights_.push_back(add_parameter(name, at::empty(shape, at::kFloat).uniform_(-bound, bound)));
  }

  /// Returns the outputs of the top layer, and the final states of all layers and directions.
  [[nodiscard]] std::tuple<at::Tensor, at::Tensor> run(const at::Tensor& x,
                                                       const at::Tensor& zeros) const {
    const auto with = [&](auto function, const auto& state) {
      return function(x, state, weights_, options_.bias, options_.num_layers, options_.dropout,
                      training(), options_.bidirectional, kBatchFirst);
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
  std::vector<at::Tensor> weights_;
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
